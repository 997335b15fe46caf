// The micro-kernel, and the packing that it needs.
//
//   c[r][lane] (+)= Σ_t a[r·a_row + t·a_step] · b[t·b_step + lane]
//
// `a` is broadcast from its place in memory, `b` is read by vectors, `c` stays in registers. Every product of the
// engine is this one: Sᵀ = K Qᵀ, Oᵀ += Vᵀ Pᵀ, and in the backward pass dPᵀ, dQᵀ, dV and dK.
#pragma once
#include <algorithm>

#include "lanes.h"

namespace regard {
namespace REGARD_ISA {
namespace {

// Rows of sums in registers. With 16 registers 6 × 2 vectors beat 4 × 2 by 3 to 6% on Zen 4 (GCC 12): 8 sums just cover
// the latency of two multiply-adds per cycle and leave no slack. (On Zen 3 4 × 2 was once 4% faster, with tails of
// other sizes.) With 32 registers there is room for 24 sums: 12 × 2 on AVX-512; 6 × 4 on NEON, whose vectors are short
// (not measured). In the browser 4 × 2, not unrolled: 16 rows 384 → 384 do 65 GFLOP/s, with 6 × 2 31, unrolled twice 40
// (Zen 4, Node 20). 2 × 4 is 5% faster with 128 tokens, but 18% slower with 20.
constexpr int block_rows = in_browser ? 4 : vector_bytes == 64 ? 12 : 6;
constexpr int unrolled = in_browser ? 1 : 2;
constexpr int panel_vectors = registers == 32 && vector_bytes == 16 ? 4 : 2;
template <class Real>
constexpr int panel = panel_vectors * lanes<Real>;  // queries (or keys) side by side

// What becomes of the sums: stored, added to `c`, added to `c` times a factor per lane (`lane_values`), or stored with
// the largest of each lane kept in `lane_values`.
enum class Into { store, add, rescale, store_and_max };

template <class Real, Into into>
struct Product {
    const Real* a;
    int64_t a_row, a_step;
    const Real* b;
    int64_t b_step;
    Real* c;
    int64_t c_row;
    Real* lane_values = nullptr;  // a panel's, for Into::rescale and Into::store_and_max
};

template <Into into, int M, class Real>
REGARD_INLINE void block_end(const Vec<Real> (&sum)[M][panel_vectors], const Product<Real, into>& p) {
    constexpr int L = lanes<Real>, N = panel_vectors;
#pragma GCC unroll 16
    for (int v = 0; v < N; ++v) {
        Vec<Real> lane{};
        if constexpr (into == Into::rescale || into == Into::store_and_max) lane = load(p.lane_values + v * L);
#pragma GCC unroll 16
        for (int r = 0; r < M; ++r) {
            Real* place = p.c + r * p.c_row + v * L;
            if constexpr (into == Into::add)
                store<Real>(place, load(place) + sum[r][v]);
            else if constexpr (into == Into::rescale)
                store<Real>(place, load(place) * lane + sum[r][v]);
            else
                store<Real>(place, sum[r][v]);
            if constexpr (into == Into::store_and_max) lane = larger(lane, sum[r][v]);
        }
        if constexpr (into == Into::store_and_max) store<Real>(p.lane_values + v * L, lane);
    }
}

template <class Real, int M, Into into>
REGARD_INLINE void block_fixed(int64_t depth, int64_t a_step, const Product<Real, into>& p) {
    constexpr int L = lanes<Real>, N = panel_vectors;
    const Real* __restrict a = p.a, * __restrict b = p.b;
    const int64_t a_row = p.a_row, b_step = p.b_step;
    // Sums start at zero and are added at the end: on top of a long running total each term would be rounded to its
    // size. Forced unroll of the short loops; otherwise GCC spills the sums to the stack, which costs 7% at size 64.
    Vec<Real> sum[M][N];
#pragma GCC unroll 16
    for (int r = 0; r < M; ++r)
#pragma GCC unroll 16
        for (int v = 0; v < N; ++v) sum[r][v] = Vec<Real>{};
#pragma GCC unroll unrolled
    for (int64_t t = 0; t < depth; ++t) {
        Vec<Real> right[N];
#pragma GCC unroll 16
        for (int v = 0; v < N; ++v) right[v] = load(b + v * L);
#pragma GCC unroll 16
        for (int r = 0; r < M; ++r) {
            const Real left = a[r * a_row];
#pragma GCC unroll 16
            for (int v = 0; v < N; ++v) sum[r][v] += left * right[v];
        }
        a += a_step;
        b += b_step;
    }
    block_end<into, M, Real>(sum, p);
}

template <int M, class Real, Into into>
void block_of(int64_t depth, const Product<Real, into>& p) {
    if (p.a_step == 1)  // lets the compiler fold the step into the address
        block_fixed<Real, M, into>(depth, 1, p);
    else
        block_fixed<Real, M, into>(depth, p.a_step, p);
}

template <int M = block_rows - 1, class Real, Into into>
void block_tail(int64_t rows, int64_t depth, const Product<Real, into>& p) {
    if (rows == M)
        block_of<M>(depth, p);
    else if constexpr (M > 1)
        block_tail<M - 1>(rows, depth, p);
}

// Any number of rows, one panel wide.
template <class Real, Into into>
void product(int64_t rows, int64_t depth, Product<Real, into> p) {
    constexpr int64_t full = block_rows,
                      uneven = full +
                               full / 3;  // 8 = 4 + 4 beats 6 + 2, 5 = 2 + 3 beats 4 + 1: few rows cannot hide latency
    const auto advance = [&](int64_t by) {
        rows -= by;
        p.a += by * p.a_row;
        p.c += by * p.c_row;
    };
    for (; rows >= full && rows != uneven; advance(full)) block_of<block_rows>(depth, p);
    if (rows == uneven) {
        constexpr int part = static_cast<int>(uneven / 2);
        block_of<part>(depth, p);
        advance(part);
    }
    if (rows > 0) block_tail(rows, depth, p);
}
template <class Real, bool add>
void product(int64_t rows, int64_t depth, const Real* a, int64_t a_row, int64_t a_step, const Real* b, int64_t b_step,
             Real* c, int64_t c_row) {
    constexpr Into into = add ? Into::add : Into::store;
    product(rows, depth, Product<Real, into>{a, a_row, a_step, b, b_step, c, c_row});
}

// Rows of `count` numbers each, from storage into a panel: to[t · panel + lane] = factor · from[lane][t]. Missing rows
// become zeros.
template <class Real>
void pack_panel(const char* from, Type type, int64_t row_stride, int64_t stride, int64_t rows, int64_t count,
                Real factor, Real* to) {
    constexpr int L = lanes<Real>, W = panel<Real>;
    const int64_t row_bytes = row_stride * static_cast<int64_t>(bytes_of(type));
    const bool direct = stride == 1 && type == (sizeof(Real) == 4 ? Type::f32 : Type::f64);
    for (int v = 0; v < panel_vectors; ++v) {
        int64_t t = 0;
        const char* rows_from = from + v * L * row_bytes;
        const int64_t here = std::clamp<int64_t>(rows - v * L, 0, L);
        if (direct && here > 0) {
            for (; t + L <= count; t += L) {
                Vec<Real> square[L];
                for (int lane = 0; lane < L; ++lane)
                    square[lane] = lane < here
                                       ? load(reinterpret_cast<const Real*>(rows_from + lane * row_bytes) + t) * factor
                                       : Vec<Real>{};
                transpose<Real>(square);
                for (int lane = 0; lane < L; ++lane) store<Real>(to + (t + lane) * W + v * L, square[lane]);
            }
        }
        if (here == 0) {
            for (; t < count; ++t) store<Real>(to + t * W + v * L, Vec<Real>{});
            continue;
        }
        Real row[64];
        for (; t < count; t += 64) {
            const int64_t part = std::min<int64_t>(64, count - t);
            for (int64_t lane = 0; lane < L; ++lane) {
                if (lane >= here) {
                    for (int64_t s = 0; s < part; ++s) to[(t + s) * W + v * L + lane] = 0;
                    continue;
                }
                read_row<Real>(rows_from + lane * row_bytes + t * stride * static_cast<int64_t>(bytes_of(type)), type,
                               stride, part, row);
                for (int64_t s = 0; s < part; ++s) to[(t + s) * W + v * L + lane] = row[s] * factor;
            }
        }
    }
}

// A panel back into rows: to[lane][t] = factor[lane] · from[t · panel + lane].
template <class Real>
void unpack_panel(const Real* from, int64_t rows, int64_t count, const Real* factor, char* to, Type type,
                  int64_t row_stride, int64_t stride, bool add = false) {
    constexpr int L = lanes<Real>, W = panel<Real>;
    const int64_t width = static_cast<int64_t>(bytes_of(type)), row_bytes = row_stride * width;
    const bool direct = stride == 1 && type == (sizeof(Real) == 4 ? Type::f32 : Type::f64);
    for (int v = 0; v * L < rows; ++v) {
        const int64_t here = std::min<int64_t>(L, rows - v * L);
        char* rows_to = to + v * L * row_bytes;
        const Vec<Real> scale = load(factor + v * L);
        for (int64_t t = 0; t < count; t += L) {
            const int64_t part = std::min<int64_t>(L, count - t);
            Vec<Real> square[L];
            for (int64_t s = 0; s < L; ++s)
                square[s] = s < part ? load(from + (t + s) * W + v * L) * scale : Vec<Real>{};
            transpose<Real>(square);
            for (int64_t lane = 0; lane < here; ++lane) {
                char* place = rows_to + lane * row_bytes + t * stride * width;
                if (direct && part == L) {
                    Real* real = reinterpret_cast<Real*>(place);
                    store<Real>(real, add ? load(real) + square[lane] : square[lane]);
                } else {
                    Real row[L], before[L];
                    store<Real>(row, square[lane]);
                    if (add) {
                        read_row<Real>(place, type, stride, part, before);
                        for (int64_t s = 0; s < part; ++s) row[s] += before[s];
                    }
                    write_row<Real>(row, part, place, type, stride);
                }
            }
        }
    }
}

// Rows in the computing type: the given ones if they have it already, otherwise a converted copy.
template <class Real>
struct PlainRows {
    const Real* data;
    int64_t row;  // distance in numbers
};
template <class Real>
bool plain(const View& view) {
    return view.stride[3] == 1 && view.type == (sizeof(Real) == 4 ? Type::f32 : Type::f64);
}
template <class Real>
PlainRows<Real> plain_rows(const View& view, int64_t a, int64_t b, int64_t first, int64_t count, Real* copy) {
    const int64_t size = view.shape[3];
    if (plain<Real>(view)) return {reinterpret_cast<const Real*>(view.at(a, b, first)), view.stride[2]};
    for (int64_t r = 0; r < count; ++r)
        read_row<Real>(view.at(a, b, first + r), view.type, view.stride[3], size, copy + r * size);
    return {copy, size};
}

// Rows copied with one cache line of padding each: rows of 512 bytes, read a column at a time, would compete for an
// eighth of the L1 cache.
constexpr int64_t apart(int64_t size) { return (size + 15) / 16 * 16 + 16; }

// Whether all numbers are finite, and stay so when multiplied by `by`. The sum of numbers times zero is NaN exactly if
// one of them is not finite.
template <class Real>
bool all_finite(const Real* numbers, int64_t count, Real by = 1) {
    constexpr int L = lanes<Real>;
    Vec<Real> probe{};
    int64_t i = 0;
    for (; i + L <= count; i += L) probe += load(numbers + i) * by * Real(0);
    Real sum = sum_lanes<Real>(probe);
    for (; i < count; ++i) sum += numbers[i] * by * Real(0);
    return sum == 0;
}
// Whether all numbers are finite, and stay so when multiplied by `by`.
template <class Real>
bool copy_apart(const View& view, int64_t a, int64_t b, int64_t first, int64_t count, Real* to, Real by = 1) {
    constexpr int L = lanes<Real>;
    const int64_t size = view.shape[3], row = apart(size);
    const bool direct = plain<Real>(view);
    Vec<Real> probe{};
    Real rest = 0;
    for (int64_t r = 0; r < count; ++r) {
        Real* line = to + r * row;
        const Real* from = reinterpret_cast<const Real*>(view.at(a, b, first + r));
        if (!direct) {
            read_row<Real>(view.at(a, b, first + r), view.type, view.stride[3], size, line);
            from = line;
        }
        int64_t t = 0;
        for (; t + L <= size; t += L) {
            const Vec<Real> x = load(from + t);
            store<Real>(line + t, x);
            probe += x * by * Real(0);
        }
        for (; t < size; ++t) {
            line[t] = from[t];
            rest += line[t] * by * Real(0);
        }
    }
    return sum_lanes<Real>(probe) + rest == 0;
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
