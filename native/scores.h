// From products to masked scores: what the forward and the backward pass share.
// Lanes are queries: a panel of queries side by side, keys below each other, Sᵀ[key][query].
#pragma once
#include <limits>

#include "block.h"

namespace regard {
namespace REGARD_ISA {
namespace {

// 96 and 384 are up to 3% slower at size 64, alike at 128; the panel's scores, 12 KiB, stay in the first cache.
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
            low[k] = inner_low[k] = INT32_MAX;
            high[k] = inner_high[k] = 0;
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

// Scores are q · k as it is until the softmax, which multiplies and subtracts in one step: so equal products stay
// equal, and ties are ties. Only a cap or a bias needs scaled scores before; these are then in units of log2.
inline bool transforms(const Scores& s) { return s.softcap > 0 || s.bias || s.relative; }
template <class Real>
struct Units {
    Real packing, factor;  // what queries (or keys) are packed with, and what turns the scores into log2; not negative

    explicit Units(const Scores& s) : packing(1), factor(1) {
        if (transforms(s)) return;
        packing = s.scale < 0 ? Real(-1) : s.scale > 0 ? Real(1) : Real(0);  // a factor of 0 would make −inf NaN
        if (s.scale != 0) factor = static_cast<Real>(std::abs(s.scale) * log2_e<double>);
    }
};

// Can a score be −inf other than by an interval's edge?
inline bool may_hide(const Scores& scores) { return scores.bias || scores.mask || scores.relative; }

// Turns products of keys [from, to) and one panel of queries into masked scores, in place.
// `spare` holds (key_tile + panel) · panel numbers. For the backward pass, `slope` gets the derivative of the cap.
template <class Real>
void finish_scores(const Scores& scores, int64_t sequence, int64_t head, int64_t row, int64_t rows, int64_t from,
                   int64_t to, const PanelMask<Real>& mask, Real* __restrict sheet, Real* spare,
                   Real* slope = nullptr) {
    constexpr int L = lanes<Real>, W = panel<Real>;
    const int64_t keys = to - from;
    if (scores.softcap > 0) {
        const Real cap = static_cast<Real>(scores.softcap * log2_e<double>);
        const Real inward = static_cast<Real>(scores.scale / scores.softcap);
        for (int64_t i = 0; i < keys * W; i += L) {
            const Vec<Real> t = tanh_of<Real>(load(sheet + i) * inward);
            store<Real>(sheet + i, t * cap);
            if (slope) store<Real>(slope + i, Real(1) - t * t);
        }
    } else if (transforms(scores)) {
        const Real scale = static_cast<Real>(scores.scale * log2_e<double>);
        for (int64_t i = 0; i < keys * W; i += L) store<Real>(sheet + i, load(sheet + i) * scale);
    }
    if (scores.bias) {
        const View& bias = scores.bias;
        pack_panel<Real>(
            bias.at(sequence, head, row) + from * bias.stride[3] * static_cast<int64_t>(bytes_of(bias.type)), bias.type,
            bias.stride[2], bias.stride[3], rows, keys, log2_e<Real>, spare);
        // −inf hides a key as a mask does: NaN + −inf would let a poisoned key through.
        for (int64_t i = 0; i < keys * W; i += L) {
            const Vec<Real> add = load(spare + i);
            store<Real>(sheet + i, add == minus_infinity<Real> ? add : load(sheet + i) + add);
        }
    }
    if (scores.relative) {
        // Position i − j falls as the key rises: for each key a window of the table, one step lower each time.
        const Real* table = reinterpret_cast<const Real*>(scores.relative.at(0, 0)) + head * scores.relative.stride[0];
        const int64_t span = scores.relative.shape[3];
        const int64_t start = scores.first_position(sequence) + row - (to - 1) + scores.relative_zero;
        for (int64_t i = 0; i < keys - 1 + W; ++i)
            spare[i] = start + i >= 0 && start + i < span ? table[start + i] * log2_e<Real> : Real(0);
        for (int64_t j = 0; j < keys; ++j)
            for (int v = 0; v < panel_vectors; ++v) {
                Real* place = sheet + j * W + v * L;
                store<Real>(place, load(place) + load(spare + (keys - 1 - j) + v * L));
            }
    }
    if (scores.mask) {
        const View& hidden = scores.mask;
        const int64_t step = hidden.stride[3];
        for (int64_t lane = 0; lane < rows; ++lane) {
            const char* row_of = hidden.at(sequence, head, row + lane) + from * step;
            int64_t j = 0;
            while (j < keys) {
                if (step == 1 && j + 8 <= keys) {
                    uint64_t eight;
                    std::memcpy(&eight, row_of + j, 8);
                    if (eight == 0x0101010101010101u) {
                        j += 8;
                        continue;
                    }
                    for (int64_t end = j + 8; j < end; ++j)
                        if (!row_of[j]) sheet[j * W + lane] = minus_infinity<Real>;
                    continue;
                }
                if (!row_of[j * step]) sheet[j * W + lane] = minus_infinity<Real>;
                ++j;
            }
        }
    }
    if (!mask.whole(from, to))
        for (int64_t j = 0; j < keys; ++j)
            for (int v = 0; v < panel_vectors; ++v) {
                Real* place = sheet + j * W + v * L;
                store<Real>(place, mask.sees(from + j, v) ? load(place) : all(minus_infinity<Real>));
            }
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
