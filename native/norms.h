// Layer norm, (x − mean) / √(variance + ε), and root-mean-square norm, x / √(mean of squares + ε), row by row; then
// weight and bias. Mean and variance take a pass each over a row that the first cache holds: nothing cancels.
#pragma once
#include "storage.h"
#include "work.h"

namespace regard {
namespace REGARD_ISA {
namespace {

// Σ f(x) over a row. Lanes past the end see `filling`, for which f must give zero.
template <class Real, class F>
REGARD_INLINE Real sum_over(const Real* row, int64_t size, Real filling, F f) {
    constexpr int L = lanes<Real>;
    Vec<Real> sum[4] = {};  // four, to hide the latency of adding
    int64_t i = 0;
    for (; i + 4 * L <= size; i += 4 * L)
        for (int k = 0; k < 4; ++k) sum[k] += f(load(row + i + k * L));
    for (; i + L <= size; i += L) sum[0] += f(load(row + i));
    if (i < size) {
        Real last[L];
        std::fill(last, last + L, filling);
        std::copy(row + i, row + size, last);
        sum[1] += f(load(last));
    }
    return sum_lanes<Real>((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// What a norm subtracts and divides by.
template <class Real>
struct Moments {
    Real mean, size;

    REGARD_INLINE Moments(const Real* row, int64_t count, bool centred, Real epsilon) {
        mean =
            centred ? sum_over(row, count, Real(0), [](Vec<Real> x) { return x; }) / static_cast<Real>(count) : Real(0);
        const auto squared = [m = mean](Vec<Real> x) { return (x - m) * (x - m); };
        size = std::sqrt(sum_over(row, count, mean, squared) / static_cast<Real>(count) + epsilon);
    }
};

template <class Real>
void norm_row(const Real* row, int64_t size, bool centred, Real epsilon, const Real* weight, const Real* bias,
              Real* to) {
    constexpr int L = lanes<Real>;
    const Moments<Real> moments(row, size, centred, epsilon);
    const Real mean = moments.mean, scale = Real(1) / moments.size;
    int64_t i = 0;
    for (; i + L <= size; i += L)
        store<Real>(to + i, (load(row + i) - mean) * scale * load(weight + i) + load(bias + i));
    for (; i < size; ++i) to[i] = (row[i] - mean) * scale * weight[i] + bias[i];
}

template <class Real>
bool norm_of(const Norm& n) {
    const View &x = n.x, &out = n.output;
    const int64_t rows = x.shape[2], size = x.shape[3];
    if (size == 0) return true;
    const int64_t block = std::clamp<int64_t>(16384 / size, 1, 64), items = (rows + block - 1) / block;
    const bool direct = plain<Real>(out);
    auto work = [&](int64_t item, void* memory) {
        Real* weight = static_cast<Real*>(memory);
        Real *bias = weight + size, *copy = bias + size, *line = copy + size;
        const auto given = [size](const View& view, Real otherwise, Real* space) {
            if (view) return numbers<Real>(view.at(0, 0), view.type, view.stride[3], size, space);
            std::fill(space, space + size, otherwise);
            return const_cast<const Real*>(space);
        };
        const Real *scales = given(n.weight, 1, weight), *shifts = given(n.bias, 0, bias);
        for (int64_t r = item * block; r < std::min(rows, (item + 1) * block); ++r) {
            const Real* row = numbers<Real>(x.at(0, 0, r), x.type, x.stride[3], size, copy);
            Real* to = direct ? reinterpret_cast<Real*>(out.at(0, 0, r)) : line;
            norm_row<Real>(row, size, n.centred, static_cast<Real>(n.epsilon), scales, shifts, to);
            if (!direct) write_numbers<Real>(line, size, out.at(0, 0, r), out.type, out.stride[3]);
        }
    };
    // Bound by memory: about the time of 16 operations per number.
    return run_items(items, static_cast<size_t>(4 * size) * sizeof(Real), 16. * static_cast<double>(rows * size), work);
}

bool norm(const Norm& n) { return n.x.type == Type::f64 ? norm_of<double>(n) : norm_of<float>(n); }

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
