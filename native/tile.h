// Tiles of the matrix at any stage.
#pragma once
#include "columns.h"

namespace regard {
namespace REGARD_ISA {
namespace {

template <class Real>
bool tile_of(const Tile& tile) {
    constexpr int W = panel<Real>;
    const Scores& s = tile.scores;
    const bool weight = tile.stage == Stage::weight;
    const Units<Real> units(s);
    const int64_t sequences = s.batch() * s.heads(), size = s.size();
    // Long rows are cut as well, so that one row of a long text is shared by the threads.
    constexpr int64_t key_span = 4096;
    const int64_t rows = (s.rows() + row_tile - 1) / row_tile, spans = (s.columns() + key_span - 1) / key_span;
    auto work = [&](int64_t item, void* memory) {
        Parts parts{static_cast<char*>(memory)};
        Real* keys = parts.take<Real>(W * size);
        Real* scores = parts.take<Real>(row_tile * W);
        Real* spare = parts.take<Real>(row_tile * W);
        Real* copy = parts.take<Real>(row_tile * size);
        Real* row_max = parts.take<Real>(row_tile);
        Real* share = parts.take<Real>(row_tile);
        const int64_t span = item % spans, first = item / spans % rows * row_tile, which = item / spans / rows;
        const int64_t last = std::min(s.rows(), first + row_tile);
        const KeyPanel<Real> scorer{s, units, which / s.heads(), which % s.heads()};
        const PlainRows<Real> queries =
            plain_rows<Real>(s.queries, scorer.sequence, scorer.head, first, last - first, copy);
        const int64_t end = std::min(s.columns(), (span + 1) * key_span);
        if (weight) read_state<Real>(tile.state, which * s.rows() + first, last - first, row_max, share);
        for (int64_t key = span * key_span; key < end; key += W) {
            const int64_t here = std::min<int64_t>(W, s.columns() - key);
            scorer.pack(key, here, weight ? units.sign : Real(1), keys);
            product<Real, false>(last - first, size, queries.data, queries.row, 1, keys, W, scores, W);
            scorer.finish(first, last, key, here, !s.visible, tile.stage, !weight, scores, spare);
            if (weight) weigh<Real>(scores, last - first, units.factor, row_max, share);
            for (int64_t i = first; i < last; ++i)
                std::memcpy(static_cast<Real*>(tile.output) + (which * s.rows() + i) * s.columns() + key,
                            scores + (i - first) * W, static_cast<size_t>(here) * sizeof(Real));
        }
    };
    Parts parts{nullptr};
    parts.take<Real>(W * size);
    parts.take<Real>(row_tile * W);
    parts.take<Real>(row_tile * W);
    parts.take<Real>(row_tile * size);
    parts.take<Real>(row_tile);
    parts.take<Real>(row_tile);
    return run_items(sequences * rows * spans, parts.used, 2. * sequences * s.rows() * s.columns() * size, work);
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
