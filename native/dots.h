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

// `depth` is a whole number of vectors.
template <class Real, class Stored, int R>
void dots(int64_t depth, const Real* __restrict x, int64_t x_row, const Stored* __restrict weight, int64_t weight_row,
          int64_t outs, bool add, Real* __restrict to, int64_t to_row) {
    const Stored* row[dot_outs];
    Vec<Real> sum[R][dot_outs];
    for (int o = 0; o < dot_outs; ++o) row[o] = weight + std::min<int64_t>(o, outs - 1) * weight_row;  // the last again
    for (int r = 0; r < R; ++r)
        for (int o = 0; o < dot_outs; ++o) sum[r][o] = Vec<Real>{};
    for (int64_t t = 0; t < depth; t += lanes<Real>) {
        Vec<Real> left[R];
        for (int r = 0; r < R; ++r) left[r] = load(x + r * x_row + t);
        for (int o = 0; o < dot_outs; ++o) {
            Vec<Real> right = load_as(row[o] + t);
            if (R == 2) keep(right);
            for (int r = 0; r < R; ++r) sum[r][o] += left[r] * right;
        }
    }
    for (int r = 0; r < R; ++r) add_lanes<Real>(sum[r], add, to + r * to_row);
}

template <class Real, class Stored, int R = dot_rows_at_once>
REGARD_INLINE void dots_of(int64_t rows, int64_t depth, const Real* x, int64_t x_row, const Stored* weight,
                           int64_t weight_row, int64_t outs, bool add, Real* to, int64_t to_row) {
    if (rows == R)
        dots<Real, Stored, R>(depth, x, x_row, weight, weight_row, outs, add, to, to_row);
    else if constexpr (R > 1)
        dots_of<Real, Stored, R - 1>(rows, depth, x, x_row, weight, weight_row, outs, add, to, to_row);
}

// What is left of the depth after whole vectors, filled up with zeros.
template <class Real, class Stored>
void dots_of_rest(int64_t rows, int64_t depth, const Real* x, int64_t x_row, const Stored* weight, int64_t weight_row,
                  int64_t outs, Real* to, int64_t to_row) {
    constexpr int L = lanes<Real>;
    Real left[dot_rows_at_once * L] = {};
    Stored right[dot_outs * L] = {};
    for (int64_t r = 0; r < rows; ++r) std::copy_n(x + r * x_row, depth, left + r * L);
    for (int64_t o = 0; o < std::min<int64_t>(outs, dot_outs); ++o) std::copy_n(weight + o * weight_row, depth, right + o * L);
    dots_of<Real, Stored>(rows, L, left, L, right, L, outs, true, to, to_row);
}

// All products of `rows` and `outs`; rows of `to` have room for a whole number of dot_outs.
template <class Real, class Stored>
void dot_products(int64_t rows, int64_t depth, const Real* x, int64_t x_row, const Stored* weight, int64_t weight_row,
                  int64_t outs, bool add, Real* to, int64_t to_row) {
    const int64_t whole = depth / lanes<Real> * lanes<Real>;
    // Groups of nearly equal size: 4 rows as 2 + 2, for one row alone cannot hide the latency.
    const int64_t groups = (rows + dot_rows_at_once - 1) / dot_rows_at_once;
    for (int64_t o = 0; o < outs; o += dot_outs)
        for (int64_t g = 0; g < groups; ++g) {
            const int64_t r = rows * g / groups, count = rows * (g + 1) / groups - r;
            const Real* left = x + r * x_row;
            const Stored* right = weight + o * weight_row;
            Real* place = to + r * to_row + o;
            dots_of<Real, Stored>(count, whole, left, x_row, right, weight_row, outs - o, add, place, to_row);
            if (whole < depth)
                dots_of_rest<Real, Stored>(count, depth - whole, left + whole, x_row, right + whole, weight_row, outs - o,
                                           place, to_row);
        }
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
