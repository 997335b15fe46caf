// Outputs of a few queries, as when decoding. Against many keys they are bound by memory, so keys and values are read
// once, in order, and their span is split over threads; a panel of lanes would stay nearly empty. Here lanes run along
// the size. The split depends on the count of keys alone.
#pragma once
#include <memory>

#include "dots.h"
#include "forward.h"

namespace regard {
namespace REGARD_ISA {
namespace {

// Keys of one item: long streams are what memory is fast at. Tiles of 128 keys, keys and values in turns, took 1.6
// times as long (8,192 keys, Zen 4); spans of 1,024 keys take 1.05 times as long (Zen 5).
constexpr int64_t decode_span = 2048;
constexpr int64_t decode_strip = 64;  // keys whose values stay in the first cache for all queries of the group
constexpr int64_t decode_rows = 4;    // at most this many queries per head are computed here

// The state of one row over one span of keys: row_max, row_sum, then the outputs.
template <class Real>
struct Partial {
    static constexpr int64_t head = 2;
    static int64_t size(int64_t value_size) { return head + value_size; }
};

// Rows of keys or values as they are stored: 16-bit numbers that few queries read are widened in registers.
template <class Real>
struct StoredRows {
    const char* data;
    Type type;
    int64_t row;  // distance in numbers

    // Calls `work` with a pointer to the numbers.
    template <class Work>
    void read(const Work& work) const {
        if constexpr (sizeof(Real) == 4) {
            if (type == Type::f16) return work(reinterpret_cast<const Half*>(data));
            if (type == Type::bf16) return work(reinterpret_cast<const Brain*>(data));
        }
        work(reinterpret_cast<const Real*>(data));
    }
};

// outputs[r] += Σ weight[r][j] · value row j, for R rows and N vectors of the size: values are read once.
template <int R, int N, class Real, class Stored>
REGARD_INLINE void add_values_block(const Real* weights, int64_t weight_row, const Stored* values, int64_t value_row,
                                    int64_t count, Real* const* outputs, int64_t e) {
    constexpr int L = lanes<Real>;
    Vec<Real> sum[R][N];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
        for (int v = 0; v < N; ++v) sum[r][v] = load(outputs[r] + e + v * L);
    for (int64_t j = 0; j < count; ++j) {
        const Stored* row = values + j * value_row + e;
#pragma GCC unroll 16
        for (int v = 0; v < N; ++v) {
            const Vec<Real> value = load_as(row + v * L);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) sum[r][v] += weights[r * weight_row + j] * value;
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
        for (int v = 0; v < N; ++v) store<Real>(outputs[r] + e + v * L, sum[r][v]);
}

// The same for the whole size.
template <int R, class Real, class Stored>
void add_values(const Real* weights, int64_t weight_row, const Stored* values, int64_t value_row, int64_t count,
                int64_t size, Real* const* outputs) {
    constexpr int L = lanes<Real>, N = R == 1 ? 8 : 4;
    int64_t e = 0;
    for (; e + N * L <= size; e += N * L)
        add_values_block<R, N>(weights, weight_row, values, value_row, count, outputs, e);
    if (e + N / 2 * L <= size) {
        add_values_block<R, N / 2>(weights, weight_row, values, value_row, count, outputs, e);
        e += N / 2 * L;
    }
    for (; e + L <= size; e += L) add_values_block<R, 1>(weights, weight_row, values, value_row, count, outputs, e);
    for (int r = 0; r < R; ++r)
        for (int64_t rest = e; rest < size; ++rest)
            for (int64_t j = 0; j < count; ++j)
                outputs[r][rest] += weights[r * weight_row + j] * one_as<Real>(values + j * value_row + rest);
}

// The queries of all heads that share a head of keys, over one span of keys.
template <class Real>
class DecodeSpan {
    static constexpr int L = lanes<Real>;
    static constexpr int together = registers == 32 ? 4 : 2;  // queries for which values are read once
    const Forward& f;
    const Scores& s;
    int64_t sequence, key_head, value_size, group, lines;
    Units<Real> units;
    Real down;  // what p is multiplied with before the values
    Real *queries, *scores, *masked, *spare, *keys_copy, *values_copy;
    Real** states;  // of each line: row_max, row_sum, outputs
    bool* all_seen;

  public:
    DecodeSpan(const Forward& f, Parts& parts, int64_t sequence, int64_t key_head, Real down)
        : f(f), s(f.scores), sequence(sequence), key_head(key_head), value_size(f.values ? f.values.shape[3] : 0),
          group(s.heads() / s.keys.shape[1]), lines(group * s.rows()), units(s), down(down) {
        queries = parts.take<Real>(lines * s.size());
        scores = parts.take<Real>(lines * decode_span);
        masked = parts.take<Real>(lines * decode_span);
        spare = parts.take<Real>(decode_span);
        keys_copy = parts.take<Real>(in_place(s.keys) ? 0 : decode_span * s.size());
        values_copy = parts.take<Real>(f.values && !in_place(f.values) ? decode_span * value_size : 0);
        states = parts.take<Real*>(lines);
        all_seen = parts.take<bool>(lines);
    }

    // Every query of the group over keys [from, to); partial(head, row) is where its state goes.
    template <class Place>
    void compute(int64_t from, int64_t to, Place partial) {
        const View& q = s.queries;
        for (int64_t line = 0; line < lines; ++line) {
            const int64_t head = head_of(line), row = line % s.rows();
            states[line] = partial(head, row);
            std::memset(states[line], 0, static_cast<size_t>(Partial<Real>::size(value_size)) * sizeof(Real));
            states[line][0] = minus_infinity<Real>;
            Real* query = queries + line * s.size();
            read_row<Real>(q.at(sequence, head, row), q.type, q.stride[3], s.size(), query);
            for (int64_t t = 0; t < s.size(); ++t) query[t] *= units.sign;
        }
        narrow(from, to);
        if (from >= to) return;
        const int64_t count = to - from;
        const StoredRows<Real> keys = rows_of(s.keys, from, to, keys_copy);
        // Products are summed in another order than by the micro-kernel, which is 2.5 times as slow here: row state and
        // statistics, whose bits have to agree with those of other passes, are never computed here.
        keys.read([&](const auto* rows) {
            using Stored = std::decay_t<decltype(*rows)>;
            dot_products(lines, Dots<Real, Stored>{s.size(), queries, s.size(), rows, keys.row, count, false, scores,
                                                   decode_span});
        });
        for (int64_t line = 0; line < lines; ++line) weigh_line(line, from, count);
        if (f.values) gather(rows_of(f.values, from, to, values_copy), count);
    }

  private:
    int64_t head_of(int64_t line) const { return key_head * group + line / s.rows(); }

    // Whether rows are read as they are stored: 16-bit numbers that many queries share are widened once.
    bool in_place(const View& view) const {
        const bool narrow = sizeof(Real) == 4 && (view.type == Type::f16 || view.type == Type::bf16);
        return plain<Real>(view) || (narrow && view.stride[3] == 1 && lines <= together);
    }
    StoredRows<Real> rows_of(const View& view, int64_t first, int64_t last, Real* copy) const {
        if (in_place(view)) return {view.at(sequence, key_head, first), view.type, view.stride[2]};
        const PlainRows<Real> rows = plain_rows<Real>(view, sequence, key_head, first, last - first, copy);
        return {reinterpret_cast<const char*>(rows.data), own_type<Real>, rows.row};
    }

    // Narrows [from, to) to keys that some query sees.
    void narrow(int64_t& from, int64_t& to) const {
        if (!s.visible) return;
        int64_t low = to, high = from;
        for (int64_t r = 0; r < s.rows(); ++r)
            for (int k = 0; k < 2 && s.visible.first[k]; ++k) {
                const int64_t at = sequence * s.visible.batch + r;
                const int64_t first = std::max<int64_t>(from, s.visible.first[k][at]),
                              last = std::min<int64_t>(to, s.visible.last[k][at]);
                if (first >= last) continue;
                low = std::min(low, first);
                high = std::max(high, last);
            }
        from = low;
        to = high;
    }

    // The products of one query turned into p = 2^(factor · (score − row_max)).
    void weigh_line(int64_t line, int64_t first, int64_t count) {
        Real* row = scores + line * decode_span;
        finish_scores<Real>(s, units, {sequence, head_of(line), line % s.rows(), 1, first, count},
                            LanesAreKeys<Real>{round_up(count, L), false}, Stage::masked, false, row, spare);
        all_seen[line] = true;
        const Real row_max = highest(row, count, all_seen[line]);
        const Real top = row_max == minus_infinity<Real> ? Real(0) : row_max;
        for (int64_t j = count; j < round_up(count, L); ++j) row[j] = minus_infinity<Real>;
        if (!all_seen[line]) std::memcpy(masked + line * decode_span, row, sizeof(Real) * static_cast<size_t>(count));
        Vec<Real> row_sum{};
        for (int64_t j = 0; j < count; j += L) {
            const Vec<Real> p = exp2_of((load(row + j) - top) * units.factor);
            store<Real>(row + j, p);
            row_sum += p;
        }
        states[line][0] = row_max;
        states[line][1] = sum_lanes<Real>(row_sum);
        if (down != 1)
            for (int64_t j = 0; j < count; ++j) row[j] *= down;
    }

    // The largest score, NaN where one of them is; `seen` unless one is −inf.
    static Real highest(const Real* row, int64_t count, bool& seen) {
        Vec<Real> best = all(minus_infinity<Real>);
        Int<Real> unclear{}, hidden{};
        int64_t j = 0;
        for (; j + L <= count; j += L) {
            const Vec<Real> x = load(row + j);
            best = larger(best, x);
            unclear |= x != x;
            hidden |= x == minus_infinity<Real>;
        }
        Real most = minus_infinity<Real>;
        for (int lane = 0; lane < L; ++lane) most = best[lane] > most ? best[lane] : most;
        for (; j < count; ++j) {
            if (row[j] > most || row[j] != row[j]) most = row[j];
            seen &= row[j] != minus_infinity<Real>;
        }
        seen &= !any_lane<Real>(hidden);
        return any_lane<Real>(unclear) ? std::numeric_limits<Real>::quiet_NaN() : most;
    }

    // outputs = Σ p · value, a strip of keys after the other; lines that see all keys share the reads.
    void gather(const StoredRows<Real>& values, int64_t count) {
        values.read([&](const auto* rows) {
            for (int64_t j = 0; j < count; j += decode_strip) {
                const int64_t keys = std::min(decode_strip, count - j);
                for (int64_t line = 0; line < lines;) {
                    Real* outputs[together];
                    int many = 0;
                    for (; many < together && line + many < lines && all_seen[line + many]; ++many)
                        outputs[many] = states[line + many] + Partial<Real>::head;
                    const Real* weights = scores + line * decode_span + j;
                    if (many == together) {
                        add_values<together>(weights, decode_span, rows + j * values.row, values.row, keys, value_size,
                                             outputs);
                        line += together;
                    } else if (many > 0) {
                        add_values<1>(weights, decode_span, rows + j * values.row, values.row, keys, value_size,
                                      outputs);
                        ++line;
                    } else {
                        add_seen(line, j, keys, rows + j * values.row, values.row);
                        ++line;
                    }
                }
            }
        });
    }
    // Run by run of keys that the query sees: others may hold NaN, and 0 · NaN is NaN.
    template <class Stored>
    void add_seen(int64_t line, int64_t first, int64_t keys, const Stored* rows, int64_t row) {
        Real* outputs = states[line] + Partial<Real>::head;
        const Real *weights = scores + line * decode_span + first, *before = masked + line * decode_span + first;
        for (int64_t j = 0, end; j < keys; j = end + 1) {
            for (end = j; end < keys && before[end] != minus_infinity<Real>; ++end) {
            }
            if (j < end) add_values<1>(weights + j, 0, rows + j * row, row, end - j, value_size, &outputs);
        }
    }
};

// Spans in order: the result does not depend on which thread computed which. Returns whether all sums are finite.
template <class Real>
bool merge_line(const Forward& f, int64_t line, Real* states, int64_t spans, int64_t size, Real down) {
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
    const bool finite = all_finite(output, values);
    const Real share = static_cast<Real>(RowEnd<Real>(s, units, head, row_max, row_sum).share / down);
    for (int64_t e = 0; e < values; ++e) output[e] *= share;
    write_row<Real>(output, values, f.output.at(sequence, head, row), f.output.type, f.output.stride[3]);
    return finite;
}

inline bool decodes(const Forward& f) { return f.scores.rows() <= decode_rows && !f.rows.any(); }

template <class Real>
bool forward_decode(const Forward& f, Real down = 1) {
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
        DecodeSpan<Real> block(f, parts, sequence, key_head, down);
        block.compute(span * decode_span, std::min(s.columns(), (span + 1) * decode_span),
                      [&](int64_t head, int64_t row) { return place(sequence, head, row, span); });
    };
    Parts parts{nullptr};
    DecodeSpan<Real> probe(f, parts, 0, 0, down);
    const double cost = 8. * lines * s.columns() * (s.size() + value_size);  // bound by memory: worth sharing early
    if (!run_items(s.batch() * key_heads * spans, parts.used, cost, work)) return false;
    bool finite = true;
    for (int64_t line = 0; line < lines; ++line)
        finite &= merge_line<Real>(f, line, states.get() + line * spans * state, spans, state, down);
    // Σ p · v may overflow where the weighted mean does not.
    return finite || down != 1 || forward_decode<Real>(f, against_overflow<Real>(s));
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
