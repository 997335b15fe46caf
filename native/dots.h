// Products of a few rows with many: lanes run along the depth, so both sides are read by vectors from where they lie,
// nothing is packed, and any number of rows costs only its own work.
//
//   to[r][o] (+)= Σ_t x[r · x_row + t] · weight[o · weight_row + t]
#pragma once
#include "storage.h"

namespace regard {
namespace REGARD_ISA {
namespace {

// 3 × 4 sums, a row's 3 numbers and a weight fill 16 registers: 7 loads for 12 multiply-adds.
constexpr int dot_rows_at_once = registers == 32 ? 6 : 3;
constexpr int dot_outs = 4;
#ifndef FB
#define FB 16384
#endif
constexpr int64_t fetch_bytes = FB;

// Shuffles of two vectors, in 128-bit pieces: a half of a's piece beside a half of b's; or the even (odd) lanes of both.
template <class Real, bool second, int... lane>
REGARD_INLINE Vec<Real> halves(Vec<Real> a, Vec<Real> b, std::integer_sequence<int, lane...>) {
    constexpr int L = lanes<Real>, half = 8 / static_cast<int>(sizeof(Real)), shift = second ? half : 0;
    return __builtin_shufflevector(a, b, (lane % (2 * half) < half ? lane + shift : L + lane - half + shift)...);
}
template <class Real, bool second, int... lane>
REGARD_INLINE Vec<Real> alternate(Vec<Real> a, Vec<Real> b, std::integer_sequence<int, lane...>) {
    constexpr int L = lanes<Real>;
    if constexpr (sizeof(Real) == 4)
        return __builtin_shufflevector(a, b, ((lane & 2 ? L : 0) + (lane & ~3) + 2 * (lane & 1) + second)...);
    else
        return __builtin_shufflevector(a, b, ((lane & 2 ? L : 0) + (lane & ~3) + (lane & 1) + 2 * second)...);
}

// Adds the upper half to the lower until four numbers are left.
template <class Real, int L, class Wide, int... lane>
REGARD_INLINE void store_folded(Wide wide, bool add, Real* to, std::integer_sequence<int, lane...>) {
    if constexpr (L == dot_outs) {
        typedef Real Loose __attribute__((vector_size(sizeof(Wide)), aligned(sizeof(Real)), may_alias));
        auto* place = reinterpret_cast<Loose*>(to);
        *place = add ? *place + wide : wide;
    } else {
        const auto folded = __builtin_shufflevector(wide, wide, lane...) + __builtin_shufflevector(wide, wide, (lane + L / 2)...);
        store_folded<Real, L / 2>(folded, add, to, std::make_integer_sequence<int, L / 4>{});
    }
}

// The lanes' sums of four vectors, beside each other.
template <class Real>
REGARD_INLINE void add_lanes(const Vec<Real> (&sum)[dot_outs], bool add, Real* to) {
    constexpr int L = lanes<Real>;
    constexpr auto every = std::make_integer_sequence<int, L>{};
    const Vec<Real> ab = halves<Real, false>(sum[0], sum[1], every) + halves<Real, true>(sum[0], sum[1], every);
    const Vec<Real> cd = halves<Real, false>(sum[2], sum[3], every) + halves<Real, true>(sum[2], sum[3], every);
    if constexpr (L == 2) {
        store<Real>(to, add ? load(to) + ab : ab);
        store<Real>(to + 2, add ? load(to + 2) + cd : cd);
    } else {
        const Vec<Real> abcd = alternate<Real, false>(ab, cd, every) + alternate<Real, true>(ab, cd, every);
        store_folded<Real, L>(abcd, add, to, std::make_integer_sequence<int, L / 2>{});
    }
}

// Holds a number in its register: GCC would read it from memory again for each use.
template <class V>
REGARD_INLINE void keep(V& x) {
#if defined(__x86_64__)
    asm("" : "+v"(x));
#elif defined(__ARM_NEON)
    asm("" : "+w"(x));
#else
    (void)x;
#endif
}

template <class Real, class Stored>
struct Dots {
    int64_t depth;
    const Real* x;
    int64_t x_row;
    const Stored* weight;
    int64_t weight_row, outs;
    bool add;
    Real* to;  // rows have room for a whole number of dot_outs
    int64_t to_row;
};

// R rows times dot_outs weights; the depth is a whole number of vectors. Meanwhile `fetched` rows of the weights that
// come next are brought near.
template <int R, int fetched, class Real, class Stored>
void dot_block(const Dots<Real, Stored>& d, const Stored* next) {
    constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(Stored));
    const Real* x[R];
    const Stored* weight[dot_outs];
    Vec<Real> sum[R][dot_outs];
    for (int r = 0; r < R; ++r) x[r] = d.x + r * d.x_row;
    for (int o = 0; o < dot_outs; ++o) weight[o] = d.weight + std::min<int64_t>(o, d.outs - 1) * d.weight_row;
    for (int r = 0; r < R; ++r)
        for (int o = 0; o < dot_outs; ++o) sum[r][o] = Vec<Real>{};
    const int64_t depth = d.depth, next_row = d.weight_row;
    for (int64_t t = 0; t < depth; t += lanes<Real>) {
        Vec<Real> left[R];
        for (int r = 0; r < R; ++r) left[r] = load(x[r] + t);
        if (fetched > 0 && t % line == 0)
            for (int o = 0; o < fetched; ++o) __builtin_prefetch(next + o * next_row + t);
        for (int o = 0; o < dot_outs; ++o) {
            Vec<Real> right = load_as(weight[o] + t);
            if (R == 2) keep(right);
            for (int r = 0; r < R; ++r) sum[r][o] += left[r] * right;
        }
    }
    for (int r = 0; r < R; ++r) add_lanes<Real>(sum[r], d.add, d.to + r * d.to_row);
}
template <int fetched, int R = dot_rows_at_once, class Real, class Stored>
REGARD_INLINE void dot_rows_of(int64_t rows, const Dots<Real, Stored>& d, const Stored* next = nullptr) {
    if (rows == R)
        dot_block<R, fetched>(d, next);
    else if constexpr (R > 1)
        dot_rows_of<fetched, R - 1>(rows, d, next);
}

// What is left of the depth after whole vectors, filled up with zeros.
template <class Real, class Stored>
void dot_rest(int64_t rows, int64_t whole, const Dots<Real, Stored>& d) {
    constexpr int L = lanes<Real>;
    const int64_t left = d.depth - whole;
    Real x[dot_rows_at_once * L] = {};
    Stored weight[dot_outs * L] = {};
    for (int64_t r = 0; r < rows; ++r) std::copy_n(d.x + r * d.x_row + whole, left, x + r * L);
    for (int64_t o = 0; o < std::min<int64_t>(d.outs, dot_outs); ++o)
        std::copy_n(d.weight + o * d.weight_row + whole, left, weight + o * L);
    dot_rows_of<0>(rows, Dots<Real, Stored>{L, x, L, weight, L, d.outs, true, d.to, d.to_row});
}

// All products of `rows` and `outs`. `fetch`: the weight comes from far, and is read in order.
template <class Real, class Stored>
void dot_products(int64_t rows, bool fetch, const Dots<Real, Stored>& all) {
    const int64_t whole = all.depth / lanes<Real> * lanes<Real>;
    // Groups of nearly equal size: 4 rows as 2 + 2, for one row alone cannot hide the latency.
    const int64_t groups = (rows + dot_rows_at_once - 1) / dot_rows_at_once;
    // Each group of rows fetches its share of the next weights, so that the requests are spread. One group alone is
    // too quick for that: it looks further ahead.
    const int64_t share = (dot_outs + groups - 1) / groups;
    const int64_t reach = groups > 1 ? 1 : std::max<int64_t>(1, fetch_bytes / std::max<int64_t>(1, dot_outs * all.depth * static_cast<int64_t>(sizeof(Stored))));
    for (int64_t o = 0; o < all.outs; o += dot_outs)
        for (int64_t g = 0; g < groups; ++g) {
            const int64_t r = rows * g / groups, count = rows * (g + 1) / groups - r;
            Dots<Real, Stored> part = all;
            part.depth = whole;
            part.x += r * all.x_row;
            part.weight += o * all.weight_row;
            part.outs -= o;
            part.to += r * all.to_row + o;
            const Stored* next = part.weight + (reach * dot_outs + g * share) * all.weight_row;
            if (!fetch || g * share >= dot_outs)
                dot_rows_of<0>(count, part);
            else if (share == dot_outs)
                dot_rows_of<dot_outs>(count, part, next);
            else if (share == 1)
                dot_rows_of<1>(count, part, next);
            else
                dot_rows_of<2>(count, part, next);
            if (whole == all.depth) continue;
            part.depth = all.depth;
            dot_rest(count, whole, part);
        }
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
