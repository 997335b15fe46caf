// Passes with lanes that are keys, for when each row's normaliser is known: weights transposed times rows, column sums,
// pooled maps and plain tiles. A panel of keys side by side, queries below each other: S[query][key].
#pragma once
#include <vector>

#include "forward.h"

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
    Real unit;  // log2 e, or 1 for scores as people read them

    // The factor for packing keys.
    Real factor() const {
        return static_cast<Real>(s.softcap > 0 ? s.scale / s.softcap : s.scale * static_cast<double>(unit));
    }
    void pack(int64_t first, int64_t count, Real by, Real* to) const {
        const View& k = s.keys;
        pack_panel<Real>(k.at(sequence, s.key_head(head), first), k.type, k.stride[2], k.stride[3], count, s.size(), by, to);
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
    void finish(int64_t from, int64_t to, int64_t key, int64_t keys, bool whole, Stage stage, Real* __restrict sheet) const {
        const int64_t rows = to - from;
        if (stage >= Stage::capped && s.softcap > 0) {
            const Real cap = static_cast<Real>(s.softcap) * unit;
            for (int64_t i = 0; i < rows * W; i += L) store<Real>(sheet + i, tanh_of<Real>(load(sheet + i)) * cap);
        }
        if (stage >= Stage::biased && s.bias) add_bias(from, to, key, keys, sheet);
        if (stage >= Stage::biased && s.relative) add_relative(from, to, key, keys, sheet);
        if (stage >= Stage::masked && s.mask) hide_dense(from, to, key, keys, sheet);
        if (stage >= Stage::masked && !whole) hide_outside(from, to, key, sheet);
    }

  private:
    void add_bias(int64_t from, int64_t to, int64_t key, int64_t keys, Real* sheet) const {
        const int64_t width = static_cast<int64_t>(bytes_of(s.bias.type)) * s.bias.stride[3];
        Real row[W];
        for (int64_t i = from; i < to; ++i) {
            read_row<Real>(s.bias.at(sequence, head, i) + key * width, s.bias.type, s.bias.stride[3], keys, row);
            for (int64_t lane = 0; lane < keys; ++lane) {
                Real& score = sheet[(i - from) * W + lane];
                score = row[lane] == minus_infinity<Real> ? row[lane] : score + row[lane] * unit;
            }
        }
    }
    void add_relative(int64_t from, int64_t to, int64_t key, int64_t keys, Real* sheet) const {
        const Real* table = reinterpret_cast<const Real*>(s.relative.at(0, 0)) + head * s.relative.stride[0];
        const int64_t zero = s.first_position(sequence) + s.relative_zero - key;
        for (int64_t i = from; i < to; ++i)
            for (int64_t lane = 0; lane < keys; ++lane) sheet[(i - from) * W + lane] += table[i - lane + zero] * unit;
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

// weights = 2^(score − normaliser of the row), in place.
template <class Real>
void weigh(Real* __restrict sheet, int64_t rows, const double* normaliser, int64_t at) {
    constexpr int L = lanes<Real>, W = panel<Real>;
    for (int64_t i = 0; i < rows; ++i) {
        const Vec<Real> down = all(row_normaliser<Real>(normaliser, at + i));
        for (int v = 0; v < panel_vectors; ++v) {
            Real* place = sheet + i * W + v * L;
            const Vec<Real> score = load(place);
            // A hidden key weighs nothing even in a row of NaN.
            store<Real>(place, score == minus_infinity<Real> ? Vec<Real>{} : exp2_of(score - down));
        }
    }
}

// ---- weights transposed times rows, and column sums ----

template <class Real>
struct BackflowPlan {
    static constexpr int W = panel<Real>;
    const Backflow& b;
    int64_t size, block, blocks, tiles;
    bool copy_queries;

    explicit BackflowPlan(const Backflow& backflow) : b(backflow) {
        const Scores& s = b.scores;
        size = b.rows ? b.rows.shape[3] : 0;
        const int64_t cached = 200 * 1024 / static_cast<int64_t>(sizeof(Real)) / std::max<int64_t>(1, s.size() + size);
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
        Real *keys, *outputs, *queries, *rows, *sheet, *before, *spare, *ones;
        bool* started;
        Workspace(const BackflowPlan& p, Parts& parts) {
            keys = parts.take<Real>(p.block * p.b.scores.size());
            outputs = parts.take<Real>(p.block * std::max<int64_t>(1, p.size));
            queries = parts.take<Real>(p.copy_queries ? row_tile * p.b.scores.size() : 0);
            rows = parts.take<Real>(row_tile * round_up(p.size, block_rows));
            sheet = parts.take<Real>(row_tile * W);
            before = parts.take<Real>(row_tile * W);
            spare = parts.take<Real>(std::max<int64_t>(p.size, W));
            ones = parts.take<Real>(W);
            started = parts.take<bool>(p.block / W);
        }
    };
    size_t scratch() const {
        Parts parts{nullptr};
        Workspace probe(*this, parts);
        return parts.used;
    }
};

template <class Real>
void backflow_block(const BackflowPlan<Real>& plan, Parts parts, int64_t sequence, int64_t head, int64_t key) {
    constexpr int L = lanes<Real>, W = panel<Real>;
    const Backflow& b = plan.b;
    const Scores& s = b.scores;
    typename BackflowPlan<Real>::Workspace w(plan, parts);
    const KeyPanel<Real> scorer{s, sequence, head, log2_e<Real>};
    const int64_t keys = std::min(plan.block, s.columns() - key), panels = (keys + W - 1) / W;
    for (int64_t p = 0; p < panels; ++p) {
        scorer.pack(key + p * W, std::min<int64_t>(W, keys - p * W), scorer.factor(), w.keys + p * W * s.size());
        w.started[p] = false;
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
        const bool finite = !b.rows || pack_values<Real>(b.rows, sequence, head, first, last - first, w.rows, w.spare);
        for (int64_t p = 0; p < panels; ++p) {
            const int64_t at = key + p * W, here = std::min<int64_t>(W, keys - p * W);
            int64_t from = first, to = last;
            const bool whole = scorer.narrow(from, to, at, here, hull);
            if (from >= to) continue;
            product<Real, false>(to - from, s.size(), queries.data + (from - first) * queries.row, queries.row, 1,
                                 w.keys + p * W * s.size(), W, w.sheet, W);
            scorer.finish(from, to, at, here, whole, Stage::masked, w.sheet);
            const bool careful = !finite && (!whole || may_hide(s));
            if (careful) std::memcpy(w.before, w.sheet, static_cast<size_t>((to - from) * W) * sizeof(Real));
            weigh<Real>(w.sheet, to - from, b.normaliser, line + from);
            Real* outputs = w.outputs + p * W * std::max<int64_t>(1, plan.size);
            if (!b.rows) {
                for (int v = 0; v < panel_vectors; ++v) {
                    Vec<Real> sum[2] = {};
                    for (int64_t i = 0; i < to - from; ++i) sum[i & 1] += load(w.sheet + i * W + v * L);
                    store<Real>(outputs + v * L, load(outputs + v * L) + (sum[0] + sum[1]));
                }
            } else if (careful) {
                add_seen_values<Real>(w.sheet, w.before, to - from, b.rows, sequence, head, from, outputs);
            } else {
                for_groups(plan.size, [&](int64_t start, int64_t count) {
                    const Real* group = w.rows + start * (last - first) + (from - first) * count;
                    if (count == block_rows)
                        block_of<Real, true, block_rows>(to - from, group, 1, block_rows, w.sheet, W, outputs + start * W, W);
                    else
                        block_tail<Real, true>(count, to - from, group, 1, count, w.sheet, W, outputs + start * W, W);
                });
            }
        }
    }
    for (int lane = 0; lane < W; ++lane) w.ones[lane] = 1;
    for (int64_t p = 0; p < panels; ++p) {
        const int64_t size = std::max<int64_t>(1, plan.size);
        unpack_panel<Real>(w.outputs + p * W * size, std::min<int64_t>(W, keys - p * W), size, w.ones,
                           b.output.at(sequence, head, key + p * W), b.output.type, b.output.stride[2], b.output.stride[3]);
    }
}

template <class Real>
bool backflow_of(const Backflow& b) {
    const BackflowPlan<Real> plan(b);
    const Scores& s = b.scores;
    const int64_t sequences = s.batch() * s.heads();
    auto work = [&](int64_t item, void* memory) {
        const int64_t which = item % sequences;
        backflow_block<Real>(plan, Parts{static_cast<char*>(memory)}, which / s.heads(), which % s.heads(), item / sequences * plan.block);
    };
    return run_items(sequences * plan.blocks, plan.scratch(), 2. * sequences * s.rows() * s.columns() * (s.size() + plan.size), work);
}

// ---- pooled maps ----

// Each item owns whole cells: some columns of cells, for some rows of cells. Types of our own in the vectors: those of
// the standard library would be shared with, and overwritten by, code for other instruction sets.
struct CellGroup {
    int64_t row, row_end, column, column_end;
};
struct Cut {
    int64_t at;
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
        const auto rows = cuts(p.row_edges, p.row_cells, std::max<int64_t>(1, (all_rows + rows_wanted - 1) / rows_wanted));
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
        Real *keys, *queries, *sheet;
        int32_t* cell;
        Workspace(const PooledPlan& plan, Parts& parts) {
            keys = parts.take<Real>(round_up(std::min<int64_t>(plan.widest, 384), W) * plan.p.scores.size());
            queries = parts.take<Real>(plain<Real>(plan.p.scores.queries) ? 0 : row_tile * plan.p.scores.size());
            sheet = parts.take<Real>(row_tile * W);
            cell = parts.take<int32_t>(round_up(384, W));
        }
    };
    size_t scratch() const {
        Parts parts{nullptr};
        Workspace probe(*this, parts);
        return parts.used;
    }
};

template <class Real>
class PooledItem {
    static constexpr int L = lanes<Real>, W = panel<Real>;
    const PooledPlan<Real>& plan;
    const Pooled& p;
    const Scores& s;
    typename PooledPlan<Real>::Workspace w;
    int64_t sequence, head, row_cell, row_cell_end, column_cell, column_cell_end;
    KeyPanel<Real> scorer;
    Real* map;

  public:
    PooledItem(const PooledPlan<Real>& plan, Parts parts, int64_t sequence, int64_t head, const CellGroup& cells)
        : plan(plan), p(plan.p), s(p.scores), w(plan, parts), sequence(sequence), head(head), row_cell(cells.row),
          row_cell_end(cells.row_end), column_cell(cells.column), column_cell_end(cells.column_end),
          scorer{s, sequence, head, log2_e<Real>},
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
        for (int64_t j = 0; j < keys; ++j) {
            while (key + j >= p.column_edges[c + 1]) ++c;
            w.cell[j] = static_cast<int32_t>(c);
        }
        for (int64_t at = 0; at < keys; at += W)
            scorer.pack(key + at, std::min<int64_t>(W, keys - at), scorer.factor(), w.keys + at * s.size());
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
            for (int64_t at = 0; at < keys; at += W) {
                const int64_t here = std::min<int64_t>(W, keys - at);
                int64_t from = first, to = last;
                const bool whole = scorer.narrow(from, to, key + at, here, hull);
                if (from >= to) continue;
                product<Real, false>(to - from, s.size(), queries.data + (from - first) * queries.row, queries.row, 1,
                                     w.keys + at * s.size(), W, w.sheet, W);
                scorer.finish(from, to, key + at, here, whole, Stage::masked, w.sheet);
                weigh<Real>(w.sheet, to - from, p.normaliser, (sequence * s.heads() + head) * s.rows() + from);
                gather(from, to, cell, w.cell + at, here);
            }
        }
    }

    // Rows of one cell are pooled lane by lane, then the lanes into their columns' cells.
    void gather(int64_t from, int64_t to, int64_t cell, const int32_t* columns, int64_t here) {
        for (int64_t i = from; i < to;) {
            while (i >= p.row_edges[cell + 1]) ++cell;
            const int64_t end = std::min(to, p.row_edges[cell + 1]);
            Vec<Real> pooled[panel_vectors] = {};
            for (int64_t r = i; r < end; ++r)
                for (int v = 0; v < panel_vectors; ++v) {
                    const Vec<Real> weights = load(w.sheet + (r - from) * W + v * L);
                    pooled[v] = p.pool == Pool::sum ? pooled[v] + weights : larger(pooled[v], weights);
                }
            Real lane[W];
            for (int v = 0; v < panel_vectors; ++v) store<Real>(lane + v * L, pooled[v]);
            Real* line = map + cell * p.column_cells;
            if (p.pool == Pool::sum)
                for (int64_t j = 0; j < here; ++j) line[columns[j]] += lane[j];
            else
                for (int64_t j = 0; j < here; ++j)
                    if (!(line[columns[j]] >= lane[j])) line[columns[j]] = lane[j];
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
                         plan.items[static_cast<size_t>(item / sequences)]).compute();
    };
    return run_items(sequences * items, plan.scratch(), 2. * sequences * s.rows() * s.columns() * s.size(), work);
}

// ---- tiles, at any stage ----

template <class Real>
bool tile_of(const Tile& tile) {
    constexpr int W = panel<Real>;
    const Scores& s = tile.scores;
    const bool weight = tile.stage == Stage::weight;
    const int64_t sequences = s.batch() * s.heads(), size = s.size();
    // Long rows are cut as well, so that one row of a long text is shared by the threads.
    constexpr int64_t key_span = 4096;
    const int64_t rows = (s.rows() + row_tile - 1) / row_tile, spans = (s.columns() + key_span - 1) / key_span;
    auto work = [&](int64_t item, void* memory) {
        Parts parts{static_cast<char*>(memory)};
        Real* keys = parts.take<Real>(W * size);
        Real* sheet = parts.take<Real>(row_tile * W);
        Real* copy = parts.take<Real>(row_tile * size);
        const int64_t span = item % spans, first = item / spans % rows * row_tile, which = item / spans / rows;
        const int64_t last = std::min(s.rows(), first + row_tile);
        const KeyPanel<Real> scorer{s, which / s.heads(), which % s.heads(), weight ? log2_e<Real> : Real(1)};
        const PlainRows<Real> queries = plain_rows<Real>(s.queries, scorer.sequence, scorer.head, first, last - first, copy);
        const Real factor = tile.stage == Stage::score    ? Real(1)
                            : tile.stage == Stage::scaled ? static_cast<Real>(s.scale)
                                                          : scorer.factor();
        const int64_t end = std::min(s.columns(), (span + 1) * key_span);
        for (int64_t key = span * key_span; key < end; key += W) {
            const int64_t here = std::min<int64_t>(W, s.columns() - key);
            scorer.pack(key, here, factor, keys);
            product<Real, false>(last - first, size, queries.data, queries.row, 1, keys, W, sheet, W);
            scorer.finish(first, last, key, here, !s.visible, tile.stage, sheet);
            if (weight) weigh<Real>(sheet, last - first, tile.normaliser, which * s.rows() + first);
            for (int64_t i = first; i < last; ++i)
                std::memcpy(static_cast<Real*>(tile.output) + (which * s.rows() + i) * s.columns() + key,
                            sheet + (i - first) * W, static_cast<size_t>(here) * sizeof(Real));
        }
    };
    Parts parts{nullptr};
    parts.take<Real>(W * size);
    parts.take<Real>(row_tile * W);
    parts.take<Real>(row_tile * size);
    return run_items(sequences * rows * spans, parts.used, 2. * sequences * s.rows() * s.columns() * size, work);
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
