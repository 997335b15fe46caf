// Every pass of every instruction set that this machine runs, against plain loops in double. Sanitizers and emulators
// run this program; Python's tests cover much more.
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dispatch.h"
#include "pool.h"
#include "selftest_heads.h"
#include "selftest_linear.h"

using namespace regard;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// An array of four axes that owns its numbers.
template <class Real>
struct Owned {
    std::vector<Real> numbers;
    View view;

    Owned(int64_t a, int64_t b, int64_t c, int64_t d) : numbers(static_cast<size_t>(a * b * c * d)) {
        const int64_t shape[4] = {a, b, c, d}, stride[4] = {b * c * d, c * d, d, 1};
        for (int axis = 0; axis < 4; ++axis) view.shape[axis] = shape[axis], view.stride[axis] = stride[axis];
        view.type = sizeof(Real) == 4 ? Type::f32 : Type::f64;
        view.data = reinterpret_cast<char*>(numbers.data());
    }
    Owned(const Owned&) = delete;
    void fill(std::mt19937& random) {
        std::normal_distribution<double> normal;
        for (Real& number : numbers) number = static_cast<Real>(normal(random));
    }
    double at(int64_t a, int64_t b, int64_t c, int64_t d) const {
        return static_cast<double>(
            numbers[static_cast<size_t>(a * view.stride[0] + b * view.stride[1] + c * view.stride[2] + d)]);
    }
};

struct Case {
    const char* name;
    int64_t batch, heads, key_heads, rows, columns, size, value_size;
    bool causal = false, two_intervals = false, bias = false, dense = false, relative = false, sinks = false,
         poison = false;
    double softcap = 0;
    int64_t packed = 0;  // the longest of sequences that follow each other, later ones longer
};

const Case cases[] = {
    {"plain", 2, 4, 2, 37, 53, 24, 11},
    {"one row", 1, 2, 1, 1, 1500, 16, 16},
    {"few rows", 2, 2, 2, 3, 301, 19, 5, true},
    {"causal", 1, 2, 2, 203, 203, 16, 18, true},
    {"packed", 2, 4, 2, 300, 300, 24, 16, true, false, false, false, false, false, false, 0, 70},
    {"two intervals", 2, 2, 1, 131, 131, 8, 16, true, true, false, false, false, true},
    {"bias and cap", 1, 3, 3, 29, 211, 7, 3, false, false, true, false, false, false, false, 2.5},
    {"dense mask", 2, 2, 2, 41, 97, 16, 16, false, false, false, true, false, true},
    {"relative", 2, 2, 2, 67, 67, 8, 8, true, false, false, false, true},
    {"poisoned", 1, 2, 2, 101, 101, 8, 8, true, false, false, true, false, false, true},
};

template <class Real>
class Check {
    const Kernels& kernels;
    const Case& c;
    std::mt19937 random{7};
    Owned<Real> q, k, v, u, flow, bias, relative, output;
    std::vector<int32_t> first[2], last[2];
    std::vector<uint8_t> dense;
    std::vector<double> sinks;
    std::vector<Real> row_max, row_sum;
    Scores s;
    double bound;
    int failures = 0;

  public:
    Check(const Kernels& kernels, const Case& c)
        : kernels(kernels), c(c), q(c.batch, c.heads, c.rows, c.size), k(c.batch, c.key_heads, c.columns, c.size),
          v(c.batch, c.key_heads, c.columns, c.value_size), u(c.batch, c.heads, c.rows, 5),
          flow(c.batch, c.heads, c.rows, c.value_size), bias(1, c.heads, c.rows, c.columns),
          relative(c.heads, 1, 1, c.rows + c.columns - 1), output(c.batch, c.heads, c.rows, c.value_size),
          row_max(static_cast<size_t>(c.batch * c.heads * c.rows)), row_sum(row_max.size()),
          bound(sizeof(Real) == 4 ? 5e-5 : 1e-11) {
        for (auto* array : {&q, &k, &v, &u, &flow, &bias, &relative}) array->fill(random);
        s.queries = q.view;
        s.keys = k.view;
        s.scale = 1 / std::sqrt(static_cast<double>(c.size));
        s.softcap = c.softcap;
        if (c.causal) make_intervals();
        if (c.bias) {
            s.bias = bias.view;
            s.bias.stride[0] = 0;
        }
        if (c.dense) make_mask();
        if (c.relative) {
            s.relative = relative.view;
            s.relative_zero = c.columns - 1;
        }
        if (c.sinks) {
            sinks.assign(static_cast<size_t>(c.heads), 0.5);
            s.sinks = sinks.data();
        }
    }

    int run() {
        check_forward();
        check_columns();
        if (!c.poison) check_backward();
        return failures;
    }

  private:
    void make_intervals() {
        const int64_t shift = c.columns - c.rows;
        for (int64_t i = 0, start = 0; i < c.rows; ++i) {
            const int64_t end = i + shift + 1, middle = std::max<int64_t>(0, end - 20);
            if (c.packed && i - start >= std::min(c.packed, 3 + i / 8)) start = i;
            first[0].push_back(static_cast<int32_t>(start));
            last[0].push_back(static_cast<int32_t>(c.two_intervals ? std::min<int64_t>(4, middle) : end));
            first[1].push_back(static_cast<int32_t>(middle));
            last[1].push_back(static_cast<int32_t>(end));
        }
        for (int which = 0; which < (c.two_intervals ? 2 : 1); ++which) {
            s.visible.first[which] = first[which].data();
            s.visible.last[which] = last[which].data();
        }
    }
    void make_mask() {
        for (int64_t i = 0; i < c.rows * c.columns; ++i) dense.push_back(random() % 3 != 0);
        for (int64_t j = 0; j < c.columns; ++j) dense[static_cast<size_t>(j)] = 0;  // the first query sees nothing
        const int64_t hidden = c.columns / 2;
        if (c.poison)
            for (int64_t i = 0; i < c.rows; ++i) dense[static_cast<size_t>(i * c.columns + hidden)] = 0;
        if (c.poison)
            for (int64_t t = 0; t < c.size; ++t) {
                k.numbers[static_cast<size_t>(hidden * c.size + t)] = std::numeric_limits<Real>::quiet_NaN();
                v.numbers[static_cast<size_t>(hidden * c.value_size + t)] = std::numeric_limits<Real>::infinity();
            }
        s.mask.data = reinterpret_cast<char*>(dense.data());
        s.mask.type = Type::u8;
        s.mask.shape[2] = c.rows, s.mask.shape[3] = c.columns;
        s.mask.stride[2] = c.columns, s.mask.stride[3] = 1;
    }

    bool sees(int64_t i, int64_t j) const {
        if (c.dense && !dense[static_cast<size_t>(i * c.columns + j)]) return false;
        if (!c.causal) return true;
        for (int which = 0; which < (c.two_intervals ? 2 : 1); ++which)
            if (j >= first[which][static_cast<size_t>(i)] && j < last[which][static_cast<size_t>(i)]) return true;
        return false;
    }
    double score(int64_t b, int64_t h, int64_t i, int64_t j) const {
        if (!sees(i, j)) return -infinity;
        double sum = 0;
        for (int64_t t = 0; t < c.size; ++t) sum += q.at(b, h, i, t) * k.at(b, s.key_head(h), j, t);
        sum *= s.scale;
        if (c.softcap > 0) sum = c.softcap * std::tanh(sum / c.softcap);
        if (c.bias) sum += bias.at(0, h, i, j);
        if (c.relative) sum += relative.at(h, 0, 0, i - j + s.relative_zero);
        return sum;
    }
    // Weights of one row, and its log-sum-exp.
    std::vector<double> weights(int64_t b, int64_t h, int64_t i, double& level) const {
        std::vector<double> w(static_cast<size_t>(c.columns));
        double high = c.sinks ? sinks[static_cast<size_t>(h)] : -infinity;
        for (int64_t j = 0; j < c.columns; ++j) high = std::max(high, w[static_cast<size_t>(j)] = score(b, h, i, j));
        double sum = c.sinks ? std::exp(sinks[static_cast<size_t>(h)] - high) : 0;
        if (high > -infinity)
            for (double x : w) sum += std::exp(x - high);
        level = high > -infinity ? high + std::log(sum) : -infinity;
        for (double& x : w) x = x > -infinity ? std::exp(x - level) : 0;
        return w;
    }

    void expect(double got, double wanted, const char* what, double wider = 1) {
        if (std::abs(got - wanted) <= bound * wider * (1 + std::abs(wanted)) || (got != got && wanted != wanted))
            return;
        if (got == wanted) return;
        if (++failures <= 5) std::printf("  %s, %s: %s is %g, should be %g\n", kernels.name, c.name, what, got, wanted);
    }

    void check_forward() {
        const size_t lines = row_max.size();
        std::vector<double> logsumexp(lines);
        std::vector<Real> entropy(lines), peak(lines), distance(lines), top_weight(lines * 3);
        std::vector<int64_t> top_index(lines * 3);
        Forward f;
        f.scores = s;
        f.values = v.view;
        f.output = output.view;
        kernels.forward(f);  // few rows take another way when no strongest keys are wanted
        const std::vector<Real> plainly = output.numbers;
        f.rows = {row_max.data(),    row_sum.data(),   logsumexp.data(),
                  entropy.data(),    peak.data(),      distance.data(),
                  top_weight.data(), top_index.data(), 3};
        kernels.forward(f);
        for (int64_t b = 0; b < c.batch; ++b)
            for (int64_t h = 0; h < c.heads; ++h)
                for (int64_t i = 0; i < c.rows; ++i) {
                    double level, h_of = 0, far = 0, most = 0;
                    const auto w = weights(b, h, i, level);
                    const auto line = static_cast<size_t>((b * c.heads + h) * c.rows + i);
                    for (int64_t e = 0; e < c.value_size; ++e) {
                        double sum = 0;
                        for (int64_t j = 0; j < c.columns; ++j)
                            if (sees(i, j)) sum += w[static_cast<size_t>(j)] * v.at(b, s.key_head(h), j, e);
                        expect(output.at(b, h, i, e), sum, "an output");
                        expect(static_cast<double>(
                                   plainly[line * static_cast<size_t>(c.value_size) + static_cast<size_t>(e)]),
                               sum, "an output alone");
                    }
                    for (int64_t j = 0; j < c.columns; ++j) {
                        const double weight = w[static_cast<size_t>(j)];
                        if (weight > 0) h_of -= weight * std::log(weight);
                        far += weight * std::abs(static_cast<double>(i - j));
                        most = std::max(most, weight);
                    }
                    expect(logsumexp[line], level, "a log-sum-exp");
                    expect(static_cast<double>(entropy[line]), h_of, "an entropy", 4);
                    expect(static_cast<double>(peak[line]), most, "a peak");
                    expect(static_cast<double>(distance[line]), far, "a distance");
                    expect(static_cast<double>(top_weight[line * 3]), most, "the strongest weight");
                }
    }

    RowState state() const { return {row_max.data(), row_sum.data()}; }

    void check_columns() {
        Owned<Real> flowing(c.batch, c.heads, c.columns, 5), sums(c.batch, c.heads, c.columns, 1);
        kernels.backflow({s, state(), u.view, flowing.view});
        kernels.backflow({s, state(), {}, sums.view});
        const int64_t rows[] = {0, c.rows / 3, c.rows}, columns[] = {0, 1, c.columns / 2, c.columns};
        std::vector<Real> map(static_cast<size_t>(c.batch * c.heads * 6)),
            tile(row_max.size() * static_cast<size_t>(c.columns));
        kernels.pooled({s, state(), rows, columns, 2, 3, Pool::sum, map.data()});
        kernels.tile({s, state(), Stage::weight, tile.data()});
        for (int64_t b = 0; b < c.batch; ++b)
            for (int64_t h = 0; h < c.heads; ++h) {
                std::vector<double> back(static_cast<size_t>(c.columns * 5)), sum(static_cast<size_t>(c.columns)),
                    cells(6);
                for (int64_t i = 0; i < c.rows; ++i) {
                    double level;
                    const auto w = weights(b, h, i, level);
                    for (int64_t j = 0; j < c.columns; ++j) {
                        const double weight = w[static_cast<size_t>(j)];
                        sum[static_cast<size_t>(j)] += weight;
                        for (int64_t e = 0; e < 5; ++e)
                            back[static_cast<size_t>(j * 5 + e)] += weight * u.at(b, h, i, e);
                        cells[static_cast<size_t>((i >= rows[1]) * 3 + (j >= columns[1]) + (j >= columns[2]))] +=
                            weight;
                        const auto line = static_cast<size_t>((b * c.heads + h) * c.rows + i);
                        expect(
                            static_cast<double>(tile[line * static_cast<size_t>(c.columns) + static_cast<size_t>(j)]),
                            weight, "a weight");
                    }
                }
                for (int64_t j = 0; j < c.columns; ++j) {
                    expect(sums.at(b, h, j, 0), sum[static_cast<size_t>(j)], "a column sum");
                    for (int64_t e = 0; e < 5; ++e)
                        expect(flowing.at(b, h, j, e), back[static_cast<size_t>(j * 5 + e)], "what flows back");
                }
                for (size_t cell = 0; cell < 6; ++cell)
                    if (c.rows >= 3 && c.columns >= 3)
                        expect(static_cast<double>(map[static_cast<size_t>(b * c.heads + h) * 6 + cell]), cells[cell],
                               "a cell");
            }
    }

    // The loss Σ flow · output, whose gradients are compared with plain formulas.
    void check_backward() {
        Owned<Real> gq(c.batch, c.heads, c.rows, c.size), gk(c.batch, c.key_heads, c.columns, c.size),
            gv(c.batch, c.key_heads, c.columns, c.value_size);
        Owned<double> wq(c.batch, c.heads, c.rows, c.size), wk(c.batch, c.key_heads, c.columns, c.size),
            wv(c.batch, c.key_heads, c.columns, c.value_size);
        Backward back;
        back.scores = s;
        back.values = v.view;
        back.output = output.view;
        back.flow = flow.view;
        back.state = state();
        back.grad_queries = gq.view;
        back.grad_keys = gk.view;
        back.grad_values = gv.view;
        kernels.backward(back);
        for (int64_t b = 0; b < c.batch; ++b)
            for (int64_t h = 0; h < c.heads; ++h)
                for (int64_t i = 0; i < c.rows; ++i) row_gradients(b, h, i, wq, wk, wv);
        compare(gq, wq, "a gradient of queries");
        compare(gk, wk, "a gradient of keys");
        compare(gv, wv, "a gradient of values");
    }
    void row_gradients(int64_t b, int64_t h, int64_t i, Owned<double>& wq, Owned<double>& wk, Owned<double>& wv) {
        double level, mean = 0;
        const int64_t kh = s.key_head(h);
        const auto w = weights(b, h, i, level);
        std::vector<double> to_weight(static_cast<size_t>(c.columns));
        for (int64_t j = 0; j < c.columns; ++j) {
            for (int64_t e = 0; e < c.value_size; ++e)
                to_weight[static_cast<size_t>(j)] += flow.at(b, h, i, e) * v.at(b, kh, j, e);
            mean += w[static_cast<size_t>(j)] * to_weight[static_cast<size_t>(j)];
        }
        for (int64_t j = 0; j < c.columns; ++j) {
            const double weight = w[static_cast<size_t>(j)];
            double to_score = weight * (to_weight[static_cast<size_t>(j)] - mean) * s.scale;
            if (c.softcap > 0) {
                const double capped = (score(b, h, i, j) - (c.bias ? bias.at(0, h, i, j) : 0)) / c.softcap;
                to_score *= 1 - capped * capped;
            }
            auto add = [](Owned<double>& to, int64_t a1, int64_t a2, int64_t a3, int64_t a4, double x) {
                to.numbers[static_cast<size_t>(a1 * to.view.stride[0] + a2 * to.view.stride[1] +
                                               a3 * to.view.stride[2] + a4)] += x;
            };
            for (int64_t t = 0; t < c.size; ++t) {
                add(wq, b, h, i, t, to_score * k.at(b, kh, j, t));
                add(wk, b, kh, j, t, to_score * q.at(b, h, i, t));
            }
            for (int64_t e = 0; e < c.value_size; ++e) add(wv, b, kh, j, e, weight * flow.at(b, h, i, e));
        }
    }
    void compare(const Owned<Real>& got, const Owned<double>& wanted, const char* what) {
        for (size_t n = 0; n < got.numbers.size(); ++n)
            expect(static_cast<double>(got.numbers[n]), wanted.numbers[n], what, 4);
    }
};

}  // namespace

int main() {
    int failures = 0;
    for (const std::string& name : runnable()) {
        const Kernels& kernels = *find(name);
        for (int count : {1, 3}) {
            set_threads(count);
            for (const Case& c : cases) failures += Check<float>(kernels, c).run() + Check<double>(kernels, c).run();
            failures += check_linear(kernels) + HeadsCheck(kernels).run();
        }
        std::printf("%s: %s\n", name.c_str(), failures ? "failed" : "all right");
    }
    return failures != 0;
}
