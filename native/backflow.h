// Weights transposed times rows, and column sums: what flows back to the keys.
#pragma once
#include "columns.h"

namespace regard {
namespace REGARD_ISA {
namespace {

template <class Real>
struct BackflowPlan {
    static constexpr int W = panel<Real>;
    const Backflow& b;
    int64_t size, block, blocks, tiles;
    bool copy_queries;

    explicit BackflowPlan(const Backflow& backflow) : b(backflow) {
        const Scores& s = b.scores;
        size = b.rows ? b.rows.shape[3] : 0;
        const int64_t cached = 400 * 1024 / static_cast<int64_t>(sizeof(Real)) / std::max<int64_t>(1, s.size() + size);
        const int64_t largest = std::clamp<int64_t>(cached / W * W, 2 * W, 384);
        const int64_t sequences = std::max<int64_t>(1, s.batch() * s.heads());
        const int64_t wanted = std::max((s.columns() + largest - 1) / largest,
                                        std::min((s.columns() + 63) / 64, (16 + sequences - 1) / sequences));
        block = round_up((s.columns() + wanted - 1) / wanted, W);
        blocks = (s.columns() + block - 1) / block;
        tiles = (s.rows() + row_tile - 1) / row_tile;
        copy_queries = !plain<Real>(s.queries);
    }
    struct Workspace {
        Real *keys, *outputs, *queries, *rows, *scores, *before, *spare, *ones, *row_max, *share;
        Workspace(const BackflowPlan& p, Parts& parts) {
            keys = parts.take<Real>(p.block * p.b.scores.size());
            outputs = parts.take<Real>(p.block * std::max<int64_t>(1, p.size));
            queries = parts.take<Real>(p.copy_queries ? row_tile * p.b.scores.size() : 0);
            rows = parts.take<Real>(p.size ? row_tile * apart(p.size) : 0);
            scores = parts.take<Real>(row_tile * W);
            before = parts.take<Real>(row_tile * W);
            spare = parts.take<Real>(row_tile * W);
            ones = parts.take<Real>(W);
            row_max = parts.take<Real>(row_tile);
            share = parts.take<Real>(row_tile);
        }
    };
};

template <class Real>
void backflow_block(const BackflowPlan<Real>& plan, Parts parts, int64_t sequence, int64_t head, int64_t key) {
    constexpr int W = panel<Real>;
    const Backflow& b = plan.b;
    const Scores& s = b.scores;
    typename BackflowPlan<Real>::Workspace w(plan, parts);
    const Units<Real> units(s);
    const KeyPanel<Real> scorer{s, units, sequence, head};
    const int64_t keys = std::min(plan.block, s.columns() - key), panels = (keys + W - 1) / W;
    for (int64_t p = 0; p < panels; ++p) {
        scorer.pack(key + p * W, std::min<int64_t>(W, keys - p * W), units.sign, w.keys + p * W * s.size());
    }
    std::memset(w.outputs, 0, static_cast<size_t>(plan.block * std::max<int64_t>(1, plan.size)) * sizeof(Real));
    const int64_t line = (sequence * s.heads() + head) * s.rows();
    for (int64_t first = 0; first < s.rows(); first += row_tile) {
        if (stopping()) return;
        const int64_t last = std::min(s.rows(), first + row_tile);
        RowHull hull;
        hull.read(s, sequence, first, last);
        if (hull.misses(key, key + keys)) continue;
        const PlainRows<Real> queries = plain_rows<Real>(s.queries, sequence, head, first, last - first, w.queries);
        const bool finite = !b.rows || copy_apart<Real>(b.rows, sequence, head, first, last - first, w.rows);
        read_state<Real>(b.state, line + first, last - first, w.row_max, w.share);
        for (int64_t p = 0; p < panels; ++p) {
            const int64_t at = key + p * W, here = std::min<int64_t>(W, keys - p * W);
            int64_t from = first, to = last;
            const bool whole = scorer.narrow(from, to, at, here, hull);
            if (from >= to) continue;
            product<Real, false>(to - from, s.size(), queries.data + (from - first) * queries.row, queries.row, 1,
                                 w.keys + p * W * s.size(), W, w.scores, W);
            scorer.finish(from, to, at, here, whole, Stage::masked, false, w.scores, w.spare);
            const bool careful = !finite;  // a score of −inf hides a key as a mask does
            if (careful) std::memcpy(w.before, w.scores, static_cast<size_t>((to - from) * W) * sizeof(Real));
            const Real *row_max = w.row_max + (from - first), *share = w.share + (from - first);
            Real* outputs = w.outputs + p * W * std::max<int64_t>(1, plan.size);
            if (!b.rows) {
                Vec<Real> sum[panel_vectors];
                sum_weights<Real>(w.scores, to - from, units.factor, row_max, share, sum);
                for (int v = 0; v < panel_vectors; ++v) {
                    Real* place = outputs + v * lanes<Real>;
                    store<Real>(place, load(place) + sum[v]);
                }
                continue;
            }
            weigh<Real>(w.scores, to - from, units.factor, row_max, share);
            if (careful) {
                add_seen_values<Real>(w.scores, w.before, to - from, b.rows, sequence, head, from, outputs);
            } else {
                product<Real, true>(plan.size, to - from, w.rows + (from - first) * apart(plan.size), 1,
                                    apart(plan.size), w.scores, W, outputs, W);
            }
        }
    }
    for (int lane = 0; lane < W; ++lane) w.ones[lane] = 1;
    for (int64_t p = 0; p < panels; ++p) {
        const int64_t size = std::max<int64_t>(1, plan.size);
        unpack_panel<Real>(w.outputs + p * W * size, std::min<int64_t>(W, keys - p * W), size, w.ones,
                           b.output.at(sequence, head, key + p * W), b.output.type, b.output.stride[2],
                           b.output.stride[3]);
    }
}

template <class Real>
bool backflow_of(const Backflow& b) {
    const BackflowPlan<Real> plan(b);
    const Scores& s = b.scores;
    const int64_t sequences = s.batch() * s.heads();
    auto work = [&](int64_t item, void* memory) {
        const int64_t which = item % sequences;
        backflow_block<Real>(plan, Parts{static_cast<char*>(memory)}, which / s.heads(), which % s.heads(),
                             item / sequences * plan.block);
    };
    return run_items(sequences * plan.blocks, scratch_of(plan),
                     2. * sequences * s.rows() * s.columns() * (s.size() + plan.size), work);
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
