// Rotary positions: each pair of numbers rotated by its token's angle. The pairs are neighbours (2i, 2i + 1) or half of
// the rotated part apart (i, i + pairs); what follows the last pair is copied. The output may be the input itself.
#pragma once
#include "storage.h"
#include "work.h"

namespace regard {
namespace REGARD_ISA {
namespace {

template <class Real>
void rotate_halves(const Real* x, const Real* cosines, const Real* sines, int64_t pairs, Real* to) {
    constexpr int L = lanes<Real>;
    int64_t i = 0;
    for (; i + L <= pairs; i += L) {
        const Vec<Real> a = load(x + i), b = load(x + pairs + i), c = load(cosines + i), s = load(sines + i);
        store<Real>(to + i, a * c - b * s);
        store<Real>(to + pairs + i, b * c + a * s);
    }
    for (; i < pairs; ++i) {
        const Real a = x[i], b = x[pairs + i];
        to[i] = a * cosines[i] - b * sines[i];
        to[pairs + i] = b * cosines[i] + a * sines[i];
    }
}

// The even (odd) lanes of two vectors; and the way back, their first (second) half lane by lane.
template <class Real, int odd, int... lane>
REGARD_INLINE Vec<Real> every_second(Vec<Real> a, Vec<Real> b, std::integer_sequence<int, lane...>) {
    return __builtin_shufflevector(a, b, (2 * lane + odd)...);
}
template <class Real, int second, int... lane>
REGARD_INLINE Vec<Real> in_turns(Vec<Real> a, Vec<Real> b, std::integer_sequence<int, lane...>) {
    constexpr int L = lanes<Real>;
    return __builtin_shufflevector(a, b, (second * L / 2 + lane / 2 + (lane % 2) * L)...);
}

template <class Real>
void rotate_neighbours(const Real* x, const Real* cosines, const Real* sines, int64_t pairs, Real* to) {
    constexpr int L = lanes<Real>;
    constexpr auto every = std::make_integer_sequence<int, L>{};
    int64_t i = 0;
    for (; i + L <= pairs; i += L) {
        const Vec<Real> low = load(x + 2 * i), high = load(x + 2 * i + L), c = load(cosines + i), s = load(sines + i);
        const Vec<Real> a = every_second<Real, 0>(low, high, every), b = every_second<Real, 1>(low, high, every);
        const Vec<Real> turned_a = a * c - b * s, turned_b = b * c + a * s;
        store<Real>(to + 2 * i, in_turns<Real, 0>(turned_a, turned_b, every));
        store<Real>(to + 2 * i + L, in_turns<Real, 1>(turned_a, turned_b, every));
    }
    for (; i < pairs; ++i) {
        const Real a = x[2 * i], b = x[2 * i + 1];
        to[2 * i] = a * cosines[i] - b * sines[i];
        to[2 * i + 1] = b * cosines[i] + a * sines[i];
    }
}

// A block of tokens of one sequence, for all heads.
template <class Real>
void rotate_tokens(const Rotary& r, int64_t sequence, int64_t first, int64_t tokens, Real* memory) {
    const View &x = r.x, &out = r.output;
    const int64_t size = x.shape[3], pairs = r.cosines.shape[3];
    Real *cosines = memory, *sines = cosines + tokens * pairs, *copy = sines + tokens * pairs, *line = copy + size;
    const auto angles = [&](const View& view, Real* space) {
        return plain_rows<Real>(view, view.shape[0] == 1 ? 0 : sequence, 0, first, tokens, space);
    };
    const PlainRows<Real> c = angles(r.cosines, cosines), s = angles(r.sines, sines);
    const bool direct = plain<Real>(out);
    for (int64_t head = 0; head < x.shape[1]; ++head)
        for (int64_t t = 0; t < tokens; ++t) {
            const Real* row = numbers<Real>(x.at(sequence, head, first + t), x.type, x.stride[3], size, copy);
            char* place = out.at(sequence, head, first + t);
            Real* to = direct ? reinterpret_cast<Real*>(place) : line;
            if (to != row) std::copy(row + 2 * pairs, row + size, to + 2 * pairs);
            if (r.interleaved)
                rotate_neighbours<Real>(row, c.data + t * c.row, s.data + t * s.row, pairs, to);
            else
                rotate_halves<Real>(row, c.data + t * c.row, s.data + t * s.row, pairs, to);
            if (!direct) write_numbers<Real>(line, size, place, out.type, out.stride[3]);
        }
}

template <class Real>
bool rotary_of(const Rotary& r) {
    const View& x = r.x;
    const int64_t heads = x.shape[1], tokens = x.shape[2], size = x.shape[3], pairs = r.cosines.shape[3];
    if (heads * size == 0 || tokens == 0) return true;
    const int64_t block = std::clamp<int64_t>(16384 / (heads * size), 1, tokens), blocks = (tokens + block - 1) / block;
    auto work = [&](int64_t item, void* memory) {
        const int64_t first = item % blocks * block;
        rotate_tokens<Real>(r, item / blocks, first, std::min(block, tokens - first), static_cast<Real*>(memory));
    };
    const double count = static_cast<double>(x.shape[0] * heads) * static_cast<double>(tokens * size);
    return run_items(x.shape[0] * blocks, static_cast<size_t>(2 * block * pairs + 2 * size) * sizeof(Real), 12. * count,
                     work);
}

bool rotary(const Rotary& r) { return r.x.type == Type::f64 ? rotary_of<double>(r) : rotary_of<float>(r); }

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
