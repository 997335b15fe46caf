// What heads do, read off weights that are in memory: sums of statistics, the strongest link of every query, and the
// word that every word attends to most. An item of work is one head of one text; its rows are added in order, so that
// results do not depend on the number of threads.
#pragma once
#include <algorithm>
#include <limits>

#include "norms.h"
#include "work.h"

namespace regard {
namespace REGARD_ISA {
namespace {

// Σ a · b.
REGARD_INLINE float dot_of(const float* a, const float* b, int64_t count) {
    constexpr int L = lanes<float>;
    Vec<float> sum[2] = {};
    int64_t i = 0;
    for (; i + 2 * L <= count; i += 2 * L)
        for (int k = 0; k < 2; ++k) sum[k] += load(a + i + k * L) * load(b + i + k * L);
    float total = sum_lanes<float>(sum[0] + sum[1]);
    for (; i < count; ++i) total += a[i] * b[i];
    return total;
}

// x G xᵀ of several vectors at once: their sums are independent, which hides the latency of multiply-adds.
template <int count>
REGARD_INLINE void quadratic(const float* const* x, const float* gram, int64_t size, float* to) {
    constexpr int L = lanes<float>;
    Vec<float> sum[count] = {};
    int64_t j = 0;
    for (; j + L <= size; j += L) {
        Vec<float> column[count] = {};
        for (int64_t i = 0; i < size; ++i)
            for (int k = 0; k < count; ++k) column[k] += x[k][i] * load(gram + i * size + j);
        for (int k = 0; k < count; ++k) sum[k] += column[k] * load(x[k] + j);
    }
    for (int k = 0; k < count; ++k) to[k] = sum_lanes<float>(sum[k]);
    for (; j < size; ++j)
        for (int k = 0; k < count; ++k) {
            float column = 0;
            for (int64_t i = 0; i < size; ++i) column += x[k][i] * gram[i * size + j];
            to[k] += column * x[k][j];
        }
}

bool vector_lengths(const Lengths& l) {
    constexpr int64_t block = 256;
    constexpr int several = 8;
    const int64_t tokens = l.vectors.shape[2], size = l.vectors.shape[3], blocks = (tokens + block - 1) / block;
    const int64_t shared = l.heads / l.vectors.shape[1];
    auto work = [&](int64_t item, void*) {
        const int64_t head = item / blocks, last = std::min(tokens, (item % blocks + 1) * block);
        const float* gram = l.grams + head * size * size;
        const float* x[several];
        float* to = l.lengths + head * tokens;
        const auto at = [&](int64_t token) {
            return reinterpret_cast<const float*>(l.vectors.at(0, head / shared, token));
        };
        int64_t token = item % blocks * block;
        for (; token + several <= last; token += several) {
            for (int k = 0; k < several; ++k) x[k] = at(token + k);
            quadratic<several>(x, gram, size, to + token);
        }
        for (; token < last; ++token) {
            x[0] = at(token);
            quadratic<1>(x, gram, size, to + token);
        }
        for (token = item % blocks * block; token < last; ++token) to[token] = std::sqrt(std::max(to[token], 0.f));
    };
    return run_items(l.heads * blocks, 0, 4. * static_cast<double>(l.heads * tokens * size * size), work);
}

// One head of one text.
struct HeadRows {
    const HeadSums& h;
    const float *weights, *entropy, *distance, *norms;
    const uint8_t* flags;
    const int32_t *same_token, *same_word;
    double *sums, *received;
    const int32_t* sinks;  // their positions
    int64_t sink_count;
    const int32_t* content_before;  // (key + 1,): content tokens before each position

    enum : uint8_t { content = 1, special = 2, punctuation = 4 };

    bool is_content(int64_t key) const { return flags[key] & content; }
    void add(Statistic name, double amount, double count) const {
        sums[2 * static_cast<int>(name)] += amount;
        sums[2 * static_cast<int>(name) + 1] += count;
    }
    // Statistics with a share of all weight and a share of the rest.
    void add_both(Statistic name, double amount, double rest) const {
        add(name, amount, 1);
        add(static_cast<Statistic>(static_cast<int>(name) + 1), amount, rest);
    }

    // Weight on other content tokens of a circular list that the query can see; negative where there is none.
    double on_list(const float* row, const int32_t* next, int64_t query) const {
        double total = 0;
        bool any = false;
        for (int64_t key = next[query]; key != query; key = next[key])
            if (is_content(key) && (!h.causal || key < query)) {
                total += row[key];
                any = true;
            }
        return any ? total : -1;
    }

    void add_row(int64_t line) const {
        const int64_t query = h.first + line, keys = h.keys;
        if (!is_content(query)) return;
        const float* row = weights + line * keys;
        const int64_t seen = h.causal ? query + 1 : keys;
        double on_sinks = 0, sink_terms = 0, sink_distance = 0, sink_norms = 0, separators = 0;
        for (int64_t s = 0; s < sink_count && sinks[s] < seen; ++s) {
            const int64_t key = sinks[s];
            const double weight = row[key];
            on_sinks += weight;
            if (weight > 0) sink_terms += weight * std::log(weight);
            sink_distance += weight * static_cast<double>(std::abs(query - key));
            sink_norms += weight * static_cast<double>(norms[key]);
            if (key > 0 && flags[key] & special) separators += weight;
        }
        const double rest = std::max(1 - on_sinks, 0.), few = std::max(rest, 1e-12);
        const double entropy_here = entropy[line], distance_here = distance[line];
        add(Statistic::entropy, entropy_here, 1);
        add(Statistic::distance, distance_here, 1);
        add(Statistic::distance_of_rest, distance_here - sink_distance, rest);
        add(Statistic::first, row[0], 1);
        add(Statistic::separators, separators, 1);
        double signs = 0;
        for (int64_t key = 0; key < seen; ++key)
            if (flags[key] & punctuation) signs += row[key];
        add(Statistic::punctuation, signs, 1);
        const int64_t choices = content_before[seen];
        if (choices >= h.fewest) {  // the entropy of the rest from that of all, renormalised
            const double of_rest = (entropy_here + sink_terms) / few + std::log(few);
            const double share = of_rest / std::log(static_cast<double>(choices));
            add(Statistic::evenness, std::clamp(share, 0., 1.) * rest, rest);
        }
        add_both(Statistic::itself, row[query], rest);
        if (query > 0 && is_content(query - 1)) add_both(Statistic::previous, row[query - 1], rest);
        if (!h.causal && query + 1 < keys && is_content(query + 1)) add_both(Statistic::next, row[query + 1], rest);
        const double repeated = on_list(row, same_token, query), pieces = on_list(row, same_word, query);
        if (repeated >= 0) add_both(Statistic::repeated, repeated, rest);
        if (pieces >= 0) add_both(Statistic::same_word, pieces, rest);
        if (choices >= h.long_enough) {
            double near = 0;
            for (int64_t key = std::max<int64_t>(query - h.window, 0); key < std::min(seen, query + h.window + 1);
                 ++key)
                if (key != query && is_content(key)) near += row[key];
            add_both(Statistic::window, near, rest);
        }
        add(Statistic::sinks_by_norm, sink_norms, dot_of(row, norms, seen));
        for (int64_t key = 0; key < seen; ++key) received[key] += row[key];
    }
};

bool head_sums(const HeadSums& h) {
    auto work = [&](int64_t item, void* memory) {
        Parts parts{static_cast<char*>(memory)};
        int32_t *sinks = parts.take<int32_t>(h.keys), *before = parts.take<int32_t>(h.keys + 1);
        const int64_t text = item / h.heads;
        const uint8_t* flags = h.flags + text * h.keys;
        int64_t sink_count = 0;
        before[0] = 0;
        for (int64_t key = 0; key < h.keys; ++key) {
            const bool is_content = flags[key] & HeadRows::content;
            before[key + 1] = before[key] + is_content;
            if (!is_content) sinks[sink_count++] = static_cast<int32_t>(key);
        }
        const HeadRows rows{h,
                            h.weights + item * h.rows * h.keys,
                            h.entropy + item * h.rows,
                            h.distance + item * h.rows,
                            h.norms + item * h.keys,
                            flags,
                            h.same_token + text * h.keys,
                            h.same_word + text * h.keys,
                            h.sums + item * 2 * statistic_count,
                            h.received + item * h.keys,
                            sinks,
                            sink_count,
                            before};
        for (int64_t line = 0; line < h.rows && !stopping(); ++line) rows.add_row(line);
    };
    Parts parts{nullptr};
    parts.take<int32_t>(h.keys);
    parts.take<int32_t>(h.keys + 1);
    const auto lines = static_cast<double>(h.texts * h.heads * h.rows);
    return run_items(h.texts * h.heads, parts.used, lines * (600. + 8. * static_cast<double>(h.keys)), work);
}

// The first of the largest numbers among those whose limit is not below them.
REGARD_INLINE int64_t first_largest(const float* row, const float* limit, int64_t count, float& largest) {
    constexpr int L = lanes<float>;
    Vec<float> most = all(-1.f);
    int64_t i = 0;
    for (; i + L <= count; i += L) {
        const Vec<float> x = load(row + i), bound = load(limit + i);
        most = larger(most, x < bound ? x : bound);
    }
    float part[L];
    store<float>(part, most);
    largest = *std::max_element(part, part + L);
    for (; i < count; ++i) largest = std::max(largest, std::min(row[i], limit[i]));
    for (i = 0; i < count; ++i)
        if (std::min(row[i], limit[i]) == largest) return i;
    return 0;
}

bool strongest_links(const StrongestLinks& s) {
    auto work = [&](int64_t item, void* memory) {
        float* limit = static_cast<float*>(memory);  // 2: may be chosen, −1: may not
        const uint8_t* may = s.may + item / s.heads * s.keys;
        for (int64_t key = 0; key < s.keys; ++key) limit[key] = may[key] ? 2.f : -1.f;
        for (int64_t line = 0; line < s.rows && !stopping(); ++line) {
            const int64_t query = s.first + line, at = item * s.rows + line;
            const float before = limit[query];
            limit[query] = -1;
            s.best[at] = static_cast<int32_t>(first_largest(s.weights + at * s.keys, limit, s.keys, s.best_weight[at]));
            limit[query] = before;
        }
    };
    const auto numbers = static_cast<double>(s.texts * s.heads * s.rows * s.keys);
    return run_items(s.texts * s.heads, static_cast<size_t>(s.keys) * sizeof(float), 8. * numbers, work);
}

// Word pieces are joined: the sum of the weights to a word, the mean of those from it. Words are given by the first
// token of each, of each text as many as `words` and an end.
bool word_choices(const WordChoices& w) {
    auto work = [&](int64_t item, void* memory) {
        double* total = static_cast<double*>(memory);
        const int64_t text = item / w.heads, words = w.counts[text];
        const int32_t* edges = w.edges + text * (w.words + 1);
        const uint8_t* aside = w.aside + text * w.words;
        const float* weights = w.weights + item * w.keys * w.keys;
        int32_t* best = w.best + item * w.words;
        for (int64_t from = 0; from < words && !stopping(); ++from) {
            std::fill(total, total + words, 0.);
            for (int64_t row = edges[from]; row < edges[from + 1]; ++row)
                for (int64_t to = 0; to < words; ++to)
                    for (int64_t key = edges[to]; key < edges[to + 1]; ++key)
                        total[to] += static_cast<double>(weights[row * w.keys + key]);
            best[from] = -1;
            double most = 0;  // the mean divides all of them by the same number
            for (int64_t to = 0; to < words; ++to)
                if (to != from && !aside[to] && total[to] > most) {
                    most = total[to];
                    best[from] = static_cast<int32_t>(to);
                }
        }
        std::fill(best + words, best + w.words, -1);
    };
    const auto numbers = static_cast<double>(w.texts * w.heads * w.keys * w.keys);
    return run_items(w.texts * w.heads, static_cast<size_t>(w.words) * sizeof(double), 16. * numbers, work);
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
