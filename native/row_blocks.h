// Blocks of queries. Packed sequences, whose queries see no key of their neighbours, begin blocks of their own: a panel
// of queries from two of them would compute the keys of both for each.
#pragma once
#include <algorithm>
#include <vector>

#include "problem.h"
#include "work.h"

namespace regard {
namespace REGARD_ISA {
namespace {

struct RowBlock {
    int64_t sequence;  // of the mask; −1: every sequence
    int64_t row, rows;
    int64_t first_key;  // of what the first query of the packed sequence sees; 0 where there is none
};

struct BlockStart {  // a type of this namespace: instruction sets must not share code of std::vector
    size_t at;
};

class RowBlocks {
    std::vector<RowBlock> blocks_;
    std::vector<BlockStart> starts_;  // of each sequence
    bool shared_, packed_ = false;

  public:
    // `block` rows at most, a whole number of panels. A block ends before a query that sees nothing of what the one
    // before it sees, if it has a quarter of a panel: fewer rows are not worth a panel of their own.
    RowBlocks(const Scores& s, int64_t block, int64_t panel) : shared_(!s.visible || s.visible.batch == 0) {
        for (int64_t sequence = 0; sequence < (shared_ ? 1 : s.batch()); ++sequence) {
            starts_.push_back({blocks_.size()});
            const int64_t at = sequence * s.visible.batch;
            const int32_t *first = s.visible.first[0] + at, *last = s.visible.last[0] + at;
            int64_t from = 0;
            if (s.visible && !s.visible.first[1])
                for (int64_t row = panel / 4; row < s.rows(); ++row)
                    if (first[row] >= last[row - 1] && last[row - 1] > first[row - 1] && row - from >= panel / 4) {
                        cut(s, sequence, from, row, block, panel);
                        from = row;
                        packed_ = true;
                    }
            cut(s, sequence, from, s.rows(), block, panel);
        }
        starts_.push_back({blocks_.size()});
    }

    size_t size() const { return blocks_.size(); }
    size_t start(int64_t sequence) const { return starts_[static_cast<size_t>(shared_ ? 0 : sequence)].at; }
    size_t end(int64_t sequence) const { return starts_[static_cast<size_t>(shared_ ? 0 : sequence) + 1].at; }
    const RowBlock& operator[](size_t block) const { return blocks_[block]; }
    bool shared() const { return shared_; }

    // Heavy blocks first, which balances the threads: the later ones under a causal mask, the larger packed sequences.
    std::vector<RowBlock> heavy_first() const {
        std::vector<RowBlock> order = blocks_;
        std::stable_sort(order.begin(), order.end(), [&](const RowBlock& a, const RowBlock& b) {
            return packed_ ? a.rows > b.rows : a.row > b.row;
        });
        return order;
    }

  private:
    void cut(const Scores& s, int64_t sequence, int64_t from, int64_t to, int64_t block, int64_t panel) {
        const int64_t at = sequence * s.visible.batch + from;
        const bool begins = s.visible && !s.visible.first[1] && s.visible.first[0][at] < s.visible.last[0][at];
        const int64_t first_key = begins ? s.visible.first[0][at] : 0;
        const int64_t parts = std::max<int64_t>(1, (to - from + block - 1) / block);
        const int64_t rows = round_up((to - from + parts - 1) / parts, panel);
        for (int64_t row = from; row < to; row += rows)
            blocks_.push_back({shared_ ? -1 : sequence, row, std::min(rows, to - row), first_key});
    }
};

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
