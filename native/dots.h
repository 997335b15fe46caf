// Products of a few rows with many: lanes run along the depth, so both sides are read by vectors without packing, and
// any number of rows costs only its own work.
//
//   to[r][o] (+)= Σ_t x[r · x_row + t] · weight[o · weight_row + t]
#pragma once
#include "storage.h"

namespace regard {
namespace REGARD_ISA {
namespace {

// 3 × 4 sums, a row's 3 numbers and a weight fill 16 registers: 7 loads for 12 multiply-adds. 2 × 4 in the browser: 3
// rows do 53 GFLOP/s instead of 34 (Zen 4, Node 20).
constexpr int dot_rows_at_once = in_browser ? 2 : registers == 32 ? 6 : 3;
constexpr int dot_outs = 4;
// A single row is bound by memory: each stream is fetched so many numbers ahead. Decoding 8,192 keys of size 64 takes
// 0.8 of the time, 32,768 keys 0.9 (Zen 5). On Zen 4 an earlier try took 1.1 times as long; not measured again there.
constexpr int64_t stream_ahead = 512;

// Shuffles of two vectors, in 128-bit pieces: a half of a's piece beside a half of b's; or the even (odd) lanes of
// both.
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
REGARD_INLINE void store_folded(Wide wide, Real* to, std::integer_sequence<int, lane...>) {
    if constexpr (L == dot_outs) {
        std::memcpy(to, &wide, sizeof wide);
    } else {
        const auto low = __builtin_shufflevector(wide, wide, lane...);
        const auto high = __builtin_shufflevector(wide, wide, (lane + L / 2)...);
        store_folded<Real, L / 2>(low + high, to, std::make_integer_sequence<int, L / 4>{});
    }
}

// The lanes' sums of four vectors, beside each other.
template <class Real>
REGARD_INLINE void add_lanes(const Vec<Real> (&sum)[dot_outs], Real (&to)[dot_outs]) {
    constexpr int L = lanes<Real>;
    constexpr auto every = std::make_integer_sequence<int, L>{};
    const Vec<Real> ab = halves<Real, false>(sum[0], sum[1], every) + halves<Real, true>(sum[0], sum[1], every);
    const Vec<Real> cd = halves<Real, false>(sum[2], sum[3], every) + halves<Real, true>(sum[2], sum[3], every);
    if constexpr (L == 2) {
        store<Real>(to, ab);
        store<Real>(to + 2, cd);
    } else {
        const Vec<Real> abcd = alternate<Real, false>(ab, cd, every) + alternate<Real, true>(ab, cd, every);
        store_folded<Real, L>(abcd, to, std::make_integer_sequence<int, L / 2>{});
    }
}

// Keeps a number in its register: GCC would read it from memory again for each use.
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

// Rows times weights. The weights of one register block are `apart` rows from each other, so that the weight is read in
// four streams, each in order: from memory at 25 GB/s, four neighbouring rows at 15 (one row, Zen 3).
template <class Real, class Stored>
struct Dots {
    int64_t depth;
    const Real* x;
    int64_t x_row;
    const Stored* weight;
    int64_t weight_row, outs;
    bool add;
    Real* to;
    int64_t to_row;

    int64_t apart() const { return (outs + dot_outs - 1) / dot_outs; }
};

// R rows times the weights first, first + apart …; the depth is a whole number of vectors. Meanwhile the next weights
// of `fetched` streams, the first of them `stream`, come into the first cache.
template <int R, int fetched, class Real, class Stored>
void dot_block(const Dots<Real, Stored>& d, int64_t first, int stream) {
    const int64_t depth = d.depth, apart = d.apart();
    const Real* x[R];
    const Stored* weight[dot_outs];
    Vec<Real> sum[R][dot_outs];
    for (int r = 0; r < R; ++r) x[r] = d.x + r * d.x_row;
    for (int o = 0; o < dot_outs; ++o) weight[o] = d.weight + std::min(first + o * apart, d.outs - 1) * d.weight_row;
    const Stored* next[fetched + 1];
    for (int f = 0; f < fetched; ++f) next[f] = weight[stream + f] + d.weight_row;
    for (int r = 0; r < R; ++r)
        for (int o = 0; o < dot_outs; ++o) sum[r][o] = Vec<Real>{};
    for (int64_t t = 0; t < depth; t += lanes<Real>) {
        Vec<Real> left[R];
        for (int r = 0; r < R; ++r) left[r] = load(x[r] + t);
        for (int f = 0; f < fetched; ++f) __builtin_prefetch(next[f] + t);
        for (int o = 0; o < dot_outs; ++o) {
            if constexpr (R == 1 && !in_browser) __builtin_prefetch(weight[o] + t + stream_ahead);
            Vec<Real> right = load_as(weight[o] + t);
            if (R == 2) keep(right);
            for (int r = 0; r < R; ++r) sum[r][o] += left[r] * right;
        }
    }
    for (int r = 0; r < R; ++r) {
        Real total[dot_outs];
        add_lanes<Real>(sum[r], total);
        Real* to = d.to + r * d.to_row + first;
        for (int o = 0; o < dot_outs && first + o * apart < d.outs; ++o, to += apart)
            *to = d.add ? *to + total[o] : total[o];
    }
}
template <int fetched, int R = dot_rows_at_once, class Real, class Stored>
REGARD_INLINE void dot_rows_of(int64_t rows, const Dots<Real, Stored>& d, int64_t first, int stream = 0) {
    if (rows == R)
        dot_block<R, fetched>(d, first, stream);
    else if constexpr (R > 1)
        dot_rows_of<fetched, R - 1>(rows, d, first, stream);
}

// What is left of the depth after whole vectors.
template <class Real, class Stored>
void dot_rest(int64_t rows, int64_t whole, const Dots<Real, Stored>& d) {
    constexpr int L = lanes<Real>;
    for (int64_t o = 0; o < d.outs; ++o) {
        const Stored* from = d.weight + o * d.weight_row;
        Stored stored[L] = {};
        std::copy(from + whole, from + d.depth, stored);
        Real weight[L];
        store<Real>(weight, load_as(stored));
        for (int64_t r = 0; r < rows; ++r) {
            const Real* x = d.x + r * d.x_row;
            Real sum = 0;
            for (int64_t t = whole; t < d.depth; ++t) sum += x[t] * weight[t - whole];
            d.to[r * d.to_row + o] += sum;
        }
    }
}

// All products of `rows` and `outs`.
template <class Real, class Stored>
void dot_products(int64_t rows, const Dots<Real, Stored>& all) {
    const int64_t whole = all.depth / lanes<Real> * lanes<Real>, apart = all.apart();
    // Groups of nearly equal size: 4 rows as 2 + 2, because a single row cannot hide the latency. The first group waits
    // for the weights, so each one fetches a part of the next: a sentence of 19 tokens through MiniLM, whose weights
    // are larger than the caches, takes 0.82 of the time, one of 12 tokens 0.84 (Zen 5).
    const int64_t groups = (rows + dot_rows_at_once - 1) / dot_rows_at_once;
    for (int64_t first = 0; first < apart; ++first)
        for (int64_t g = 0; g < groups; ++g) {
            const int64_t r = rows * g / groups;
            Dots<Real, Stored> part = all;
            part.depth = whole;
            part.x += r * all.x_row;
            part.to += r * all.to_row;
            const int64_t count = rows * (g + 1) / groups - r;
            const int stream = static_cast<int>(g) * (groups < dot_outs ? 2 : 1);
            if (in_browser || groups == 1 || stream >= dot_outs)
                dot_rows_of<0>(count, part, first);
            else if (groups < dot_outs)
                dot_rows_of<2>(count, part, first, stream);
            else
                dot_rows_of<1>(count, part, first, stream);
        }
    if (whole < all.depth) dot_rest(rows, whole, all);
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
