// Outputs of a few queries, as when decoding. Against many keys they are bound by memory, so keys and values are read
// once, in order, and their span is split over threads; a panel of lanes would stay nearly empty. Here lanes run along
// the size. The split depends on the count of keys alone.
#pragma once
#include <memory>

#include "forward.h"

namespace regard {
namespace REGARD_ISA {
namespace {

constexpr int64_t decode_span = 1024;  // keys of one item
constexpr int64_t decode_tile = 128;   // keys whose rows stay in the first caches for all queries of the group
constexpr int64_t decode_rows = 4;     // at most this many queries per head are computed here

// The state of one row over one span of keys: row_max, row_sum, then the outputs.
template <class Real>
struct Partial {
    static constexpr int64_t head = 2;
    static int64_t size(int64_t value_size) { return head + value_size; }
};

// Products of one query with `keys` rows, eight (a vector's lanes) at a time. Summed in another order than by the
// micro-kernel, which is 2.5 times as slow here: row state and statistics, whose bits have to agree with those of other
// passes, are never computed here.
template <class Real>
void dot_rows(const Real* query, PlainRows<Real> keys, int64_t count, int64_t size, Real* scores) {
    constexpr int L = lanes<Real>;
    int64_t j = 0;
    for (; j + L <= count; j += L) {
        Vec<Real> sum[L] = {};
        const Real* row = keys.data + j * keys.row;
        int64_t t = 0;
        for (; t + L <= size; t += L) {
            const Vec<Real> q = load(query + t);
            for (int k = 0; k < L; ++k) sum[k] += q * load(row + k * keys.row + t);
        }
        transpose<Real>(sum);
        Vec<Real> total{};
        for (int k = 0; k < L; ++k) total += sum[k];
        for (; t < size; ++t)
            for (int k = 0; k < L; ++k) total[k] += query[t] * row[k * keys.row + t];
        store<Real>(scores + j, total);
    }
    for (; j < count; ++j) {
        Vec<Real> sum{};
        const Real* row = keys.data + j * keys.row;
        int64_t t = 0;
        for (; t + L <= size; t += L) sum += load(query + t) * load(row + t);
        Real total = sum_lanes<Real>(sum);
        for (; t < size; ++t) total += query[t] * row[t];
        scores[j] = total;
    }
}

// outputs += Σ weight · value row, for rows that are seen: masked ones may hold NaN, and 0 · NaN is NaN.
template <class Real>
void add_rows(const Real* weights, PlainRows<Real> values, int64_t count, int64_t size, bool all_seen,
              const Real* masked, Real* outputs) {
    constexpr int L = lanes<Real>, N = 8;
    int64_t e = 0;
    for (; e + L <= size;) {
        const int vectors = static_cast<int>(std::min<int64_t>(N, (size - e) / L));
        Vec<Real> sum[N];
        for (int v = 0; v < vectors; ++v) sum[v] = load(outputs + e + v * L);
        for (int64_t j = 0; j < count; ++j) {
            if (!all_seen && masked[j] == minus_infinity<Real>) continue;
            const Real* row = values.data + j * values.row + e;
            if (vectors == N)
                for (int v = 0; v < N; ++v) sum[v] += weights[j] * load(row + v * L);
            else
                for (int v = 0; v < vectors; ++v) sum[v] += weights[j] * load(row + v * L);
        }
        for (int v = 0; v < vectors; ++v) store<Real>(outputs + e + v * L, sum[v]);
        e += vectors * L;
    }
    for (; e < size; ++e)
        for (int64_t j = 0; j < count; ++j)
            if (all_seen || masked[j] != minus_infinity<Real>)
                outputs[e] += weights[j] * values.data[j * values.row + e];
}

template <class Real>
class DecodeSpan {
    static constexpr int L = lanes<Real>;
    const Forward& f;
    const Scores& s;
    int64_t sequence, key_head, value_size;
    Units<Real> units;
    Real *query, *scores, *masked, *spare, *keys_copy, *values_copy;

  public:
    DecodeSpan(const Forward& f, Parts& parts, int64_t sequence, int64_t key_head)
        : f(f), s(f.scores), sequence(sequence), key_head(key_head), value_size(f.values ? f.values.shape[3] : 0),
          units(s) {
        query = parts.take<Real>(s.size());
        scores = parts.take<Real>(decode_tile);
        masked = parts.take<Real>(decode_tile);
        spare = parts.take<Real>(decode_tile);
        keys_copy = parts.take<Real>(plain<Real>(s.keys) ? 0 : decode_tile * s.size());
        values_copy = parts.take<Real>(f.values && !plain<Real>(f.values) ? decode_tile * value_size : 0);
    }

    // Every query of the group over keys [from, to); partial(head, row) is where its state goes.
    template <class Place>
    void compute(int64_t from, int64_t to, Place partial) {
        const int64_t group = s.heads() / s.keys.shape[1];
        for (int64_t h = 0; h < group; ++h)
            for (int64_t r = 0; r < s.rows(); ++r) {
                Real* state = partial(key_head * group + h, r);
                std::memset(state, 0, static_cast<size_t>(Partial<Real>::size(value_size)) * sizeof(Real));
                state[0] = minus_infinity<Real>;
            }
        for (int64_t first = from; first < to; first += decode_tile) {
            const int64_t last = std::min(to, first + decode_tile);
            if (unseen(first, last)) continue;
            const auto keys = plain_rows<Real>(s.keys, sequence, key_head, first, last - first, keys_copy);
            PlainRows<Real> values{};
            if (f.values) values = plain_rows<Real>(f.values, sequence, key_head, first, last - first, values_copy);
            for (int64_t h = 0; h < group; ++h)
                for (int64_t r = 0; r < s.rows(); ++r)
                    absorb(key_head * group + h, r, first, last - first, keys, values,
                           partial(key_head * group + h, r));
        }
    }

  private:
    bool unseen(int64_t first, int64_t last) const {
        if (!s.visible) return false;
        for (int64_t r = 0; r < s.rows(); ++r)
            for (int k = 0; k < 2 && s.visible.first[k]; ++k) {
                const int64_t at = sequence * s.visible.batch + r;
                if (std::max<int64_t>(first, s.visible.first[k][at]) < std::min<int64_t>(last, s.visible.last[k][at]))
                    return false;
            }
        return true;
    }

    void absorb(int64_t head, int64_t row, int64_t first, int64_t count, PlainRows<Real> keys, PlainRows<Real> values,
                Real* state) {
        const View& q = s.queries;
        read_row<Real>(q.at(sequence, head, row), q.type, q.stride[3], s.size(), query);
        for (int64_t t = 0; t < s.size(); ++t) query[t] *= units.sign;
        dot_rows<Real>(query, keys, count, s.size(), scores);
        finish_scores<Real>(s, units, {sequence, head, row, 1, first, count},
                            LanesAreKeys<Real>{round_up(count, L), false}, Stage::masked, false, scores, spare);
        bool all_seen = true;
        const Real row_max = highest(count, state[0], all_seen);
        const Real top = row_max == minus_infinity<Real> ? Real(0) : row_max, down = (state[0] - top) * units.factor;
        const Real rescale = exp2_of(all(down))[0];
        Vec<Real> row_sum{};
        for (int64_t j = count; j < round_up(count, L); ++j) scores[j] = minus_infinity<Real>;
        if (!all_seen) std::memcpy(masked, scores, sizeof(Real) * static_cast<size_t>(count));
        for (int64_t j = 0; j < count; j += L) {
            const Vec<Real> p = exp2_of((load(scores + j) - top) * units.factor);
            store<Real>(scores + j, p);
            row_sum += p;
        }
        state[0] = row_max;
        state[1] = state[1] * rescale + sum_lanes<Real>(row_sum);
        Real* outputs = state + Partial<Real>::head;
        if (rescale != 1)
            for (int64_t e = 0; e < value_size; ++e) outputs[e] *= rescale;
        if (f.values) add_rows<Real>(scores, values, count, value_size, all_seen, masked, outputs);
    }

    // The largest of the scores and of one before them, NaN where one of them is; `all_seen` unless one is −inf.
    Real highest(int64_t count, Real before, bool& all_seen) const {
        Vec<Real> best = all(minus_infinity<Real>);
        Int<Real> unclear{}, hidden{};
        int64_t j = 0;
        for (; j + L <= count; j += L) {
            const Vec<Real> x = load(scores + j);
            best = larger(best, x);
            unclear |= x != x;
            hidden |= x == minus_infinity<Real>;
        }
        Real most = before;
        for (int lane = 0; lane < L; ++lane) most = best[lane] > most ? best[lane] : most;
        for (; j < count; ++j) {
            if (scores[j] > most || scores[j] != scores[j]) most = scores[j];
            all_seen &= scores[j] != minus_infinity<Real>;
        }
        all_seen &= !any_lane<Real>(hidden);
        return any_lane<Real>(unclear) ? std::numeric_limits<Real>::quiet_NaN() : most;
    }
};

// Spans in order: the result does not depend on which thread computed which.
template <class Real>
void merge_line(const Forward& f, int64_t line, Real* states, int64_t spans, int64_t size) {
    const Scores& s = f.scores;
    const int64_t row = line % s.rows(), head = line / s.rows() % s.heads(), sequence = line / s.rows() / s.heads();
    const Units<Real> units(s);
    Real row_max = minus_infinity<Real>;
    for (int64_t k = 0; k < spans; ++k) {
        const Real one = states[k * size];
        if (one > row_max || one != one) row_max = one;
    }
    // The other spans are added to the first; a span without a visible key has only zeros.
    Real* output = states + Partial<Real>::head;
    const int64_t values = size - Partial<Real>::head;
    double row_sum = 0;
    for (int64_t k = 0; k < spans; ++k) {
        const Real* part = states + k * size;
        if (part[1] == 0) continue;
        const double down = static_cast<double>(part[0]) - static_cast<double>(row_max);
        const Real by = down == 0 ? Real(1) : static_cast<Real>(std::exp2(down * units.factor));
        row_sum += static_cast<double>(part[1]) * by;
        if (k > 0)
            for (int64_t e = 0; e < values; ++e) output[e] += part[Partial<Real>::head + e] * by;
        else if (by != 1)
            for (int64_t e = 0; e < values; ++e) output[e] *= by;
    }
    const Real share = static_cast<Real>(RowEnd<Real>(s, units, head, row_max, row_sum).share);
    for (int64_t e = 0; e < values; ++e) output[e] *= share;
    write_row<Real>(output, values, f.output.at(sequence, head, row), f.output.type, f.output.stride[3]);
}

inline bool decodes(const Forward& f) { return f.scores.rows() <= decode_rows && !f.rows.any(); }

template <class Real>
bool forward_decode(const Forward& f) {
    const Scores& s = f.scores;
    const int64_t value_size = f.values ? f.values.shape[3] : 0, key_heads = s.keys.shape[1];
    const int64_t spans = std::max<int64_t>(1, (s.columns() + decode_span - 1) / decode_span);
    const int64_t state = Partial<Real>::size(value_size), lines = s.batch() * s.heads() * s.rows();
    std::unique_ptr<Real[]> states(new Real[static_cast<size_t>(lines * spans * state)]);
    auto place = [&](int64_t sequence, int64_t head, int64_t row, int64_t span) {
        return states.get() + (((sequence * s.heads() + head) * s.rows() + row) * spans + span) * state;
    };
    auto work = [&](int64_t item, void* memory) {
        Parts parts{static_cast<char*>(memory)};
        const int64_t span = item % spans, key_head = item / spans % key_heads, sequence = item / spans / key_heads;
        DecodeSpan<Real> block(f, parts, sequence, key_head);
        block.compute(span * decode_span, std::min(s.columns(), (span + 1) * decode_span),
                      [&](int64_t head, int64_t row) { return place(sequence, head, row, span); });
    };
    Parts parts{nullptr};
    DecodeSpan<Real> probe(f, parts, 0, 0);
    const double cost = 8. * lines * s.columns() * (s.size() + value_size);  // bound by memory: worth sharing early
    if (!run_items(s.batch() * key_heads * spans, parts.used, cost, work)) return false;
    for (int64_t line = 0; line < lines; ++line)
        merge_line<Real>(f, line, states.get() + line * spans * state, spans, state);
    return true;
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
