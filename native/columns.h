// Scores and weights with lanes that are keys, for passes that know each row's normaliser. A panel of keys side by
// side, queries below each other: S[query][key].
#pragma once
#include "scores.h"
#include "work.h"

namespace regard {
namespace REGARD_ISA {
namespace {

constexpr int64_t row_tile = 192;

// Which rows of a tile see which keys, at a glance.
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
    static constexpr int L = lanes<Real>, W = panel<Real>;

  public:
    const Scores& s;
    int64_t sequence, head;
    bool natural;  // scores as people read them, each stage scaled; else only as far as the softmax needs it

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

    // Products of rows [from, to) turned into scores, up to `stage`.
    void finish(int64_t from, int64_t to, int64_t key, int64_t keys, bool whole, Stage stage,
                Real* __restrict sheet) const {
        const int64_t rows = to - from;
        if (stage >= Stage::capped && s.softcap > 0) {
            const Real cap = static_cast<Real>(s.softcap * unit()), inward = static_cast<Real>(s.scale / s.softcap);
            for (int64_t i = 0; i < rows * W; i += L)
                store<Real>(sheet + i, tanh_of<Real>(load(sheet + i) * inward) * cap);
        } else if (stage >= Stage::scaled && (natural || transforms(s))) {
            const Real scale = static_cast<Real>(s.scale * unit());
            for (int64_t i = 0; i < rows * W; i += L) store<Real>(sheet + i, load(sheet + i) * scale);
        }
        if (stage >= Stage::biased && s.bias) add_bias(from, to, key, keys, sheet);
        if (stage >= Stage::biased && s.relative) add_relative(from, to, key, keys, sheet);
        if (stage >= Stage::masked && s.mask) hide_dense(from, to, key, keys, sheet);
        if (stage >= Stage::masked && !whole) hide_outside(from, to, key, sheet);
    }

  private:
    double unit() const { return natural ? 1 : log2_e<double>; }

    void add_bias(int64_t from, int64_t to, int64_t key, int64_t keys, Real* sheet) const {
        const int64_t width = static_cast<int64_t>(bytes_of(s.bias.type)) * s.bias.stride[3];
        const Real by = static_cast<Real>(unit());
        Real row[W];
        for (int64_t i = from; i < to; ++i) {
            read_row<Real>(s.bias.at(sequence, head, i) + key * width, s.bias.type, s.bias.stride[3], keys, row);
            for (int64_t lane = 0; lane < keys; ++lane) {
                Real& score = sheet[(i - from) * W + lane];
                score = row[lane] == minus_infinity<Real> ? row[lane] : score + row[lane] * by;
            }
        }
    }
    void add_relative(int64_t from, int64_t to, int64_t key, int64_t keys, Real* sheet) const {
        const Real* table = reinterpret_cast<const Real*>(s.relative.at(0, 0)) + head * s.relative.stride[0];
        const int64_t zero = s.first_position(sequence) + s.relative_zero - key;
        const Real by = static_cast<Real>(unit());
        for (int64_t i = from; i < to; ++i)
            for (int64_t lane = 0; lane < keys; ++lane) sheet[(i - from) * W + lane] += table[i - lane + zero] * by;
    }
    void hide_dense(int64_t from, int64_t to, int64_t key, int64_t keys, Real* sheet) const {
        for (int64_t i = from; i < to; ++i) {
            const char* row = s.mask.at(sequence, head, i) + key * s.mask.stride[3];
            for (int64_t lane = 0; lane < keys; ++lane)
                if (!row[lane * s.mask.stride[3]]) sheet[(i - from) * W + lane] = minus_infinity<Real>;
        }
    }
    void hide_outside(int64_t from, int64_t to, int64_t key, Real* sheet) const {
        using Whole = typename Traits<Real>::Whole;
        for (int64_t i = from; i < to; ++i)
            for (int v = 0; v < panel_vectors; ++v) {
                const Int<Real> at = lane_numbers<Real>() + static_cast<Whole>(key + v * L);
                Int<Real> seen{};
                for (int k = 0; k < 2 && s.visible.first[k]; ++k) {
                    const int64_t place = sequence * s.visible.batch + i;
                    seen |= (at >= static_cast<Whole>(s.visible.first[k][place])) &
                            (at < static_cast<Whole>(s.visible.last[k][place]));
                }
                Real* numbers = sheet + (i - from) * W + v * L;
                store<Real>(numbers, seen ? load(numbers) : all(minus_infinity<Real>));
            }
    }
};

// A row's normaliser in log2; +inf for a row that sees no key, so that its weights come out zero.
template <class Real>
REGARD_INLINE Real row_normaliser(const double* normaliser, int64_t at) {
    const double log2 = normaliser[at] * log2_e<double>;
    return log2 == -std::numeric_limits<double>::infinity() ? -minus_infinity<Real> : static_cast<Real>(log2);
}

// The normalisers of some rows: read once for all panels of keys.
template <class Real>
void read_normalisers(const double* normaliser, int64_t at, int64_t rows, Real* to) {
    for (int64_t i = 0; i < rows; ++i) to[i] = row_normaliser<Real>(normaliser, at + i);
}

// weights = 2^(factor · score − normaliser of the row), in place.
template <class Real>
void weigh(Real* __restrict sheet, int64_t rows, Real factor, const Real* normalisers) {
    constexpr int L = lanes<Real>, W = panel<Real>;
    for (int64_t i = 0; i < rows; ++i) {
        const Vec<Real> down = all(normalisers[i]);
        for (int v = 0; v < panel_vectors; ++v) {
            Real* place = sheet + i * W + v * L;
            const Vec<Real> score = load(place);
            // A hidden key weighs nothing even in a row of NaN.
            store<Real>(place, score == minus_infinity<Real> ? Vec<Real>{} : exp2_of(score * factor - down));
        }
    }
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
