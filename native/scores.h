// From products to masked scores, for every pass: score → scaled → capped → biased → masked.
#pragma once
#include <limits>

#include "block.h"

namespace regard {
namespace REGARD_ISA {
namespace {

// 96 and 384 are up to 3% slower at size 64, equal at 128; the panel's scores, 12 KiB, stay in the first cache.
constexpr int64_t key_tile = 192;

template <class Real>
constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();

// What a panel of queries may see: its intervals by lane, and the hull of each.
template <class Real>
struct PanelMask {
    static constexpr int W = panel<Real>;
    Int<Real> first[2][panel_vectors], last[2][panel_vectors];
    int64_t low[2], high[2];              // some query sees a key in [low, high)
    int64_t inner_low[2], inner_high[2];  // every query sees all keys in [inner_low, inner_high)
    int count = 0;                        // intervals; 0: all keys are visible

    void read(const Scores& scores, int64_t sequence, int64_t row, int64_t rows) {
        count = 0;
        const Intervals& visible = scores.visible;
        if (!visible) return;
        count = visible.first[1] ? 2 : 1;
        for (int k = 0; k < count; ++k) {
            const int32_t* first_of = visible.first[k] + sequence * visible.batch + row;
            const int32_t* last_of = visible.last[k] + sequence * visible.batch + row;
            low[k] = INT32_MAX;
            high[k] = 0;
            inner_low[k] = 0;
            inner_high[k] = INT32_MAX;
            bool any = false;
            for (int lane = 0; lane < W; ++lane) {
                // Lanes past the last query repeat it, so that they don't widen the hull.
                const int64_t at = std::min<int64_t>(lane, rows - 1);
                const int32_t f = first_of[at], l = last_of[at];
                first[k][lane / lanes<Real>][lane % lanes<Real>] = f;
                last[k][lane / lanes<Real>][lane % lanes<Real>] = l;
                inner_low[k] = std::max<int64_t>(inner_low[k], f);
                inner_high[k] = std::min<int64_t>(inner_high[k], l);
                if (f >= l) continue;
                low[k] = any ? std::min<int64_t>(low[k], f) : f;
                high[k] = any ? std::max<int64_t>(high[k], l) : l;
                any = true;
            }
            if (!any) low[k] = high[k] = 0;
        }
    }

    // Narrows [from, to) to keys that some query sees.
    void narrow(int64_t& from, int64_t& to) const {
        if (count == 0) return;
        int64_t least = to, most = from;
        for (int k = 0; k < count; ++k) {
            const int64_t a = std::max(from, low[k]), b = std::min(to, high[k]);
            if (a < b) {
                least = std::min(least, a);
                most = std::max(most, b);
            }
        }
        from = least;
        to = std::max(least, most);
    }

    // The longest part [low, high) of [from, to) that every query sees; nothing where there is none.
    void whole_part(int64_t from, int64_t to, int64_t& low, int64_t& high) const {
        low = high = count == 0 ? from : to;
        if (count == 0) high = to;
        for (int k = 0; k < count; ++k) {
            const int64_t a = std::max(from, inner_low[k]), b = std::min(to, inner_high[k]);
            if (b - a > high - low) low = a, high = b;
        }
    }

    bool whole(int64_t from, int64_t to) const {
        if (count == 0) return true;
        for (int k = 0; k < count; ++k)
            if (inner_low[k] <= from && to <= inner_high[k]) return true;
        return false;
    }

    REGARD_INLINE Int<Real> sees(int64_t key, int v) const {
        const Int<Real> at = all_int<Real>(static_cast<typename Traits<Real>::Whole>(key));
        Int<Real> seen = (at >= first[0][v]) & (at < last[0][v]);
        if (count == 2) seen |= (at >= first[1][v]) & (at < last[1][v]);
        return seen;
    }
};

// The softmax compares q · k itself, with the sign of the scale, and multiplies the difference from the row's maximum
// by the factor: equal products are ties, and nothing is rounded before the subtraction. Where a cap, a bias or sinks
// exist, and where the scale is 0 or tiny (−inf times the factor has to stay −inf), it compares scores in natural
// units. The same rule as `softmax_units` in interface.py.
inline bool natural_units(const Scores& s) {
    return s.softcap > 0 || s.bias || s.relative || s.sinks || !(std::abs(s.scale) >= 0x1p-100);
}
template <class Real>
struct Units {
    bool natural, capped;
    Real sign;         // what queries (or keys) are packed with
    Real scale;        // from products to natural units
    Real factor;       // from differences to powers of two; not negative
    double nats;       // from differences to natural logarithms
    Real cap, inward;  // where capped: the cap, and scale / cap

    explicit Units(const Scores& s)
        : natural(natural_units(s)),
          capped(s.softcap > 0 && s.softcap <= static_cast<double>(std::numeric_limits<Real>::max())),
          sign(natural || s.scale > 0 ? Real(1) : Real(-1)), scale(within(s.scale)),
          factor(natural ? log2_e<Real> : within(std::abs(s.scale) * log2_e<double>)),
          nats(natural ? 1 : std::abs(s.scale)), cap(capped ? static_cast<Real>(s.softcap) : Real(0)),
          inward(capped ? within(s.scale / s.softcap) : Real(0)) {}

  private:
    // In the range of Real: an infinite factor would turn a difference of 0 into NaN.
    static Real within(double x) {
        constexpr double most = static_cast<double>(std::numeric_limits<Real>::max());
        return static_cast<Real>(std::clamp(x, -most, most));
    }
};

// Whether a score can be −inf for another reason than an interval.
inline bool may_hide(const Scores& scores) { return scores.bias || scores.mask || scores.relative; }

// Rows [row, row + rows) and keys [key, key + keys) of one head.
struct Region {
    int64_t sequence, head, row, rows, key, keys;
};

// The memory layout of a region: the score of query i and key j is at i · query_step + j · key_step.

// Lanes are queries, rows are keys: Sᵀ[key][query].
template <class Real>
struct LanesAreQueries {
    static constexpr int64_t query_step = 1, key_step = panel<Real>;
    const PanelMask<Real>& mask;

    static int64_t numbers(const Region& at) { return at.keys * panel<Real>; }

    static void read_bias(const View& bias, const Region& at, Real* to) {
        pack_panel<Real>(
            bias.at(at.sequence, at.head, at.row) + at.key * bias.stride[3] * static_cast<int64_t>(bytes_of(bias.type)),
            bias.type, bias.stride[2], bias.stride[3], at.rows, at.keys, Real(1), to);
    }
    // `table` holds the bias of distance i − j: for each key a window of it, one step lower each time.
    template <bool add>
    static void read_relative(const Real* table, int64_t low, int64_t high, int64_t zero, const Region& at, Real* to) {
        constexpr int L = lanes<Real>, W = panel<Real>;
        for (int64_t j = 0; j < at.keys; ++j) {
            const int64_t start = zero + at.row - (at.key + j);
            Real edge[W];
            const Real* window = table + start;
            if (start < low || start + W > high) {  // lanes past the last query
                for (int lane = 0; lane < W; ++lane)
                    edge[lane] = start + lane >= low && start + lane < high ? table[start + lane] : Real(0);
                window = edge;
            }
            for (int v = 0; v < panel_vectors; ++v) {
                Real* place = to + j * W + v * L;
                store<Real>(place, add ? load(place) + load(window + v * L) : load(window + v * L));
            }
        }
    }
    void hide_outside(const Scores&, const Region& at, Real* scores) const {
        constexpr int L = lanes<Real>, W = panel<Real>;
        if (mask.whole(at.key, at.key + at.keys)) return;
        for (int64_t j = 0; j < at.keys; ++j)
            for (int v = 0; v < panel_vectors; ++v) {
                Real* place = scores + j * W + v * L;
                store<Real>(place, mask.sees(at.key + j, v) ? load(place) : all(minus_infinity<Real>));
            }
    }
};

template <class Real>
REGARD_INLINE void hide(Real* from, Real* to) {
    for (; from < to; ++from) *from = minus_infinity<Real>;
}

// Lanes are keys, rows are queries: S[query][key].
template <class Real>
struct LanesAreKeys {
    static constexpr int64_t key_step = 1;
    int64_t query_step;  // a whole number of vectors
    bool whole;          // all queries see all keys of the region

    int64_t numbers(const Region& at) const { return at.rows * query_step; }

    void read_bias(const View& bias, const Region& at, Real* to) const {
        const int64_t width = static_cast<int64_t>(bytes_of(bias.type)) * bias.stride[3];
        for (int64_t i = 0; i < at.rows; ++i) {
            read_row<Real>(bias.at(at.sequence, at.head, at.row + i) + at.key * width, bias.type, bias.stride[3],
                           at.keys, to + i * query_step);
            for (int64_t j = at.keys; j < query_step; ++j) to[i * query_step + j] = 0;
        }
    }
    template <bool add>
    void read_relative(const Real* table, int64_t, int64_t, int64_t zero, const Region& at, Real* to) const {
        for (int64_t i = 0; i < at.rows; ++i) {
            const Real* from = table + zero + at.row + i - at.key;
            Real* row = to + i * query_step;
            for (int64_t j = 0; j < at.keys; ++j) row[j] = add ? row[j] + from[-j] : from[-j];
            for (int64_t j = at.keys; j < query_step && !add; ++j) row[j] = 0;
        }
    }
    void hide_outside(const Scores& s, const Region& at, Real* scores) const {
        if (whole || !s.visible) return;
        for (int64_t i = 0; i < at.rows; ++i) {
            Real* row = scores + i * query_step;
            const int64_t place = at.sequence * s.visible.batch + at.row + i;
            if (s.visible.first[0][place] <= at.key && s.visible.last[0][place] >= at.key + at.keys) continue;
            auto bound = [&](int32_t key) { return std::clamp<int64_t>(key - at.key, 0, at.keys); };
            // Up to two intervals, in any order: hide what is before, between and behind them.
            int64_t first[2] = {bound(s.visible.first[0][place]), 0}, last[2] = {bound(s.visible.last[0][place]), 0};
            if (first[0] >= last[0]) first[0] = last[0] = 0;
            if (s.visible.first[1]) {
                first[1] = bound(s.visible.first[1][place]), last[1] = bound(s.visible.last[1][place]);
                if (first[1] >= last[1]) first[1] = last[1] = 0;
            }
            const int low = first[0] == last[0] || (first[1] < last[1] && first[1] < first[0]) ? 1 : 0;
            const int high = 1 - low;
            const int64_t end = std::max(last[low], last[high]);
            hide(row, row + first[low]);
            if (first[high] < last[high]) hide(row + last[low], row + first[high]);
            hide(row + end, row + at.keys);
        }
    }
};

// The soft cap of one vector of products: cap · tanh(x / cap), x = scale · product. Near zero x + x · rise, so that a
// large cap takes nothing from x. `slope` becomes the derivative by x, without cancelling where the cap is reached.
template <class Real>
REGARD_INLINE Vec<Real> soft_cap(Vec<Real> product, const Units<Real>& units, Vec<Real>& slope) {
    const Vec<Real> x = product * units.scale;
    const Tanh<Real> t(product * units.inward);
    const Vec<Real> far = units.cap * (Real(1) - t.fall), near = Real(1) + t.rise;  // tanh(x / cap) / (x / cap)
    const Vec<Real> inner = product * units.inward * near;
    slope = t.near ? Real(1) - inner * inner : t.fall * (Real(2) - t.fall);
    return t.near ? x + x * t.rise : (x < Real(0) ? -far : far);
}

// Turns the products of a region into scores up to `stage`, in place; in natural units if `shown`, otherwise
// in those of the softmax. `spare` holds as many numbers as the region, where there is a bias. For the backward pass,
// `slope` gets the derivative of the cap.
template <class Real, class Layout>
void finish_scores(const Scores& s, const Units<Real>& units, const Region& at, const Layout& layout, Stage stage,
                   bool shown, Real* __restrict scores, Real* __restrict spare, Real* __restrict slope = nullptr) {
    constexpr int L = lanes<Real>;
    const int64_t count = layout.numbers(at);
    if (stage >= Stage::capped && units.capped) {
        for (int64_t i = 0; i < count; i += L) {
            Vec<Real> falling;
            store<Real>(scores + i, soft_cap<Real>(load(scores + i), units, falling));
            if (slope) store<Real>(slope + i, falling);
        }
    } else if (stage >= Stage::scaled && (shown || units.natural)) {
        for (int64_t i = 0; i < count; i += L) store<Real>(scores + i, load(scores + i) * units.scale);
    }
    if (stage >= Stage::biased && (s.bias || s.relative)) {
        // Both are added first, so that a part of the matrix whose biases were added elsewhere is rounded alike.
        if (s.bias) layout.read_bias(s.bias, at, spare);
        if (s.relative) {
            const Real* table = reinterpret_cast<const Real*>(s.relative.at(0, 0)) + at.head * s.relative.stride[0];
            const int64_t zero = s.first_position(at.sequence) + s.relative_zero, span = s.relative.shape[3];
            if (s.bias)
                layout.template read_relative<true>(table, 0, span, zero, at, spare);
            else
                layout.template read_relative<false>(table, 0, span, zero, at, spare);
        }
        // A bias of −inf hides a key as a mask does, even if its score is NaN: NaN + −inf would be NaN.
        for (int64_t i = 0; i < count; i += L) {
            const Vec<Real> add = load(spare + i);
            store<Real>(scores + i, add == minus_infinity<Real> ? add : load(scores + i) + add);
        }
    }
    if (stage < Stage::masked) return;
    if (s.mask) {
        const int64_t step = s.mask.stride[3];
        for (int64_t i = 0; i < at.rows; ++i) {
            const char* seen = s.mask.at(at.sequence, at.head, at.row + i) + at.key * step;
            Real* row = scores + i * layout.query_step;
            for (int64_t j = 0; j < at.keys;) {
                const int64_t end = std::min(j + 8, at.keys);
                uint64_t eight = 0;
                if (step == 1 && end == j + 8) std::memcpy(&eight, seen + j, 8);
                if (eight == 0x0101010101010101u) j = end;
                for (; j < end; ++j)
                    if (!seen[j * step]) row[j * layout.key_step] = minus_infinity<Real>;
            }
        }
    }
    layout.hide_outside(s, at, scores);
}

// Values that are not finite must not reach a query that doesn't see them: 0 · NaN is NaN. Key by key, lane by lane.
template <class Real>
void add_seen_values(const Real* weights, const Real* masked, int64_t keys, const View& values, int64_t sequence,
                     int64_t key_head, int64_t first_key, Real* outputs) {
    constexpr int W = panel<Real>;
    const int64_t size = values.shape[3], width = static_cast<int64_t>(bytes_of(values.type)) * values.stride[3];
    for (int64_t j = 0; j < keys; ++j)
        for (int lane = 0; lane < W; ++lane) {
            if (masked[j * W + lane] == minus_infinity<Real>) continue;
            const char* row = values.at(sequence, key_head, first_key + j);
            for (int64_t e = 0; e < size; ++e)
                outputs[e * W + lane] += weights[j * W + lane] * read<Real>(row + e * width, values.type);
        }
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
