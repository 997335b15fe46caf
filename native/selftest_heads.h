// The passes over weights against plain loops in double.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "dispatch.h"

namespace regard {

class HeadsCheck {
    const Kernels& kernels;
    const int64_t texts = 3, heads = 2, keys = 37, first = 5, rows = keys - first;
    std::vector<float> weights;
    std::vector<uint8_t> flags;
    std::mt19937 random{11};
    int failures = 0;

  public:
    explicit HeadsCheck(const Kernels& kernels)
        : kernels(kernels), weights(static_cast<size_t>(texts * heads * rows * keys)),
          flags(static_cast<size_t>(texts * keys)) {
        for (float& weight : weights) weight = static_cast<float>(random() % 1000) / 20000.f;
        for (uint8_t& flag : flags) flag = random() % 5 == 0 ? 2 : random() % 4 == 0 ? 5 : 1;
    }

    int run() {
        check_sums();
        check_links();
        check_lengths();
        return failures;
    }

  private:
    float weight(int64_t text, int64_t head, int64_t row, int64_t key) const {
        return weights[static_cast<size_t>(((text * heads + head) * rows + row) * keys + key)];
    }
    bool content(int64_t text, int64_t key) const { return flags[static_cast<size_t>(text * keys + key)] & 1; }
    void expect(double got, double wanted, const char* what) {
        if (std::abs(got - wanted) <= 1e-5 * (1 + std::abs(wanted))) return;
        if (failures++ < 5) std::printf("%s: %s is %g, wanted %g\n", kernels.name, what, got, wanted);
    }

    void check_sums() {
        const auto of_rows = static_cast<size_t>(texts * heads * rows),
                   of_keys = static_cast<size_t>(texts * heads * keys);
        const std::vector<float> ones(of_rows, 1.f), norms(of_keys, 2.f);
        std::vector<int32_t> circle(static_cast<size_t>(texts * keys));
        for (size_t i = 0; i < circle.size(); ++i)  // pairs
            circle[i] = static_cast<int32_t>(std::min<int64_t>(static_cast<int64_t>(i) % keys ^ 1, keys - 1));
        std::vector<double> sums(static_cast<size_t>(texts * heads * 2 * statistic_count)), received(of_keys);
        kernels.head_sums({texts, heads, rows, keys, weights.data(), ones.data(), ones.data(), norms.data(),
                           flags.data(), circle.data(), circle.data(), first, true, 4, 16, 4, sums.data(),
                           received.data()});
        for (int64_t item = 0; item < texts * heads; ++item) {
            const int64_t text = item / heads, head = item % heads;
            double queries = 0, on_first = 0, itself = 0, all = 0, column = 0;
            for (int64_t row = 0; row < rows; ++row) {
                const int64_t query = first + row;
                if (!content(text, query)) continue;
                ++queries;
                on_first += weight(text, head, row, 0);
                itself += weight(text, head, row, query);
                column += weight(text, head, row, first);
                for (int64_t key = 0; key <= query; ++key) all += 2. * weight(text, head, row, key);
            }
            const double* of = sums.data() + item * 2 * statistic_count;
            const auto at = [of](Statistic name, int part) { return of[2 * static_cast<int>(name) + part]; };
            expect(at(Statistic::entropy, 0), queries, "the number of queries");
            expect(at(Statistic::first, 0), on_first, "the weight on the first token");
            expect(at(Statistic::itself, 0), itself, "the weight on itself");
            expect(at(Statistic::sinks_by_norm, 1), all, "the sum of norms");
            expect(received[static_cast<size_t>(item * keys + first)], column, "a column sum");
        }
    }

    void check_links() {
        std::vector<int32_t> best(static_cast<size_t>(texts * heads * rows));
        std::vector<float> largest(best.size());
        std::vector<uint8_t> may(flags.size());
        for (size_t i = 0; i < may.size(); ++i) may[i] = flags[i] & 1;
        kernels.strongest_links(
            {texts, heads, rows, keys, weights.data(), may.data(), first, best.data(), largest.data()});
        for (int64_t line = 0; line < texts * heads * rows; ++line) {
            const int64_t text = line / rows / heads, head = line / rows % heads, row = line % rows;
            int64_t wanted = 0;
            double most = -1;
            for (int64_t key = 0; key < keys; ++key)
                if (content(text, key) && key != first + row && weight(text, head, row, key) > most)
                    most = weight(text, head, row, wanted = key);
            expect(best[static_cast<size_t>(line)], static_cast<double>(wanted), "the strongest link");
            expect(largest[static_cast<size_t>(line)], most, "its weight");
        }
    }

    void check_lengths() {
        const int64_t size = 19, tokens = 21;
        std::vector<float> x(static_cast<size_t>(tokens * size)), gram(static_cast<size_t>(size * size));
        for (float& number : x) number = static_cast<float>(random() % 100) / 50.f - 1;
        for (int64_t i = 0; i < size; ++i) gram[static_cast<size_t>(i * size + i)] = static_cast<float>(i + 1);
        std::vector<float> lengths(static_cast<size_t>(tokens));
        Lengths l{{}, gram.data(), 1, lengths.data()};
        l.vectors.data = reinterpret_cast<char*>(x.data());
        l.vectors.shape[2] = tokens, l.vectors.shape[3] = size;
        l.vectors.stride[2] = size, l.vectors.stride[3] = 1;
        kernels.lengths(l);
        for (int64_t token = 0; token < tokens; ++token) {
            double square = 0;
            for (int64_t i = 0; i < size; ++i) {
                const double number = x[static_cast<size_t>(token * size + i)];
                square += static_cast<double>(i + 1) * number * number;
            }
            expect(lengths[static_cast<size_t>(token)], std::sqrt(square), "a length");
        }
    }
};

}  // namespace regard
