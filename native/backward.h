// Gradients in one pass of five products, O(n) memory: for each chunk of keys, all queries that see it.
//
// Lanes are queries while scores are made: Sᵀ = K Qᵀ, dPᵀ = V dOᵀ, dQᵀ += Kᵀ dSᵀ; then Pᵀ and dSᵀ, kept for a tile of
// keys and a block of queries, are the left operands of dV += Pᵀ dO and dK += dSᵀ Q, with lanes along the size.
// Several chunks add to the same dQ in the order of their keys: each block of queries has a turn, so that sums do not
// depend on threads. A chunk is claimed after the one before it, so waiting for a turn always ends.
#pragma once
#include <atomic>
#include <memory>
#include <thread>

#include "columns.h"
#include "forward.h"

namespace regard {
namespace REGARD_ISA {
namespace {

constexpr int64_t back_tile = 96;     // keys; with `block` below all parts of a tile fit a 512 KiB cache
constexpr int64_t back_strip = 24;    // keys that share a range of queries in dV and dK
constexpr int64_t chunk_keys = 1024;  // with fewer keys per chunk, dQ is read and written too often

template <class Real>
struct BackwardPlan {
    static constexpr int W = panel<Real>;
    const Backward& b;
    int64_t size, value_size, wide_size, wide_values, query_row, flow_row, score_row, block, panels, chunk, chunks;
    Units<Real> units;

    explicit BackwardPlan(const Backward& backward) : b(backward), units(backward.scores) {
        const Scores& s = b.scores;
        size = s.size();
        value_size = b.values.shape[3];
        wide_size = round_up(size, W);
        wide_values = round_up(value_size, W);
        query_row = apart(wide_size);
        flow_row = apart(wide_values);
        const int64_t largest = std::clamp<int64_t>(
            64 * 1024 / static_cast<int64_t>(sizeof(Real)) / std::max(size, value_size) / W * W, W, 128);
        block = std::min(largest, round_up(std::max<int64_t>(1, s.rows()), W));
        panels = block / W;
        score_row = apart(block);
        const int64_t sequences = s.batch() * s.keys.shape[1];
        const int64_t wanted =
            std::clamp<int64_t>((32 + sequences - 1) / sequences, 1, std::max<int64_t>(1, s.columns() / chunk_keys));
        chunk = round_up((s.columns() + wanted - 1) / wanted, back_tile);
        chunks = (s.columns() + chunk - 1) / chunk;
    }

    struct Workspace {
        Real *packed_queries, *packed_flow, *queries, *flow, *grad_queries, *keys, *values;
        Real *scores, *slope, *inner, *spare, *weights, *grad_scores, *row_max, *share, *delta, *ones, *grad_keys,
            *grad_values;
        PanelMask<Real>* masks;
        int64_t *from, *to;
        Workspace(const BackwardPlan& p, Parts& parts) {
            packed_queries = parts.take<Real>(p.block * p.size);
            packed_flow = parts.take<Real>(p.block * p.value_size);
            queries = parts.take<Real>(p.block * p.query_row);
            flow = parts.take<Real>(p.block * p.flow_row);
            grad_queries = parts.take<Real>(p.block * p.size);
            keys = parts.take<Real>(back_tile * apart(p.size));
            values = parts.take<Real>(back_tile * p.value_size);
            scores = parts.take<Real>(back_tile * W);
            slope = parts.take<Real>(back_tile * W);
            inner = parts.take<Real>(back_tile * W);
            spare = parts.take<Real>(std::max((back_tile + W) * W, std::max(p.size, p.value_size)));
            weights = parts.take<Real>(back_tile * p.score_row);
            grad_scores = parts.take<Real>(back_tile * p.score_row);
            row_max = parts.take<Real>(p.block);
            share = parts.take<Real>(p.block);
            delta = parts.take<Real>(p.block);
            ones = parts.take<Real>(W);
            grad_keys = parts.take<Real>(back_tile * p.wide_size);
            grad_values = parts.take<Real>(back_tile * p.wide_values);
            masks = parts.take<PanelMask<Real>>(p.panels);
            from = parts.take<int64_t>(p.panels);
            to = parts.take<int64_t>(p.panels);
        }
    };
};

// As `product` with add, but a coefficient of exactly zero removes its term: 0 · NaN adds nothing.
template <class Real, bool coefficient_left>
void product_seen(int64_t rows, int64_t depth, const Real* a, int64_t a_row, int64_t a_step, const Real* b,
                  int64_t b_step, Real* c, int64_t c_row) {
    constexpr int W = panel<Real>;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t t = 0; t < depth; ++t)
            for (int lane = 0; lane < W; ++lane) {
                const Real left = a[r * a_row + t * a_step], right = b[t * b_step + lane];
                if ((coefficient_left ? left : right) != 0) c[r * c_row + lane] += left * right;
            }
}

// The place of a head's block among all turns.
inline size_t turn_of(const Scores& s, const RowBlocks& blocks, int64_t sequence, int64_t head, size_t block) {
    const int64_t before = blocks.shared() ? sequence * s.heads() + head : head;
    return static_cast<size_t>(before) * blocks.size() + block;
}

template <class Real>
class BackwardChunk {
    static constexpr int L = lanes<Real>, W = panel<Real>;
    using Plan = BackwardPlan<Real>;
    const Plan& plan;
    const Backward& b;
    const Scores& s;
    typename Plan::Workspace w;
    const RowBlocks& blocks;
    std::atomic<int32_t>* turns;
    int64_t sequence, key_head, chunk, first_key, last_key, head = 0, row = 0, rows = 0, panels = 0;
    bool finite_block = true, masked;

  public:
    BackwardChunk(const Plan& plan, Parts parts, const RowBlocks& blocks, std::atomic<int32_t>* turns, int64_t sequence,
                  int64_t key_head, int64_t chunk)
        : plan(plan), b(plan.b), s(b.scores), w(plan, parts), blocks(blocks), turns(turns), sequence(sequence),
          key_head(key_head), chunk(chunk), first_key(chunk * plan.chunk),
          last_key(std::min(s.columns(), first_key + plan.chunk)), masked(s.visible || may_hide(s)) {
        for (int lane = 0; lane < W; ++lane) w.ones[lane] = 1;
    }

    void compute() {
        for (int64_t j = first_key; j < last_key; ++j) {
            std::memset(b.grad_keys.at(sequence, key_head, j), 0, static_cast<size_t>(plan.size) * sizeof(Real));
            std::memset(b.grad_values.at(sequence, key_head, j), 0,
                        static_cast<size_t>(plan.value_size) * sizeof(Real));
        }
        const int64_t group = s.heads() / s.keys.shape[1];
        for (head = key_head * group; head < (key_head + 1) * group; ++head) {
            double sink_flow = 0;
            for (size_t block = blocks.start(sequence); block < blocks.end(sequence); ++block) {
                if (stopping()) return;
                row = blocks[block].row;
                rows = blocks[block].rows;
                panels = (rows + W - 1) / W;
                const bool sees = start_block();
                if (b.grad_sinks && chunk == 0) sink_flow += sink_share();
                if (sees)
                    for (int64_t tile = first_key; tile < last_key; tile += back_tile)
                        compute_tile(tile, std::min(last_key, tile + back_tile));
                if (!give_queries(block, sees)) return;
            }
            if (b.grad_sinks && chunk == 0) b.grad_sinks[sequence * s.heads() + head] = sink_flow;
        }
    }

  private:
    int64_t panel_rows(int64_t p) const { return std::min<int64_t>(W, rows - p * W); }

    // Reads a block of queries and the gradients of its outputs; false if none of them sees a key of this chunk.
    bool start_block() {
        bool any = false;
        for (int64_t p = 0; p < panels; ++p) {
            w.masks[p].read(s, sequence, row + p * W, panel_rows(p));
            int64_t from = first_key, to = last_key;
            w.masks[p].narrow(from, to);
            any |= from < to;
        }
        if (!any && !(b.grad_sinks && chunk == 0)) return false;
        copy_rows(s.queries, plan.size, plan.query_row, w.queries);
        copy_rows(b.flow, plan.value_size, plan.flow_row, w.flow);
        const int64_t line = (sequence * s.heads() + head) * s.rows() + row;
        read_state<Real>(b.state, line, rows, w.row_max, w.share);
        for (int64_t i = 0; i < panels * W; ++i) {
            w.delta[i] = 0;
            if (i >= rows) {
                w.row_max[i] = -minus_infinity<Real>;
                w.share[i] = 0;
                continue;
            }
            read_row<Real>(b.output.at(sequence, head, row + i), b.output.type, b.output.stride[3], plan.value_size,
                           w.spare);
            Vec<Real> sum{};
            int64_t e = 0;
            // An output of zero contributes nothing even if its gradient is infinite: all outputs of a row without keys
            // are zero.
            for (; e + L <= plan.value_size; e += L) {
                const Vec<Real> out = load(w.spare + e), in = load(w.flow + i * plan.flow_row + e);
                sum += out == Real(0) ? Vec<Real>{} : out * in;
            }
            Real total = sum_lanes<Real>(sum);
            for (; e < plan.value_size; ++e)
                if (w.spare[e] != 0) total += w.spare[e] * w.flow[i * plan.flow_row + e];
            w.delta[i] = total;
        }
        finite_block = all_finite(w.queries, rows * plan.query_row) && all_finite(w.flow, rows * plan.flow_row);
        if (!any) return false;
        const Type type = sizeof(Real) == 4 ? Type::f32 : Type::f64;
        for (int64_t p = 0; p < panels; ++p) {
            pack_panel<Real>(reinterpret_cast<const char*>(w.queries + p * W * plan.query_row), type, plan.query_row, 1,
                             panel_rows(p), plan.size, plan.units.sign, w.packed_queries + p * W * plan.size);
            pack_panel<Real>(reinterpret_cast<const char*>(w.flow + p * W * plan.flow_row), type, plan.flow_row, 1,
                             panel_rows(p), plan.value_size, Real(1), w.packed_flow + p * W * plan.value_size);
        }
        std::memset(w.grad_queries, 0, static_cast<size_t>(panels * W * plan.size) * sizeof(Real));
        return true;
    }

    // Rows of the block, each padded with zeros to whole panels; missing rows are zero.
    void copy_rows(const View& view, int64_t size, int64_t wide, Real* to) {
        for (int64_t i = 0; i < panels * W; ++i) {
            if (i < rows)
                read_row<Real>(view.at(sequence, head, row + i), view.type, view.stride[3], size, to + i * wide);
            for (int64_t t = i < rows ? size : 0; t < wide; ++t) to[i * wide + t] = 0;
        }
    }

    double sink_share() const {
        const int64_t line = (sequence * s.heads() + head) * s.rows() + row;
        const double sink = static_cast<double>(static_cast<Real>(s.sinks[head]));
        const Real *row_max = static_cast<const Real*>(b.state.row_max),
                   *row_sum = static_cast<const Real*>(b.state.row_sum);
        double flow = 0;
        for (int64_t i = 0; i < rows; ++i)
            if (w.delta[i] != 0)
                flow -= std::exp(sink - static_cast<double>(row_max[line + i])) /
                        static_cast<double>(row_sum[line + i]) * static_cast<double>(w.delta[i]);
        return flow;
    }

    void compute_tile(int64_t first, int64_t last) {
        int64_t low = last, high = first;
        for (int64_t p = 0; p < panels; ++p) {
            w.from[p] = first, w.to[p] = last;
            w.masks[p].narrow(w.from[p], w.to[p]);
            if (w.from[p] >= w.to[p]) continue;
            low = std::min(low, w.from[p]);
            high = std::max(high, w.to[p]);
        }
        if (low >= high) return;
        first = low, last = high;
        const auto values = plain_rows<Real>(b.values, sequence, key_head, first, last - first, w.values);
        const bool finite_keys = copy_apart<Real>(s.keys, sequence, key_head, first, last - first, w.keys);
        const bool careful = !(finite_block && finite_keys);
        for (int64_t p = 0; p < panels; ++p) {
            clear_outside(p, first, low, high);
            if (w.from[p] < w.to[p]) compute_panel(p, first, values, careful);
        }
        for (int64_t strip = low; strip < high; strip += back_strip)
            give_keys(first, strip, std::min(high, strip + back_strip), careful);
    }

    // Weights and their gradients of keys that this panel does not see are zero for the products over all panels.
    void clear_outside(int64_t p, int64_t first, int64_t low, int64_t high) {
        for (int64_t j = low; j < high; ++j) {
            if (j >= w.from[p] && j < w.to[p]) continue;
            std::memset(w.weights + (j - first) * plan.score_row + p * W, 0, W * sizeof(Real));
            std::memset(w.grad_scores + (j - first) * plan.score_row + p * W, 0, W * sizeof(Real));
        }
    }

    void compute_panel(int64_t p, int64_t first, PlainRows<Real> values, bool careful) {
        const int64_t from = w.from[p], to = w.to[p], count = to - from, key_row = apart(plan.size);
        const Real* keys = w.keys + (from - first) * key_row;
        product<Real, false>(count, plan.size, keys, key_row, 1, w.packed_queries + p * W * plan.size, W, w.scores, W);
        finish_scores<Real>(s, plan.units, {sequence, head, row + p * W, panel_rows(p), from, count},
                            LanesAreQueries<Real>{w.masks[p]}, Stage::masked, false, w.scores, w.spare, w.slope);
        product<Real, false>(count, plan.value_size, values.data + (from - first) * values.row, values.row, 1,
                             w.packed_flow + p * W * plan.value_size, W, w.inner, W);
        const Real scale = plan.units.scale, factor = plan.units.factor;
        const bool bias = b.grad_bias || b.grad_relative, hides = masked || careful;
        for (int v = 0; v < panel_vectors; ++v) {
            const Vec<Real> row_max = load(w.row_max + p * W + v * L), share = load(w.share + p * W + v * L),
                            delta = load(w.delta + p * W + v * L);
            for (int64_t j = 0; j < count; ++j) {
                const int64_t at = j * W + v * L;
                const Vec<Real> score = load(w.scores + at);
                Vec<Real> weight = exp2_of((score - row_max) * factor) * share;
                // A hidden key has weight 0 even in a row of NaN, as have the lanes without a query.
                if (hides) weight = (score == minus_infinity<Real>) | (share == Real(0)) ? Vec<Real>{} : weight;
                // Its value may hold NaN: the gradient is zero all the same.
                Vec<Real> flow = weight * (load(w.inner + at) - delta);
                if (hides) flow = weight == Real(0) ? Vec<Real>{} : flow;
                if (bias) store<Real>(w.inner + at, flow);
                if (plan.units.capped) flow = weight == Real(0) ? Vec<Real>{} : flow * load(w.slope + at);
                const int64_t place = (from - first + j) * plan.score_row + p * W + v * L;
                store<Real>(w.weights + place, weight);
                store<Real>(w.grad_scores + place, flow * scale);
            }
        }
        if (b.grad_bias) give_bias(p, from, to);
        if (b.grad_relative) give_relative(p, from, to);
        Real* to_queries = w.grad_queries + p * W * plan.size;
        const Real* flows = w.grad_scores + (from - first) * plan.score_row + p * W;
        if (careful)
            product_seen<Real, false>(plan.size, count, keys, 1, key_row, flows, plan.score_row, to_queries, W);
        else
            product<Real, true>(plan.size, count, keys, 1, key_row, flows, plan.score_row, to_queries, W);
    }

    // dV and dK of a strip of keys, over the panels that see it.
    void give_keys(int64_t first, int64_t from, int64_t to, bool careful) {
        int64_t low = panels, high = 0;
        for (int64_t p = 0; p < panels; ++p)
            if (w.from[p] < to && w.to[p] > from && w.from[p] < w.to[p]) {
                low = std::min(low, p);
                high = p + 1;
            }
        if (low >= high) return;
        const int64_t place = (from - first) * plan.score_row + low * W, depth = (high - low) * W;
        add_outer(w.weights + place, to - from, depth, w.flow + low * W * plan.flow_row, plan.value_size,
                  plan.wide_values, b.grad_values, from, w.grad_values, careful);
        add_outer(w.grad_scores + place, to - from, depth, w.queries + low * W * plan.query_row, plan.size,
                  plan.wide_size, b.grad_keys, from, w.grad_keys, careful);
    }

    void add_outer(const Real* left, int64_t keys, int64_t depth, const Real* right, int64_t size, int64_t wide,
                   const View& grad, int64_t key, Real* spare, bool careful) {
        Real* to = reinterpret_cast<Real*>(grad.at(sequence, key_head, key));
        int64_t to_row = grad.stride[2];
        const bool direct = size == wide;
        if (!direct) {
            std::memset(spare, 0, static_cast<size_t>(keys * wide) * sizeof(Real));
            to = spare;
            to_row = wide;
        }
        for (int64_t e = 0; e < wide; e += W) {
            if (careful)
                product_seen<Real, true>(keys, depth, left, plan.score_row, 1, right + e, apart(wide), to + e, to_row);
            else
                product<Real, true>(keys, depth, left, plan.score_row, 1, right + e, apart(wide), to + e, to_row);
        }
        if (direct) return;
        for (int64_t j = 0; j < keys; ++j) {
            Real* line = reinterpret_cast<Real*>(grad.at(sequence, key_head, key + j));
            for (int64_t e = 0; e < size; ++e) line[e] += spare[j * wide + e];
        }
    }

    void give_bias(int64_t p, int64_t from, int64_t to) {
        const int64_t step = b.grad_bias.stride[3];
        for (int64_t lane = 0; lane < panel_rows(p); ++lane) {
            Real* line = reinterpret_cast<Real*>(b.grad_bias.at(sequence, head, row + p * W + lane)) + from * step;
            for (int64_t j = 0; j < to - from; ++j) line[j * step] += w.inner[j * W + lane];
        }
    }

    void give_relative(int64_t p, int64_t from, int64_t to) {
        Real* table = reinterpret_cast<Real*>(b.grad_relative.data) + head * b.grad_relative.stride[0];
        const int64_t zero = s.first_position(sequence) + row + p * W + s.relative_zero;
        for (int64_t j = from; j < to; ++j)
            for (int64_t lane = 0; lane < panel_rows(p); ++lane)
                table[zero + lane - j] += w.inner[(j - from) * W + lane];
    }

    // Adds this chunk's part of dQ when its turn comes; false if the job was stopped in the meantime.
    bool give_queries(size_t block, bool sees) {
        std::atomic<int32_t>& turn = turns[turn_of(s, blocks, sequence, head, block)];
        for (int spin = 0; turn.load(std::memory_order_acquire) != chunk; ++spin) {
#if !defined(__wasm_simd128__)  // one thread, for which it is always its turn
            if (spin > 100) std::this_thread::yield();
#endif
            if (stopping()) return false;
        }
        for (int64_t p = 0; p < panels; ++p) {
            if (!sees && chunk > 0) break;
            Real* part = w.grad_queries + p * W * plan.size;
            if (!sees) std::memset(part, 0, static_cast<size_t>(W * plan.size) * sizeof(Real));
            const View& to = b.grad_queries;
            unpack_panel<Real>(part, panel_rows(p), plan.size, w.ones, to.at(sequence, head, row + p * W), to.type,
                               to.stride[2], to.stride[3], chunk > 0);
        }
        turn.store(static_cast<int32_t>(chunk + 1), std::memory_order_release);
        return true;
    }
};

template <class Real>
bool backward_of(const Backward& b) {
    const BackwardPlan<Real> plan(b);
    const Scores& s = b.scores;
    const int64_t key_heads = s.keys.shape[1];
    const RowBlocks blocks(s, plan.block, BackwardPlan<Real>::W);
    const size_t count = static_cast<size_t>((blocks.shared() ? s.batch() : 1) * s.heads()) * blocks.size();
    std::unique_ptr<std::atomic<int32_t>[]> turns(new std::atomic<int32_t>[count]);
    for (size_t i = 0; i < count; ++i) turns[i].store(0);
    // Items that would add to the same place of a bias' gradient run in rounds, one after the other.
    const View& bias = b.grad_bias;
    const bool by_batch = (bias && bias.stride[0] == 0) || b.grad_relative;
    const bool by_head = (bias && bias.stride[1] == 0) || (b.grad_relative && b.grad_relative.stride[0] == 0);
    const bool by_chunk = (bias && bias.stride[3] == 0) || b.grad_relative;
    const int64_t rounds_batch = by_batch ? s.batch() : 1, rounds_head = by_head ? key_heads : 1,
                  rounds_chunk = by_chunk ? plan.chunks : 1;
    const int64_t batch = s.batch() / rounds_batch, heads = key_heads / rounds_head,
                  chunks = plan.chunks / rounds_chunk;
    const double cost = 10. * s.batch() * s.heads() * s.rows() * s.columns() * s.size();
    for (int64_t round = 0; round < rounds_batch * rounds_head * rounds_chunk; ++round) {
        const int64_t chunk_base = round / (rounds_batch * rounds_head), head_base = round / rounds_batch % rounds_head,
                      batch_base = round % rounds_batch;
        auto work = [&](int64_t item, void* memory) {
            const int64_t which = item % (batch * heads);
            BackwardChunk<Real>(plan, Parts{static_cast<char*>(memory)}, blocks, turns.get(),
                                batch_base + which / heads, head_base + which % heads,
                                chunk_base + item / (batch * heads))
                .compute();
        };
        if (!run_items(batch * heads * chunks, scratch_of(plan), cost, work)) return false;
    }
    return true;
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
