// Pooled maps: the sum or the largest weight of every cell of a grid.
#pragma once
#include <vector>

#include "columns.h"

namespace regard {
namespace REGARD_ISA {
namespace {

// Each item owns whole cells: some columns of cells, for some rows of cells. The vectors hold types of our own:
// templates of standard types would be merged by the linker with code for other instruction sets.
struct CellGroup {
    int64_t row, row_end, column, column_end;
};
struct Cut {
    int64_t at;
};
// Neighbouring keys of one panel that belong to one cell; `end` is counted from the panel's first key.
struct CellKeys {
    int32_t cell, end;
};

template <class Real>
struct PooledPlan {
    static constexpr int W = panel<Real>;
    const Pooled& p;
    std::vector<CellGroup> items;
    int64_t widest = 0;

    explicit PooledPlan(const Pooled& pooled) : p(pooled) {
        const int64_t sequences = std::max<int64_t>(1, p.scores.batch() * p.scores.heads());
        const auto columns = cuts(p.column_edges, p.column_cells, 384);
        const int64_t groups = static_cast<int64_t>(columns.size()) - 1;
        const int64_t rows_wanted = std::max<int64_t>(1, 16 / std::max<int64_t>(1, groups * sequences));
        const int64_t all_rows = p.row_cells ? p.row_edges[p.row_cells] - p.row_edges[0] : 0;
        const auto rows =
            cuts(p.row_edges, p.row_cells, std::max<int64_t>(1, (all_rows + rows_wanted - 1) / rows_wanted));
        for (size_t r = 0; r + 1 < rows.size(); ++r)
            for (size_t c = 0; c + 1 < columns.size(); ++c) {
                items.push_back(CellGroup{rows[r].at, rows[r + 1].at, columns[c].at, columns[c + 1].at});
                widest = std::max(widest, p.column_edges[columns[c + 1].at] - p.column_edges[columns[c].at]);
            }
    }
    // Groups of cells that together are at most `limit` wide (or one cell).
    static std::vector<Cut> cuts(const int64_t* edges, int64_t cells, int64_t limit) {
        std::vector<Cut> at;
        at.push_back(Cut{0});
        for (int64_t c = 1; c <= cells; ++c)
            if (c == cells || edges[c + 1] - edges[at.back().at] > limit) at.push_back(Cut{c});
        return at;
    }
    struct Workspace {
        Real *keys, *queries, *scores, *spare, *row_max, *share;
        CellKeys* cells;  // of each panel up to W
        Workspace(const PooledPlan& plan, Parts& parts) {
            keys = parts.take<Real>(round_up(std::min<int64_t>(plan.widest, 384), W) * plan.p.scores.size());
            queries = parts.take<Real>(plain<Real>(plan.p.scores.queries) ? 0 : row_tile * plan.p.scores.size());
            scores = parts.take<Real>(row_tile * W);
            spare = parts.take<Real>(row_tile * W);
            cells = parts.take<CellKeys>(round_up(384, W));
            row_max = parts.take<Real>(row_tile);
            share = parts.take<Real>(row_tile);
        }
    };
};

template <class Real>
class PooledItem {
    static constexpr int L = lanes<Real>, W = panel<Real>;
    const PooledPlan<Real>& plan;
    const Pooled& p;
    const Scores& s;
    typename PooledPlan<Real>::Workspace w;
    int64_t sequence, head, row_cell, row_cell_end, column_cell, column_cell_end;
    Units<Real> units;
    KeyPanel<Real> scorer;
    Real* map;

  public:
    PooledItem(const PooledPlan<Real>& plan, Parts parts, int64_t sequence, int64_t head, const CellGroup& cells)
        : plan(plan), p(plan.p), s(p.scores), w(plan, parts), sequence(sequence), head(head), row_cell(cells.row),
          row_cell_end(cells.row_end), column_cell(cells.column), column_cell_end(cells.column_end), units(s),
          scorer{s, units, sequence, head},
          map(static_cast<Real*>(p.output) + (sequence * s.heads() + head) * p.row_cells * p.column_cells) {}

    void compute() {
        for (int64_t r = row_cell; r < row_cell_end; ++r)
            for (int64_t c = column_cell; c < column_cell_end; ++c) map[r * p.column_cells + c] = 0;
        const int64_t end = p.column_edges[column_cell_end];
        // A single cell may be wider than what we keep packed.
        for (int64_t key = p.column_edges[column_cell]; key < end; key += 384) {
            if (stopping()) return;
            pool_keys(key, std::min<int64_t>(384, end - key));
        }
    }

  private:
    void pool_keys(int64_t key, int64_t keys) {
        int64_t c = column_cell;
        for (int64_t at = 0; at < keys; at += W) {
            CellKeys* next = w.cells + at;
            const int64_t end = std::min<int64_t>(key + at + W, key + keys);
            for (int64_t j = key + at; j < end;) {
                while (j >= p.column_edges[c + 1]) ++c;
                j = std::min(end, p.column_edges[c + 1]);
                *next++ = CellKeys{static_cast<int32_t>(c), static_cast<int32_t>(j - key - at)};
            }
        }
        for (int64_t at = 0; at < keys; at += W)
            scorer.pack(key + at, std::min<int64_t>(W, keys - at), units.sign, w.keys + at * s.size());
        const int64_t last_row = p.row_edges[row_cell_end];
        int64_t cell = row_cell;
        for (int64_t first = p.row_edges[row_cell]; first < last_row; first += row_tile) {
            if (stopping()) return;
            const int64_t last = std::min(last_row, first + row_tile);
            while (first >= p.row_edges[cell + 1]) ++cell;
            RowHull hull;
            hull.read(s, sequence, first, last);
            if (hull.misses(key, key + keys)) continue;
            const PlainRows<Real> queries = plain_rows<Real>(s.queries, sequence, head, first, last - first, w.queries);
            read_state<Real>(p.state, (sequence * s.heads() + head) * s.rows() + first, last - first, w.row_max,
                             w.share);
            for (int64_t at = 0; at < keys; at += W) {
                const int64_t here = std::min<int64_t>(W, keys - at);
                int64_t from = first, to = last;
                const bool whole = scorer.narrow(from, to, key + at, here, hull);
                if (from >= to) continue;
                product<Real, false>(to - from, s.size(), queries.data + (from - first) * queries.row, queries.row, 1,
                                     w.keys + at * s.size(), W, w.scores, W);
                scorer.finish(from, to, key + at, here, whole, Stage::masked, false, w.scores, w.spare);
                gather(from, to, first, cell, w.cells + at, here);
            }
        }
    }

    static Vec<Real> largest_of(const Real* weights, int64_t rows) {
        Vec<Real> largest{}, probe{};  // a maximum drops NaN, a sum with zero factors does not
        for (int64_t r = 0; r < rows; ++r) {
            const Vec<Real> weight = load(weights + r * W);
            largest = larger(weight, largest);
            probe += weight * Real(0);
        }
        return largest + probe;
    }

    // The width of the cells of a whole panel, if all have the same and it is a power of two; else 0.
    static int64_t shared_width(const CellKeys* cells, int64_t here) {
        const int64_t width = cells->end;
        if (here != W || width & (width - 1)) return 0;
        for (int64_t end = width; end <= W; end += width, ++cells)
            if (cells->end != end) return 0;
        return width;
    }

    // Lanes of one cell are pooled before they reach the map: each of its cells is read and written once.
    void pool_lanes(Real* lane, const CellKeys* columns, int64_t here, Real* line) const {
        for (int64_t j = 0; j < here; ++columns) {
            Real &to = line[columns->cell], found = lane[j];
            const int64_t end = columns->end;
            if (p.pool == Pool::sum) {
                for (++j; j < end; ++j) found += lane[j];
                to += found;
            } else {
                for (++j; j < end; ++j) found = found == found && !(found >= lane[j]) ? lane[j] : found;
                if (to == to && !(to >= found)) to = found;
            }
        }
    }

    // Sums of neighbouring lanes of two vectors.
    template <int... lane>
    static REGARD_INLINE Vec<Real> pairs(Vec<Real> a, Vec<Real> b, std::integer_sequence<int, lane...>) {
        return __builtin_shufflevector(a, b, (2 * lane)...) + __builtin_shufflevector(a, b, (2 * lane + 1)...);
    }

    // Adds a panel of sums to its cells, all `width` keys wide: neighbours are added in pairs until a lane is a cell.
    template <int width>
    static REGARD_INLINE void add_cells(Vec<Real> (&sum)[panel_vectors], Real* line) {
        constexpr int cells = W / width;
#pragma GCC unroll 8
        for (int step = 1, vectors = panel_vectors; step < width; step *= 2) {
            vectors = std::max(1, vectors / 2);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; ++v)
                sum[v] = pairs(sum[2 * v % panel_vectors], sum[(2 * v + 1) % panel_vectors],
                               std::make_integer_sequence<int, L>{});
        }
        if constexpr (cells >= L) {
            for (int v = 0; v < cells / L; ++v) store<Real>(line + v * L, load(line + v * L) + sum[v]);
        } else {
            typedef Real Cells __attribute__((vector_size(cells * sizeof(Real)), aligned(sizeof(Real)), may_alias));
            Cells some;
            std::memcpy(&some, &sum[0], sizeof some);
            *reinterpret_cast<Cells*>(line) += some;
        }
    }

    // As `gather` for sums, where the cells of the panel's keys have one width. (At n = 2,048 the map of 512 × 512
    // cells took 0.67 of a forward with sums in memory.)
    template <int width>
    void gather_sums(int64_t from, int64_t to, int64_t first, int64_t cell, int64_t column) {
        for (int64_t i = from; i < to; ++cell) {
            const int64_t end = std::min(to, p.row_edges[cell + 1]);
            if (end <= i) continue;
            Vec<Real> sum[panel_vectors];
            sum_weights<Real>(w.scores + (i - from) * W, end - i, units.factor, w.row_max + (i - first),
                              w.share + (i - first), sum);
            add_cells<width>(sum, map + cell * p.column_cells + column);
            i = end;
        }
    }
    template <int width = 1>
    void gather_evenly(int64_t by, int64_t from, int64_t to, int64_t first, int64_t cell, int64_t column) {
        if (by == width)
            gather_sums<width>(from, to, first, cell, column);
        else if constexpr (width < W)
            gather_evenly<2 * width>(by, from, to, first, cell, column);
    }

    // Rows of one cell are pooled lane by lane, then the lanes into their columns' cells.
    void gather(int64_t from, int64_t to, int64_t first, int64_t cell, const CellKeys* columns, int64_t here) {
        if (const int64_t width = p.pool == Pool::sum ? shared_width(columns, here) : 0)
            return gather_evenly(width, from, to, first, cell, columns->cell);
        for (int64_t i = from; i < to;) {
            while (i >= p.row_edges[cell + 1]) ++cell;
            const int64_t end = std::min(to, p.row_edges[cell + 1]);
            Real* scores = w.scores + (i - from) * W;
            const Real *row_max = w.row_max + (i - first), *share = w.share + (i - first);
            Real lane[W];
            if (p.pool == Pool::sum) {
                Vec<Real> sum[panel_vectors];
                sum_weights<Real>(scores, end - i, units.factor, row_max, share, sum);
                for (int v = 0; v < panel_vectors; ++v) store<Real>(lane + v * L, sum[v]);
            } else {
                weigh<Real>(scores, end - i, units.factor, row_max, share);
                for (int v = 0; v < panel_vectors; ++v) store<Real>(lane + v * L, largest_of(scores + v * L, end - i));
            }
            pool_lanes(lane, columns, here, map + cell * p.column_cells);
            i = end;
        }
    }
};

template <class Real>
bool pooled_of(const Pooled& pooled) {
    const PooledPlan<Real> plan(pooled);
    const Scores& s = pooled.scores;
    const int64_t sequences = s.batch() * s.heads(), items = static_cast<int64_t>(plan.items.size());
    auto work = [&](int64_t item, void* memory) {
        const int64_t which = item % sequences;
        PooledItem<Real>(plan, Parts{static_cast<char*>(memory)}, which / s.heads(), which % s.heads(),
                         plan.items[static_cast<size_t>(item / sequences)])
            .compute();
    };
    return run_items(sequences * items, scratch_of(plan), 2. * sequences * s.rows() * s.columns() * s.size(), work);
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
