// A few queries, as when decoding. Against many keys they are bound by memory, so keys and values are read once, in
// order, and their span is split over threads; a panel of lanes would stay nearly empty. Here lanes run along the size.
// The split depends on the count of keys alone.
#pragma once
#include <memory>

#include "forward.h"

namespace regard {
namespace REGARD_ISA {
namespace {

constexpr int64_t decode_span = 1024;  // keys of one item
constexpr int64_t decode_tile = 128;   // keys whose rows stay in the first caches for all queries of the group
constexpr int64_t decode_rows = 4;     // at most this many queries a head go this way

// The state of one row over one span of keys: what the online softmax carries, then the outputs.
template <class Real>
struct Partial {
    static constexpr int64_t head = 5;  // peak of the scores, mass, spread, reach, peak in log2 (rounded once)
    static int64_t size(int64_t value_size) { return head + value_size; }
};

// Products of one query with `keys` rows, eight (a vector's lanes) at a time.
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
    Real *query, *scores, *masked, *keys_copy, *values_copy;

  public:
    DecodeSpan(const Forward& f, Parts& parts, int64_t sequence, int64_t key_head)
        : f(f), s(f.scores), sequence(sequence), key_head(key_head), value_size(f.values ? f.values.shape[3] : 0) {
        query = parts.take<Real>(s.size());
        scores = parts.take<Real>(decode_tile);
        masked = parts.take<Real>(decode_tile);
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
                state[0] = state[4] = minus_infinity<Real>;
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
        const Units<Real> units(s);
        for (int64_t t = 0; t < s.size(); ++t) query[t] *= units.packing;
        dot_rows<Real>(query, keys, count, s.size(), scores);
        bool all_seen = finish(head, row, first, count);
        const Real peak = highest(count, state[0], all_seen);
        const Real down = peak == minus_infinity<Real> ? Real(0) : peak * units.factor, before = state[4];
        const Real shrink = exp2_of(all(before - down))[0];
        const Real moved = state[1] > 0 ? state[1] * (before - down) : Real(0);
        Vec<Real> mass{}, spread{}, reach{};
        for (int64_t j = count; j < round_up(count, L); ++j) scores[j] = minus_infinity<Real>;
        if (!all_seen) std::memcpy(masked, scores, sizeof(Real) * static_cast<size_t>(count));
        const Real position = static_cast<Real>(s.first_position(sequence) + row - first);
        for (int64_t j = 0; j < count; j += L) {
            const Vec<Real> x = load(scores + j) * units.factor - down, p = exp2_of(x);
            store<Real>(scores + j, p);
            mass += p;
            spread += p * larger(all(sizeof(Real) == 4 ? Real(-127) : Real(-1023)), x);
            const Vec<Real> apart = as_real<Real>(lane_numbers<Real>()) + (static_cast<Real>(j) - position);
            reach += p * (apart < Real(0) ? -apart : apart);
        }
        state[0] = peak;
        state[4] = peak == minus_infinity<Real> ? peak : down;
        state[2] = (state[2] + moved) * shrink + sum_lanes<Real>(spread);
        state[1] = state[1] * shrink + sum_lanes<Real>(mass);
        state[3] = state[3] * shrink + sum_lanes<Real>(reach);
        Real* outputs = state + Partial<Real>::head;
        if (shrink != 1)
            for (int64_t e = 0; e < value_size; ++e) outputs[e] *= shrink;
        if (f.values) add_rows<Real>(scores, values, count, value_size, all_seen, masked, outputs);
    }

    // The largest of the scores and of one before them, NaN where one of them is; a key may hide itself with −inf.
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
        Real peak = before;
        for (int lane = 0; lane < L; ++lane) peak = best[lane] > peak ? best[lane] : peak;
        for (; j < count; ++j) {
            if (scores[j] > peak || scores[j] != scores[j]) peak = scores[j];
            all_seen &= scores[j] != minus_infinity<Real>;
        }
        all_seen &= !any_lane<Real>(hidden);
        return any_lane<Real>(unclear) ? std::numeric_limits<Real>::quiet_NaN() : peak;
    }

    // Scores of one row: capped, biased, masked. True if no key is hidden.
    bool finish(int64_t head, int64_t row, int64_t first, int64_t count) {
        if (s.softcap > 0) {
            const Real cap = static_cast<Real>(s.softcap * log2_e<double>),
                       inward = static_cast<Real>(s.scale / s.softcap);
            for (int64_t j = 0; j < count; j += L)
                store<Real>(scores + j, tanh_of<Real>(load(scores + j) * inward) * cap);
        } else if (transforms(s)) {
            const Real scale = static_cast<Real>(s.scale * log2_e<double>);
            for (int64_t j = 0; j < count; ++j) scores[j] *= scale;
        }
        if (s.bias) {
            const int64_t width = static_cast<int64_t>(bytes_of(s.bias.type)) * s.bias.stride[3];
            const char* from = s.bias.at(sequence, head, row) + first * width;
            for (int64_t j = 0; j < count; ++j) {
                const Real bias = read<Real>(from + j * width, s.bias.type);
                scores[j] = bias == minus_infinity<Real> ? bias : scores[j] + bias * log2_e<Real>;
            }
        }
        if (s.relative) {
            const Real* table = reinterpret_cast<const Real*>(s.relative.at(0, 0)) + head * s.relative.stride[0];
            const int64_t zero = s.first_position(sequence) + row - first + s.relative_zero;
            for (int64_t j = 0; j < count; ++j) scores[j] += table[zero - j] * log2_e<Real>;
        }
        if (s.mask) {
            const char* from = s.mask.at(sequence, head, row) + first * s.mask.stride[3];
            for (int64_t j = 0; j < count; ++j)
                if (!from[j * s.mask.stride[3]]) scores[j] = minus_infinity<Real>;
        }
        bool inside = !s.visible;
        for (int k = 0; k < 2 && s.visible.first[k]; ++k) {
            const int64_t at = sequence * s.visible.batch + row;
            inside |= s.visible.first[k][at] <= first && s.visible.last[k][at] >= first + count;
        }
        if (!inside)
            for (int64_t j = 0; j < count; ++j) {
                bool seen = false;
                for (int k = 0; k < 2 && s.visible.first[k]; ++k) {
                    const int64_t at = sequence * s.visible.batch + row;
                    seen |= first + j >= s.visible.first[k][at] && first + j < s.visible.last[k][at];
                }
                if (!seen) scores[j] = minus_infinity<Real>;
            }
        return inside && !may_hide(s);
    }
};

// Spans in order: the result does not depend on who computed which.
template <class Real>
void merge_line(const Forward& f, int64_t line, Real* states, int64_t spans, int64_t size) {
    const Scores& s = f.scores;
    const int64_t row = line % s.rows(), head = line / s.rows() % s.heads(), sequence = line / s.rows() / s.heads();
    Real peak = minus_infinity<Real>;
    for (int64_t k = 0; k < spans; ++k) {
        const Real level = states[k * size + 4];
        if (level > peak || level != level) peak = level;
    }
    if (peak == minus_infinity<Real>) peak = 0;
    // The first span takes in the others; one without a visible key has only zeros.
    Real* output = states + Partial<Real>::head;
    const int64_t values = size - Partial<Real>::head;
    double mass = 0, spread = 0, reach = 0;
    for (int64_t k = 0; k < spans; ++k) {
        const Real* part = states + k * size;
        if (part[1] == 0) continue;
        const double level = static_cast<double>(part[4]);
        const Real by = level == peak ? Real(1) : static_cast<Real>(std::exp2(level - peak));
        mass += static_cast<double>(part[1]) * by;
        spread += (part[2] + static_cast<double>(part[1]) * (level - peak)) * by;
        reach += static_cast<double>(part[3]) * by;
        if (k > 0)
            for (int64_t e = 0; e < values; ++e) output[e] += part[Partial<Real>::head + e] * by;
        else if (by != 1)
            for (int64_t e = 0; e < values; ++e) output[e] *= by;
    }
    const RowEnd<Real> end(f, head, peak, mass);
    end.write(f, line, peak, mass, spread, reach);
    if (!f.output) return;
    for (int64_t e = 0; e < values; ++e) output[e] *= end.factor;
    write_row<Real>(output, values, f.output.at(sequence, head, row), f.output.type, f.output.stride[3]);
}

inline bool decodes(const Forward& f) { return f.scores.rows() <= decode_rows && f.rows.top == 0; }

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
