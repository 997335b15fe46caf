// Outputs and row statistics in one pass: the online softmax, tile by tile, for a block of queries.
#pragma once
#include "row_blocks.h"
#include "scores.h"
#include "work.h"

namespace regard {
namespace REGARD_ISA {
namespace {

template <class Real>
struct ForwardPlan {
    static constexpr int W = panel<Real>;
    const Forward& f;
    int64_t value_size, block, panels, top;
    bool copy_values, copy_keys;  // in place if the kernels can read them there: copies cost 2 to 4% (Zen 5, size 128)
    bool later_stages;            // between a product and its score, besides intervals
    Units<Real> units;

    explicit ForwardPlan(const Forward& forward) : f(forward), units(forward.scores) {
        const Scores& s = f.scores;
        value_size = f.values ? f.values.shape[3] : 0;
        top = f.rows.top;
        // Keys and values come in once for each block: 1,024 queries beat 384 by 2 to 3% (n = 2,048, Zen 5). At least
        // 16 items, and four per thread, if there are enough rows.
        const int64_t cached =
            1024 * 1024 / static_cast<int64_t>(sizeof(Real)) / std::max<int64_t>(1, s.size() + value_size);
        const int64_t largest = std::clamp<int64_t>(cached / W * W, 2 * W, 1024);
        const int64_t sequences = std::max<int64_t>(1, s.batch() * s.heads());
        const int64_t items = std::max(16, 4 * threads());
        const int64_t wanted = std::max((s.rows() + largest - 1) / largest,
                                        std::min((s.rows() + 63) / 64, (items + sequences - 1) / sequences));
        block = round_up((s.rows() + wanted - 1) / std::max<int64_t>(1, wanted), W);
        panels = block / W;
        copy_values = f.values && !plain<Real>(f.values);
        copy_keys = !plain<Real>(s.keys);
        later_stages = units.natural || s.mask;
    }

    struct Workspace {
        Real *queries, *outputs, *row_max, *row_sum, *spread, *reach, *keys, *values, *scores, *best, *rescale, *before,
            *spare, *share;
        Real* top_value;
        typename Traits<Real>::Whole* top_key;
        PanelMask<Real>* masks;
        bool* started;
        Workspace(const ForwardPlan& p, Parts& parts) {
            queries = parts.take<Real>(p.block * p.f.scores.size());
            outputs = parts.take<Real>(p.block * p.value_size);
            row_max = parts.take<Real>(p.block);  // so far
            row_sum = parts.take<Real>(p.block);  // Σ p, p = 2^(factor · (score − row_max))
            spread = parts.take<Real>(p.block);   // Σ p · log2 p
            reach = parts.take<Real>(p.block);    // Σ p · |i − j|
            keys = parts.take<Real>(p.copy_keys ? key_tile * p.f.scores.size() : 0);
            values = parts.take<Real>(p.copy_values ? key_tile * apart(p.value_size) : 0);
            scores = parts.take<Real>(key_tile * W);
            best = parts.take<Real>(W);
            rescale = parts.take<Real>(W);
            before = parts.take<Real>(key_tile * W);
            spare = parts.take<Real>((key_tile + W) * W);
            share = parts.take<Real>(W);
            top_value = parts.take<Real>(p.block * p.top);
            top_key = parts.take<typename Traits<Real>::Whole>(p.block * p.top);
            masks = parts.take<PanelMask<Real>>(p.panels);
            started = parts.take<bool>(p.panels);
        }
    };
};

// p = 2^(factor · (score − row_max)) in place; Σ p, and where wanted Σ p · log2 p and Σ p · |i − j|.
template <class Real, bool entropy, bool distance>
void exp_and_sum(Real* __restrict scores, int64_t keys, Real factor, const Vec<Real>* row_max, Vec<Real>* row_sum,
                 Vec<Real>* spread, Vec<Real>* reach, const Vec<Real>* position) {
    constexpr int L = lanes<Real>, W = panel<Real>;
    constexpr Real floor = sizeof(Real) == 4 ? Real(-127) : Real(-1023);
    Vec<Real> sum[panel_vectors], weighted[panel_vectors], far[panel_vectors], top[panel_vectors];
    for (int v = 0; v < panel_vectors; ++v) {
        sum[v] = weighted[v] = far[v] = Vec<Real>{};
        top[v] = row_max[v];
    }
    for (int64_t j = 0; j < keys; ++j)
        for (int v = 0; v < panel_vectors; ++v) {
            Real* place = scores + j * W + v * L;
            const Vec<Real> x = (load(place) - top[v]) * factor;
            const Vec<Real> p = exp2_of(x);
            store<Real>(place, p);
            sum[v] += p;
            if constexpr (entropy) weighted[v] += p * larger(all(floor), x);
            if constexpr (distance) {
                const Vec<Real> apart = position[v] - static_cast<Real>(j);
                far[v] += p * (apart < Real(0) ? -apart : apart);
            }
        }
    for (int v = 0; v < panel_vectors; ++v) {
        row_sum[v] += sum[v];
        if constexpr (entropy) spread[v] += weighted[v];
        if constexpr (distance) reach[v] += far[v];
    }
}

// Keeps the `top` largest of each lane, by insertion if any lane exceeds its smallest.
template <class Real>
void keep_top(const Real* scores, int64_t keys, int64_t first_key, int64_t top, Real* value,
              typename Traits<Real>::Whole* key) {
    constexpr int L = lanes<Real>, W = panel<Real>;
    using Whole = typename Traits<Real>::Whole;
    typedef Whole LooseInt __attribute__((vector_size(vector_bytes), aligned(sizeof(Whole)), may_alias));
    for (int v = 0; v < panel_vectors; ++v) {
        Vec<Real> weakest = load(value + (top - 1) * W + v * L);
        for (int64_t j = 0; j < keys; ++j) {
            Vec<Real> x = load(scores + j * W + v * L);
            if (!any_lane<Real>(x > weakest)) continue;
            Int<Real> at = all_int<Real>(static_cast<Whole>(first_key + j)), beats{};
            for (int64_t r = 0; r < top; ++r) {
                Real* value_place = value + r * W + v * L;
                auto* key_place = reinterpret_cast<LooseInt*>(key + r * W + v * L);
                const Vec<Real> held = load(value_place);
                const Int<Real> held_at = *key_place;
                beats |= x > held;  // once a lane has inserted, all weaker ones move down: equal ones stay in order
                store<Real>(value_place, beats ? x : held);
                *key_place = beats ? at : held_at;
                x = beats ? held : x;
                at = beats ? held_at : at;
            }
            weakest = load(value + (top - 1) * W + v * L);
        }
    }
}

// A power of two by which weights below 1 can be multiplied so that no sum of their products with values overflows.
template <class Real>
Real against_overflow(const Scores& s) {
    return std::ldexp(Real(1), -2 - std::ilogb(static_cast<double>(std::max<int64_t>(1, s.columns()))));
}

// A row's running sums after all keys, with the head's sink added.
template <class Real>
struct RowEnd {
    double row_max, row_sum;  // sink included
    double share = 0;         // p times this is the weight; outputs are multiplied by it
    double factor, nats;

    RowEnd(const Scores& s, const Units<Real>& units, int64_t head, Real key_max, double key_sum)
        : row_max(key_sum == 0 ? -std::numeric_limits<double>::infinity() : key_max), row_sum(key_sum),
          factor(units.factor), nats(units.nats) {
        double keys = 1;
        if (s.sinks) {
            const double sink = static_cast<double>(static_cast<Real>(s.sinks[head]));
            const double high = sink > row_max || sink != sink ? sink : row_max;
            if (high > -std::numeric_limits<double>::infinity() || high != high) {
                keys = key_sum == 0 ? 0 : std::exp2((row_max - high) * factor);
                row_sum = key_sum * keys + std::exp2((sink - high) * factor);
                row_max = high;
            }
        }
        if (key_sum != 0) share = keys / row_sum;
    }

    void write(const Forward& f, int64_t place, double key_sum, double spread, double reach) const {
        const Rows& rows = f.rows;
        if (rows.row_max) static_cast<Real*>(rows.row_max)[place] = static_cast<Real>(row_max);
        if (rows.row_sum) static_cast<Real*>(rows.row_sum)[place] = static_cast<Real>(row_sum);
        if (rows.logsumexp) rows.logsumexp[place] = nats * row_max + std::log(row_sum);
        if (rows.entropy) {
            const double entropy = share == 0 ? 0. : -share * (ln_2<double> * spread + std::log(share) * key_sum);
            static_cast<Real*>(rows.entropy)[place] = static_cast<Real>(entropy <= 0 ? 0 : entropy);
        }
        if (rows.peak) static_cast<Real*>(rows.peak)[place] = static_cast<Real>(share);
        if (rows.distance)
            static_cast<Real*>(rows.distance)[place] = static_cast<Real>(share == 0 ? 0. : share * reach);
    }

    double weight(Real score) const { return std::exp2((static_cast<double>(score) - row_max) * factor) / row_sum; }
};

template <class Real>
class ForwardBlock {
    static constexpr int L = lanes<Real>, W = panel<Real>;
    using Plan = ForwardPlan<Real>;
    const Plan& plan;
    const Forward& f;
    const Scores& s;
    typename Plan::Workspace w;
    int64_t sequence, head, key_head, row, rows, first_key, panels;
    PlainRows<Real> tile_keys{};
    bool careful = false;  // whether values are looked at before they are used
    bool finite_values = true;
    bool may_overflow = false;  // Σ p · v may, where the weighted mean does not
    Real down = 1;              // what p is multiplied with before the values

  public:
    ForwardBlock(const Plan& plan, Parts parts, int64_t sequence, int64_t head, const RowBlock& block)
        : plan(plan), f(plan.f), s(f.scores), w(plan, parts), sequence(sequence), head(head),
          key_head(s.key_head(head)), row(block.row), rows(block.rows), first_key(block.first_key),
          panels((rows + W - 1) / W) {}

    // Values are not looked at before an output is not finite. Then everything once more, with values that are not
    // finite kept from queries that do not see them; and again with smaller weights, if a sum has overflowed.
    void compute() {
        if (!pass()) return;
        if (f.values && !all_outputs_finite()) {
            careful = true;
            if (!pass()) return;
            if (may_overflow && !all_outputs_finite()) {
                down = against_overflow<Real>(s);
                if (!pass()) return;
            }
        }
        for (int64_t p = 0; p < panels; ++p) finish_panel(p);
    }

  private:
    int64_t panel_rows(int64_t p) const { return std::min<int64_t>(W, rows - p * W); }

    // Over all keys; false when the caller asked to stop.
    bool pass() {
        int64_t low = s.columns(), high = 0;
        for (int64_t p = 0; p < panels; ++p) {
            start_panel(p);
            int64_t from = 0, to = s.columns();
            w.masks[p].narrow(from, to);
            if (from < to) {
                low = std::min(low, from);
                high = std::max(high, to);
            }
        }
        // Tiles begin at multiples of their size from `first_key`, wherever the block does: results do not depend on
        // the size of blocks, and so not on the number of threads.
        int64_t first = first_key;
        while (first > low) first -= key_tile;
        for (first += (low - first) / key_tile * key_tile; first < high; first += key_tile) {
            if (stopping()) return false;
            compute_tile(std::max(first, low), std::min(high, first + key_tile));
        }
        return true;
    }

    bool all_outputs_finite() const {
        for (int64_t p = 0; p < panels; ++p)
            if (w.started[p] && !all_finite(w.outputs + p * W * plan.value_size, W * plan.value_size)) return false;
        return true;
    }

    void start_panel(int64_t p) {
        const View& q = s.queries;
        pack_panel<Real>(q.at(sequence, head, row + p * W), q.type, q.stride[2], q.stride[3], panel_rows(p), s.size(),
                         plan.units.sign, w.queries + p * W * s.size());
        w.masks[p].read(s, sequence, row + p * W, panel_rows(p));
        w.started[p] = false;
        for (int lane = 0; lane < W; ++lane) {
            w.row_max[p * W + lane] = minus_infinity<Real>;
            w.row_sum[p * W + lane] = w.spread[p * W + lane] = w.reach[p * W + lane] = 0;
        }
        for (int64_t i = 0; i < W * plan.top; ++i) {
            w.top_value[p * W * plan.top + i] = minus_infinity<Real>;
            w.top_key[p * W * plan.top + i] = -1;
        }
    }

    void compute_tile(int64_t first, int64_t last) {
        bool ready = false;
        for (int64_t p = 0; p < panels; ++p) {
            int64_t from = first, to = last;
            w.masks[p].narrow(from, to);
            if (from >= to) continue;
            if (!ready) prepare_tile(first, last);
            ready = true;
            score(p, first, from, to);
            absorb(p, first, from, to);
        }
    }

    // Scores of one panel and keys [from, to), and the largest of each row. Where products are the scores, as without
    // a mask or below the diagonal, the maximum is taken while they are in registers.
    void score(int64_t p, int64_t first, int64_t from, int64_t to) {
        for (int lane = 0; lane < W; ++lane) w.best[lane] = minus_infinity<Real>;
        int64_t low = to, high = to;  // keys that all queries see
        if (!plan.later_stages) w.masks[p].whole_part(from, to, low, high);
        if (from < low) score_masked(p, first, from, from, low);
        if (low < high)
            product(high - low, s.size(),
                    Product<Real, Into::store_and_max>{tile_keys.data + (low - first) * tile_keys.row, tile_keys.row, 1,
                                                       w.queries + p * W * s.size(), W, w.scores + (low - from) * W, W,
                                                       w.best});
        if (high < to) score_masked(p, first, from, high, to);
    }

    // Likewise for keys [low, high), through all stages; scores of the panel begin with key `from`.
    void score_masked(int64_t p, int64_t first, int64_t from, int64_t low, int64_t high) {
        Real* scores = w.scores + (low - from) * W;
        product<Real, false>(high - low, s.size(), tile_keys.data + (low - first) * tile_keys.row, tile_keys.row, 1,
                             w.queries + p * W * s.size(), W, scores, W);
        finish_scores<Real>(s, plan.units, {sequence, head, row + p * W, panel_rows(p), low, high - low},
                            LanesAreQueries<Real>{w.masks[p]}, Stage::masked, false, scores, w.spare);
        for (int v = 0; v < panel_vectors; ++v) {
            Vec<Real> best[4];
            for (int k = 0; k < 4; ++k) best[k] = load(w.best + v * L);
            int64_t j = 0;
            for (; j + 4 <= high - low; j += 4)
                for (int k = 0; k < 4; ++k) best[k] = larger(best[k], load(scores + (j + k) * W + v * L));
            for (; j < high - low; ++j) best[0] = larger(best[0], load(scores + j * W + v * L));
            store<Real>(w.best + v * L, larger(larger(best[0], best[1]), larger(best[2], best[3])));
        }
    }

    // Fetching the next tile's keys and values into the second cache while this one is computed changed nothing (Zen 4
    // and 5).
    void prepare_tile(int64_t first, int64_t last) {
        tile_keys = plain_rows<Real>(s.keys, sequence, key_head, first, last - first, w.keys);
        finite_values = true;
        if (!f.values) return;
        if (!careful) {
            if (plan.copy_values) copy_apart<Real>(f.values, sequence, key_head, first, last - first, w.values);
            return;
        }
        if (finite_when_multiplied(first, last, 1 / against_overflow<Real>(s))) return;
        may_overflow = true;
        finite_values = finite_when_multiplied(first, last, 1);
    }

    // Whether the values of a tile, which are copied where that is planned, stay finite when multiplied by `by`.
    bool finite_when_multiplied(int64_t first, int64_t last, Real by) {
        if (plan.copy_values) return copy_apart<Real>(f.values, sequence, key_head, first, last - first, w.values, by);
        for (int64_t j = first; j < last; ++j) {
            const auto* row = reinterpret_cast<const Real*>(f.values.at(sequence, key_head, j));
            if (!all_finite(row, plan.value_size, by)) return false;
        }
        return true;
    }

    // Adds the scores of keys [from, to), of the tile that starts at `first`, to one panel.
    void absorb(int64_t p, int64_t first, int64_t from, int64_t to) {
        const int64_t keys = to - from;
        const Real factor = plan.units.factor;
        Vec<Real> row_max[panel_vectors], row_sum[panel_vectors], spread[panel_vectors], reach[panel_vectors],
            position[panel_vectors];
        for (int v = 0; v < panel_vectors; ++v) {
            const int64_t at = p * W + v * L;
            const Vec<Real> before = load(w.row_max + at);
            const Vec<Real> now = larger(before, load(w.best + v * L));
            store<Real>(w.row_max + at, now);
            // A row that has seen no key has the maximum −inf, and −inf − −inf is NaN.
            row_max[v] = now == minus_infinity<Real> ? Vec<Real>{} : now;
            const Vec<Real> down = (before - row_max[v]) * factor;
            const Vec<Real> rescale = exp2_of(down), sum = load(w.row_sum + at);
            store<Real>(w.rescale + v * L, rescale);
            row_sum[v] = sum * rescale;
            if (wants_spread())
                spread[v] = (load(w.spread + at) + (sum > Real(0) ? sum * down : Vec<Real>{})) * rescale;
            if (f.rows.distance) {
                reach[v] = load(w.reach + at) * rescale;
                const Real origin = static_cast<Real>(s.first_position(sequence) + row + at - from);
                position[v] = as_real<Real>(lane_numbers<Real>()) + origin;
            }
        }
        if (plan.top)
            keep_top<Real>(w.scores, keys, from, plan.top, w.top_value + p * W * plan.top,
                           w.top_key + p * W * plan.top);
        if (!finite_values)  // a score may be −inf without a mask
            std::memcpy(w.before, w.scores, static_cast<size_t>(keys * W) * sizeof(Real));
        if (f.rows.distance)
            exp_and_sum<Real, true, true>(w.scores, keys, factor, row_max, row_sum, spread, reach, position);
        else if (f.rows.entropy)
            exp_and_sum<Real, true, false>(w.scores, keys, factor, row_max, row_sum, spread, reach, position);
        else
            exp_and_sum<Real, false, false>(w.scores, keys, factor, row_max, row_sum, spread, reach, position);
        for (int v = 0; v < panel_vectors; ++v) {
            const int64_t at = p * W + v * L;
            store<Real>(w.row_sum + at, row_sum[v]);
            if (wants_spread()) store<Real>(w.spread + at, spread[v]);
            if (f.rows.distance) store<Real>(w.reach + at, reach[v]);
        }
        if (f.values) add_values(p, first, from, keys);
    }

    bool wants_spread() const { return f.rows.entropy || f.rows.distance; }

    // Oᵀ = Oᵀ · rescale + Vᵀ Pᵀ.
    void add_values(int64_t p, int64_t first, int64_t from, int64_t keys) {
        Real* outputs = w.outputs + p * W * plan.value_size;
        const bool start = !w.started[p];
        w.started[p] = true;
        if (down != 1)
            for (int64_t i = 0; i < keys * W; ++i) w.scores[i] *= down;
        if (!finite_values) {
            for (int64_t i = 0; i < plan.value_size * W; ++i) outputs[i] = start ? 0 : outputs[i] * w.rescale[i % W];
            add_seen_values<Real>(w.scores, w.before, keys, f.values, sequence, key_head, from, outputs);
            return;
        }
        const Real* values = w.values + (from - first) * apart(plan.value_size);
        int64_t row_step = apart(plan.value_size);
        if (!plan.copy_values) {
            values = reinterpret_cast<const Real*>(f.values.at(sequence, key_head, from));
            row_step = f.values.stride[2];
        }
        if (start)
            product<Real, false>(plan.value_size, keys, values, 1, row_step, w.scores, W, outputs, W);
        else
            product(plan.value_size, keys,
                    Product<Real, Into::rescale>{values, 1, row_step, w.scores, W, outputs, W, w.rescale});
    }

    void finish_panel(int64_t p) {
        for (int64_t lane = 0; lane < panel_rows(p); ++lane) finish_row(p, lane);
        for (int64_t lane = panel_rows(p); lane < W; ++lane) w.share[lane] = 0;
        if (!f.output) return;
        Real* outputs = w.outputs + p * W * plan.value_size;
        if (!w.started[p]) std::memset(outputs, 0, static_cast<size_t>(plan.value_size * W) * sizeof(Real));
        const View& out = f.output;
        unpack_panel<Real>(outputs, panel_rows(p), plan.value_size, w.share, out.at(sequence, head, row + p * W),
                           out.type, out.stride[2], out.stride[3]);
    }

    void finish_row(int64_t p, int64_t lane) {
        const int64_t at = p * W + lane;
        const Real sum = w.row_sum[at];
        if (!s.sinks && !f.rows.any()) {
            w.share[lane] = sum == 0 ? Real(0) : Real(1) / (sum * down);
            return;
        }
        const RowEnd<Real> end(s, plan.units, head, w.row_max[at], sum);
        w.share[lane] = static_cast<Real>(end.share / down);
        if (!f.rows.any()) return;
        const int64_t place = (sequence * s.heads() + head) * s.rows() + row + at;
        end.write(f, place, sum, w.spread[at], w.reach[at]);
        for (int64_t r = 0; r < plan.top; ++r) {
            const int64_t from = p * W * plan.top + r * W + lane, to = place * plan.top + r;
            f.rows.top_index[to] = w.top_key[from];
            static_cast<Real*>(f.rows.top_weight)[to] =
                w.top_key[from] < 0 ? Real(0) : static_cast<Real>(end.weight(w.top_value[from]));
        }
    }
};

template <class Real>
bool forward_panels(const Forward& f) {
    const ForwardPlan<Real> plan(f);
    const Scores& s = f.scores;
    const double cost = 2. * s.batch() * s.heads() * s.rows() * s.columns() * (s.size() + plan.value_size);
    const RowBlocks blocks(s, plan.block, ForwardPlan<Real>::W);
    const std::vector<RowBlock> order = blocks.heavy_first();
    const int64_t alike = blocks.shared() ? s.batch() * s.heads() : s.heads();
    const int64_t items = static_cast<int64_t>(order.size()) * alike;
    auto work = [&](int64_t item, void* memory) {
        const RowBlock& block = order[static_cast<size_t>(item / alike)];
        const int64_t sequence = blocks.shared() ? item % alike / s.heads() : block.sequence;
        ForwardBlock<Real>(plan, Parts{static_cast<char*>(memory)}, sequence, item % s.heads(), block).compute();
    };
    return run_items(items, scratch_of(plan), cost, work);
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
