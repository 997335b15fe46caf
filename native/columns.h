// Scores and weights with lanes that are keys, for passes that know each row's state.
#pragma once
#include "scores.h"
#include "work.h"

namespace regard {
namespace REGARD_ISA {
namespace {

constexpr int64_t row_tile = 192;

// Bounds of what the rows of a tile see.
struct RowHull {
    int64_t low = 0, high = INT64_MAX;              // no row sees a key outside
    int64_t inner_low = 0, inner_high = INT64_MAX;  // every row sees all keys inside

    void read(const Scores& s, int64_t sequence, int64_t from, int64_t to) {
        if (!s.visible) return;
        low = INT64_MAX, high = 0, inner_low = 0, inner_high = INT64_MAX;
        for (int k = 0; k < 2 && s.visible.first[k]; ++k) {
            const int32_t* first = s.visible.first[k] + sequence * s.visible.batch;
            const int32_t* last = s.visible.last[k] + sequence * s.visible.batch;
            for (int64_t i = from; i < to; ++i) {
                if (k == 0) {
                    inner_low = std::max<int64_t>(inner_low, first[i]);
                    inner_high = std::min<int64_t>(inner_high, last[i]);
                }
                if (first[i] >= last[i]) continue;
                low = std::min<int64_t>(low, first[i]);
                high = std::max<int64_t>(high, last[i]);
            }
        }
    }
    bool misses(int64_t from, int64_t to) const { return to <= low || high <= from; }
    bool covers(int64_t from, int64_t to) const { return inner_low <= from && to <= inner_high; }
};

// Scores of query rows against one panel of keys.
template <class Real>
class KeyPanel {
    static constexpr int W = panel<Real>;

  public:
    const Scores& s;
    Units<Real> units;
    int64_t sequence, head;

    void pack(int64_t first, int64_t count, Real by, Real* to) const {
        const View& k = s.keys;
        pack_panel<Real>(k.at(sequence, s.key_head(head), first), k.type, k.stride[2], k.stride[3], count, s.size(), by,
                         to);
    }
    // Narrows rows [from, to) to those that see a key in [key, key + keys); true if all of them see all.
    bool narrow(int64_t& from, int64_t& to, int64_t key, int64_t keys, const RowHull& hull) const {
        if (!s.visible || hull.covers(key, key + keys)) return true;
        if (hull.misses(key, key + keys)) {
            to = from;
            return true;
        }
        int64_t least = to, most = from;
        bool whole = true;
        for (int64_t i = from; i < to; ++i) {
            bool some = false, every = false;
            for (int k = 0; k < 2 && s.visible.first[k]; ++k) {
                const int64_t first = s.visible.first[k][sequence * s.visible.batch + i];
                const int64_t last = s.visible.last[k][sequence * s.visible.batch + i];
                some |= first < key + keys && last > key && first < last;
                every |= first <= key && last >= key + keys;
            }
            if (some) {
                least = std::min(least, i);
                most = i + 1;
            }
            // Holes between seen rows are masked below; rows outside are cut off.
            whole &= every;
        }
        from = least;
        to = std::max(least, most);
        return whole;
    }

    // Products of rows [from, to) turned into scores, up to `stage`; `shown` in natural units.
    void finish(int64_t from, int64_t to, int64_t key, int64_t keys, bool whole, Stage stage, bool shown, Real* scores,
                Real* spare) const {
        finish_scores<Real>(s, units, {sequence, head, from, to - from, key, keys}, LanesAreKeys<Real>{W, whole}, stage,
                            shown, scores, spare);
    }
};

// The state of some rows, as weights are computed from it: a row that sees no key has the maximum +inf and the share 0,
// so that all its weights come out zero.
template <class Real>
void read_state(const RowState& state, int64_t at, int64_t rows, Real* row_max, Real* share) {
    const Real *max_of = static_cast<const Real*>(state.row_max), *sum_of = static_cast<const Real*>(state.row_sum);
    for (int64_t i = 0; i < rows; ++i) {
        const Real sum = sum_of[at + i];
        row_max[i] = sum == 0 ? -minus_infinity<Real> : max_of[at + i];
        share[i] = sum == 0 ? Real(0) : Real(1) / sum;
    }
}

// A weight, 2^(factor · (score − row_max)) / row_sum. A hidden key has weight 0 even in a row of NaN.
template <class Real>
REGARD_INLINE Vec<Real> weight_of(Vec<Real> score, Vec<Real> row_max, Vec<Real> share, Real factor) {
    return score == minus_infinity<Real> ? Vec<Real>{} : exp2_of((score - row_max) * factor) * share;
}

// Scores turned into weights, in place.
template <class Real>
void weigh(Real* __restrict scores, int64_t rows, Real factor, const Real* row_max, const Real* share) {
    constexpr int L = lanes<Real>, W = panel<Real>;
    for (int64_t i = 0; i < rows; ++i)
        for (int v = 0; v < panel_vectors; ++v) {
            Real* place = scores + i * W + v * L;
            store<Real>(place, weight_of<Real>(load(place), all(row_max[i]), all(share[i]), factor));
        }
}

// The sum of the rows' weights, key by key, without writing them.
template <class Real>
REGARD_INLINE void sum_weights(const Real* scores, int64_t rows, Real factor, const Real* row_max, const Real* share,
                               Vec<Real> (&sum)[panel_vectors]) {
    constexpr int L = lanes<Real>, W = panel<Real>;
    for (int v = 0; v < panel_vectors; ++v) sum[v] = Vec<Real>{};
    for (int64_t i = 0; i < rows; ++i)
        for (int v = 0; v < panel_vectors; ++v)
            sum[v] += weight_of<Real>(load(scores + i * W + v * L), all(row_max[i]), all(share[i]), factor);
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
