// activation(x weightᵀ + bias) · times + residual, in one pass; the output may be the array `times`.
//
// Few rows: two kernels share them. Full panels go through the micro-kernel with lanes as rows of x: x is packed once,
// the weight, the larger side, is broadcast without packing, and only the results are transposed. The rows that do not
// fill a panel, and all rows when there are very few, go through `dot_products`. On Zen 3, of what a bare loop of
// multiply-adds does: panels 82 to 86%, dot products up to 76%, 20 rows (16 + 4) 80%.
//
// With AVX-512, many rows, for which the weight is the smaller side, and some twenty: the weight is packed with lanes
// as outputs, the rows of x are broadcast from their place, and the results come out row by row.
#pragma once
#include <type_traits>

#include "activations.h"
#include "dots.h"
#include "memory.h"
#include "work.h"

namespace regard {
namespace REGARD_ISA {
namespace {

template <class Real>
struct LinearPlan {
    static constexpr int W = panel<Real>;
    static constexpr int64_t out_step = vector_bytes == 64 ? 48 : 24;  // whole register blocks and whole vectors
    // 96 KiB of packed rows, from the second cache: with parts of 24 KiB, for the first, rows of the weight are read in
    // short pieces, and a weight from memory is 15% slower (20 × 1536 → 384); from a cache both are equal.
    static constexpr int64_t panel_depth = 96 * 1024 / (W * static_cast<int64_t>(sizeof(Real)));

    const Linear& linear;
    int64_t depth, outs, rows;                  // rows of one strip: what is packed at a time
    int64_t panels, rest;                       // panels · W + rest ≥ rows; the last panel may have empty lanes
    int64_t depth_block, row_block, out_block;  // row_block counts panels
    int64_t row_blocks, out_blocks;
    bool copy_rest, copy_weight;

    LinearPlan(const Linear& l, int64_t strip_rows)
        : linear(l), depth(l.x.shape[3]), outs(l.weight.shape[2]), rows(strip_rows) {
        panels = rows / W;
        rest = rows % W;
        if (rest * 8 >= W * 7) {  // a nearly full panel beats dot products
            ++panels;
            rest = 0;
        }
        copy_weight = !plain<Real>(l.weight) && !narrow_weight();
        choose_blocks();
        const int64_t row_bytes = l.x.stride[2] * static_cast<int64_t>(sizeof(Real));
        // Rows a multiple of 2 KiB apart share few places of the first cache.
        copy_rest = !plain<Real>(l.x) || (rest > 4 && row_bytes % 2048 == 0);
    }

    // 16-bit weights that are read once or twice are widened in registers; WebAssembly has no instruction for it, and
    // reads only a single row's so.
    static constexpr int64_t narrow_rows = in_browser ? 1 : 2 * dot_rows_at_once;
    bool narrow_weight() const {
        const Type type = linear.weight.type;
        return sizeof(Real) == 4 && (type == Type::f16 || type == Type::bf16) && linear.weight.stride[3] == 1 &&
               panels == 0 && rest <= narrow_rows;
    }

    double weight_bytes() const {
        return static_cast<double>(outs * depth) * static_cast<double>(bytes_of(linear.weight.type));
    }
    // Reading a byte of the weight from memory takes as long as about four operations.
    double cost() const {
        return 2. * static_cast<double>(rows * outs) * static_cast<double>(depth) + 4. * weight_bytes();
    }

    // A part of a panel and a block of the weight share the second cache. Then smaller blocks while there are few
    // items. Decided by the shapes alone, so that results don't depend on threads.
    void choose_blocks() {
        const int64_t deepest = panels ? panel_depth
                                       : std::max<int64_t>(panel_depth, 8192 * 4 / static_cast<int64_t>(sizeof(Real)) /
                                                                            std::max<int64_t>(1, rest));
        const int64_t parts = std::max<int64_t>(1, (depth + deepest - 1) / deepest);
        const int64_t step = is_quantised(linear.weight.type) ? quantised_block : lanes<Real>;
        depth_block = std::max<int64_t>(round_up((depth + parts - 1) / parts, step), step);
        const int64_t cached = 160 * 1024 / static_cast<int64_t>(sizeof(Real)) / depth_block;
        out_block = std::clamp<int64_t>(cached / out_step, 1, 8) * out_step;
        row_block = std::clamp<int64_t>(panels, 1, 96 / W);
        count_blocks();
        const double whole = cost();
        while (row_blocks * out_blocks < 32 && whole / static_cast<double>(row_blocks * out_blocks) > 1.5e6) {
            if (row_block > 1 && row_block * W >= out_block && !copy_weight)  // each block of rows would copy it again
                row_block = (row_block + 1) / 2;
            else if (out_block > out_step)
                out_block = round_up(out_block / 2, out_step);
            else
                break;
            count_blocks();
        }
    }
    void count_blocks() {
        row_blocks = std::max<int64_t>(1, (panels + row_block - 1) / row_block);
        out_blocks = (outs + out_block - 1) / out_block;
    }

    int64_t rest_row() const { return round_up(depth, 16) + 16; }
    // Numbers of packed rows: all panels, then the rest.
    int64_t packed() const { return panels * W * depth + (copy_rest ? rest * rest_row() : 0); }

    // Numbers of one thread's memory, part after part.
    int64_t weights() const { return copy_weight ? round_up(out_block * depth_block, 16) : 0; }
    int64_t sums() const { return row_block * W * out_block; }
    int64_t tile() const { return std::max<int64_t>(W, rest) * out_block; }
    int64_t scratch() const { return weights() + (panels ? sums() : 0) + tile() + 4 * out_block + W; }
};

// One panel times all weights of a block. The weights of a register block are far apart, so that the weight
// is read in streams, each in order: one that comes from memory is used at 80% of the limit, with neighbours at 50% (16
// rows, 384 → 384, Zen 3).
template <class Real, bool add>
void panel_product(int64_t outs, int64_t depth, const Real* weight, int64_t weight_row, const Real* rows, Real* sums) {
    constexpr int W = panel<Real>;
    const int64_t apart = outs / block_rows, streamed = apart * block_rows;
    constexpr Into into = add ? Into::add : Into::store;
    for (int64_t o = 0; o < apart; ++o)
        block_of<block_rows>(depth, Product<Real, into>{weight + o * weight_row, apart * weight_row, 1, rows, W,
                                                        sums + o * W, apart * W});
    product<Real, add>(outs - streamed, depth, weight + streamed * weight_row, weight_row, 1, rows, W,
                       sums + streamed * W, W);
}

// Sums of one row into the output, through bias, activation, gate and residual.
template <class Real, Activation activation>
void finish_sums(const Real* sums, const Real* bias, const Real* times, const Real* residual, int64_t count, Real* to) {
    constexpr int L = lanes<Real>;
    const auto finished = [](Vec<Real> sum, Vec<Real> shift) { return activated<Real, activation>(sum + shift); };
    int64_t i = 0;
    for (; i + L <= count; i += L) {
        Vec<Real> x = finished(load(sums + i), load(bias + i));
        if (times) x *= load(times + i);
        store<Real>(to + i, residual ? x + load(residual + i) : x);
    }
    if (i == count) return;
    Real last[L] = {}, shift[L] = {};
    std::copy(sums + i, sums + count, last);
    std::copy(bias + i, bias + count, shift);
    store<Real>(last, finished(load(last), load(shift)));
    for (int64_t s = i; s < count; ++s) {
        const Real x = times ? last[s - i] * times[s] : last[s - i];
        to[s] = residual ? x + residual[s] : x;
    }
}
template <class Real>
using FinishSums = void (*)(const Real*, const Real*, const Real*, const Real*, int64_t, Real*);
template <class Real>
FinishSums<Real> finisher(Activation activation) {
    switch (activation) {
        case Activation::relu: return finish_sums<Real, Activation::relu>;
        case Activation::gelu: return finish_sums<Real, Activation::gelu>;
        case Activation::gelu_tanh: return finish_sums<Real, Activation::gelu_tanh>;
        case Activation::silu: return finish_sums<Real, Activation::silu>;
        case Activation::tanh: return finish_sums<Real, Activation::tanh>;
        case Activation::quick_gelu: return finish_sums<Real, Activation::quick_gelu>;
        default: return finish_sums<Real, Activation::none>;
    }
}

// Rows of finished sums into the output, for a block of outputs.
template <class Real>
struct LinearEnd {
    const Linear& linear;
    int64_t first_out, outs, tile_row;
    Real *tile, *bias, *gate, *residual, *line;  // a row of outputs each, but for the tile

    static int64_t scratch(int64_t out_block) { return 4 * out_block; }
    void use(Real* memory, int64_t out_block) {
        bias = memory;
        gate = bias + out_block;
        residual = gate + out_block;
        line = residual + out_block;
    }

    void read_bias() {
        const View& shift = linear.bias;
        std::fill(bias, bias + outs, Real(0));
        if (shift)
            read_row<Real>(shift.at(0, 0) + first_out * shift.stride[3] * static_cast<int64_t>(bytes_of(shift.type)),
                           shift.type, shift.stride[3], outs, bias);
    }

    // Rows of the tile into the output.
    void finish_rows(int64_t first_row, int64_t count) {
        const View &out = linear.output, &by = linear.times, &added = linear.residual;
        const FinishSums<Real> finish_row = finisher<Real>(linear.activation);
        const bool direct = plain<Real>(out);
        for (int64_t r = 0; r < count; ++r) {
            const Real *times = nullptr, *more = nullptr;
            if (by) times = numbers<Real>(place(by, first_row + r), by.type, by.stride[3], outs, gate);
            if (added) more = numbers<Real>(place(added, first_row + r), added.type, added.stride[3], outs, residual);
            char* to = place(out, first_row + r);
            finish_row(tile + r * tile_row, bias, times, more, outs, direct ? reinterpret_cast<Real*>(to) : line);
            if (!direct) write_numbers<Real>(line, outs, to, out.type, out.stride[3]);
        }
    }
    char* place(const View& view, int64_t row) const {
        return view.at(0, 0, row) + first_out * view.stride[3] * static_cast<int64_t>(bytes_of(view.type));
    }
};

// One item: a block of panels (the last block also has the rest of the rows) and a block of outputs.
template <class Real>
struct LinearBlock : LinearEnd<Real> {
    using End = LinearEnd<Real>;
    using End::first_out, End::linear, End::outs, End::tile;
    static constexpr int W = panel<Real>;
    const LinearPlan<Real>& plan;
    const Real* packed;
    int64_t strip, first_panel, panels, rest;
    Real *weights, *sums, *ones;

    LinearBlock(const LinearPlan<Real>& p, const Real* packed_rows, int64_t strip_row, int64_t item, void* memory)
        : End{p.linear, 0, 0, p.out_block, nullptr, nullptr, nullptr, nullptr, nullptr}, plan(p), packed(packed_rows),
          strip(strip_row) {
        const int64_t block = item % p.row_blocks;
        first_panel = block * p.row_block;
        panels = std::min(p.row_block, p.panels - first_panel);
        rest = block == p.row_blocks - 1 ? p.rest : 0;
        first_out = item / p.row_blocks * p.out_block;
        outs = std::min(p.out_block, p.outs - first_out);
        weights = static_cast<Real*>(memory);
        sums = weights + p.weights();
        tile = sums + (p.panels ? p.sums() : 0);
        ones = tile + p.tile();
        End::use(ones + W, p.out_block);
    }

    void compute() {
        for (int64_t from = 0; from == 0 || from < plan.depth; from += plan.depth_block) {
            if (stopping()) return;
            const int64_t count = std::min(plan.depth_block, plan.depth - from);
            const View& weight = linear.weight;
            const char* stored =
                weight.at(0, 0, first_out) + from * weight.stride[3] * static_cast<int64_t>(bytes_of(weight.type));
            if (plan.copy_weight) {
                copy_rows<Real>(weight, first_out, outs, from, count, weights, plan.depth_block);
                add_products<Real>(weights, plan.depth_block, from, count);
            } else if (weight.type == own_type<Real>) {
                add_products<Real>(reinterpret_cast<const Real*>(stored), weight.stride[2], from, count);
            } else if constexpr (sizeof(Real) == 4) {
                if (weight.type == Type::f16)
                    add_products<Half>(reinterpret_cast<const Half*>(stored), weight.stride[2], from, count);
                else
                    add_products<Brain>(reinterpret_cast<const Brain*>(stored), weight.stride[2], from, count);
            }
        }
        finish();
    }

    template <class Stored>
    void add_products(const Stored* weight, int64_t weight_row, int64_t from, int64_t count) {
        if constexpr (std::is_same_v<Stored, Real>)
            for (int64_t p = 0; p < panels; ++p) {
                const Real* rows = packed + (first_panel + p) * W * plan.depth + from * W;
                Real* to = sums + p * W * plan.out_block;
                if (from == 0)
                    panel_product<Real, false>(outs, count, weight, weight_row, rows, to);
                else
                    panel_product<Real, true>(outs, count, weight, weight_row, rows, to);
            }
        if (rest == 0) return;
        const View& x = linear.x;
        const Real* rows = plan.copy_rest ? packed + plan.panels * W * plan.depth
                                          : reinterpret_cast<const Real*>(x.at(0, 0, strip + plan.panels * W));
        const int64_t x_row = plan.copy_rest ? plan.rest_row() : x.stride[2];
        dot_products(rest, Dots<Real, Stored>{count, rows + from, x_row, weight, weight_row, outs, from > 0, tile,
                                              plan.out_block});
    }

    void finish() {
        End::read_bias();
        End::finish_rows(strip + plan.panels * W, rest);  // first: the panels go through the same tile
        std::fill(ones, ones + W, Real(1));
        for (int64_t p = 0; p < panels; ++p) {
            const int64_t row = (first_panel + p) * W, count = std::min<int64_t>(W, plan.rows - row);
            unpack_panel<Real>(sums + p * W * plan.out_block, count, outs, ones, reinterpret_cast<char*>(tile),
                               own_type<Real>, plan.out_block, 1);
            End::finish_rows(strip + row, count);
        }
    }
};

template <class Real>
bool linear_strip(const Linear& l, int64_t first_row, int64_t rows) {
    constexpr int W = panel<Real>;
    static thread_local KeptMemory memory;  // packed rows are shared by all threads of the job
    const LinearPlan<Real> plan(l, rows);
    const View& x = l.x;
    auto* packed = static_cast<Real*>(memory.at_least(static_cast<size_t>(plan.packed()) * sizeof(Real)));
    auto pack = [&](int64_t p, void*) {
        pack_panel<Real>(x.at(0, 0, first_row + p * W), x.type, x.stride[2], x.stride[3],
                         std::min<int64_t>(W, rows - p * W), plan.depth, Real(1), packed + p * W * plan.depth);
    };
    if (!run_items(plan.panels, 0, 8. * static_cast<double>(rows * plan.depth), pack)) return false;
    if (plan.copy_rest)
        copy_rows<Real>(x, first_row + plan.panels * W, plan.rest, 0, plan.depth, packed + plan.panels * W * plan.depth,
                        plan.rest_row());
    auto compute = [&](int64_t item, void* scratch) {
        LinearBlock<Real>(plan, packed, first_row, item, scratch).compute();
    };
    return run_items(plan.row_blocks * plan.out_blocks, static_cast<size_t>(plan.scratch()) * sizeof(Real), plan.cost(),
                     compute);
}

// Many rows, or some twenty: see above.
template <class Real>
struct PackedWeights {
    static constexpr int W = panel<Real>;
    static constexpr int64_t piece = 64;  // of the depth, packed at a time where a block packs its own weights
    static constexpr int64_t ahead = 96;  // how far the weights are fetched ahead; 64 and 128 took up to 4% longer
    const Linear& linear;
    int64_t rows, depth, outs;
    bool by_block;                                         // one block has all rows, so only it uses its weights
    int64_t row_block, row_blocks, out_block, out_blocks;  // out_block is a whole number of panels
    int64_t depth_block;                                   // longer sums are rounded more: parts, added at the end

    // `count` outputs: as many as are packed at a time.
    PackedWeights(const Linear& l, int64_t count)
        : linear(l), rows(l.x.shape[2]), depth(l.x.shape[3]), outs(count), by_block(suits_block(l)) {
        row_block = even(rows, 96, block_rows);
        out_block = even(outs, 12 * W, W);
        depth_block = even(std::max<int64_t>(1, depth), LinearPlan<Real>::panel_depth, 1);
        count_blocks();
        // Smaller blocks while there are few items. Decided by the shapes alone.
        while (row_blocks * out_blocks < 32 && cost() / static_cast<double>(row_blocks * out_blocks) > 1.5e6) {
            if (out_block > 2 * W)
                out_block = even(outs, out_block / 2, W);
            else if (row_block > 2 * block_rows && !by_block)
                row_block = even(rows, row_block / 2, block_rows);
            else
                break;
            count_blocks();
        }
    }
    // Blocks of about the same size, at most `most` each, in whole steps.
    static int64_t even(int64_t whole, int64_t most, int64_t step) {
        const int64_t blocks = (whole + most - 1) / most;
        return round_up((whole + blocks - 1) / blocks, step);
    }
    void count_blocks() {
        row_blocks = (rows + row_block - 1) / row_block;
        out_blocks = (outs + out_block - 1) / out_block;
    }

    // Where this packs fewer numbers than are packed and transposed otherwise, and transposing is slow: with AVX-512 on
    // Zen 4 (2048 rows) 384 → 384 does 204 instead of 182 GFLOP/s, 384 → 1152 208 instead of 182; with AVX2 both do the
    // same, and with 400 rows this does 10% less. Rows of x that a multiple of 4 KiB separates would compete for one
    // place of the first cache.
    static bool suits(const Linear& l) {
        const int64_t rows = l.x.shape[2], depth = l.x.shape[3], outs = l.weight.shape[2];
        const int64_t row_bytes = l.x.stride[2] * static_cast<int64_t>(sizeof(Real));
        return plain<Real>(l.x) && !is_quantised(l.weight.type) && row_bytes % 4096 != 0 &&
               (outs * depth < rows * (outs + depth) || suits_block(l));
    }
    // Where one block has all rows, packing needs no memory that threads share. Of the time of dot products, with
    // weights from memory, 19 rows 384 → 1152 take 0.71, 576 → 1536 0.88, 1536 → 384 0.97; 12 rows 384 → 384 from the
    // cache took 1.2 times as long (Zen 5). From 28 rows, a panel of rows with empty lanes is as fast.
    static bool suits_block(const Linear& l) {
        return l.x.shape[2] >= 16 && l.x.shape[2] * 8 < W * 7 && plain<Real>(l.weight);
    }

    int64_t panels() const { return (outs + W - 1) / W; }
    int64_t scratch() const {
        return row_block * out_block + LinearEnd<Real>::scratch(out_block) + (by_block ? W * piece : 0);
    }
    double cost() const { return 2. * static_cast<double>(rows * outs) * static_cast<double>(depth); }

    void compute(const Real* packed, int64_t first_out, int64_t item, void* memory) const {
        const int64_t row = item / out_blocks * row_block, count = std::min(row_block, rows - row);
        const int64_t at = item % out_blocks * out_block, here = std::min(out_block, outs - at);
        LinearEnd<Real> end{linear, first_out + at, here, out_block, static_cast<Real*>(memory)};
        end.use(end.tile + row_block * out_block, out_block);
        const auto* x = reinterpret_cast<const Real*>(linear.x.at(0, 0, row));
        const auto add = [&](int64_t out, int64_t from, int64_t deep, const Real* weights) {
            const auto multiply = from == 0 ? product<Real, false> : product<Real, true>;
            multiply(count, deep, x + from, linear.x.stride[2], 1, weights, W, end.tile + out, out_block);
        };
        if (by_block) {
            Real* weights = end.tile + row_block * out_block + LinearEnd<Real>::scratch(out_block);
            for (int64_t out = 0; out < here; out += W) {
                if (stopping()) return;
                for (int64_t from = 0; from == 0 || from < depth; from += piece) {
                    const int64_t deep = std::min(piece, depth - from);
                    pack_piece(at + out, from, deep, weights);
                    add(out, from, deep, weights);
                }
            }
        } else {
            for (int64_t from = 0; from == 0 || from < depth; from += depth_block)
                for (int64_t out = 0; out < here; out += W) {
                    if (stopping()) return;
                    add(out, from, std::min(depth_block, depth - from), packed + (at + out) * depth + from * W);
                }
        }
        end.read_bias();
        end.finish_rows(row, count);
    }

    // Packs the weights of a panel of outputs, `deep` numbers of each, while later ones come into the cache.
    void pack_piece(int64_t out, int64_t from, int64_t deep, Real* to) const {
        const View& weight = linear.weight;
        const int64_t row = weight.stride[2], count = std::min<int64_t>(W, outs - out);
        const auto* at = reinterpret_cast<const Real*>(weight.at(0, 0, out)) + from;
        for (int64_t t = 0; t < deep; t += lanes<Real>) {
            pack_panel<Real>(reinterpret_cast<const char*>(at + t), weight.type, row, 1, count,
                             std::min<int64_t>(lanes<Real>, deep - t), Real(1), to + t * W);
            const int64_t far = from + t + ahead;
            const Real* next = at + t + (far < depth ? ahead : ahead - depth + W * row);
            for (int64_t lane = 0; lane < count; ++lane) __builtin_prefetch(next + lane * row);
        }
    }
};

template <class Real>
bool linear_with_packed_weights(const Linear& l) {
    constexpr int W = panel<Real>;
    static thread_local KeptMemory memory;  // packed weights are shared by all threads of the job
    const int64_t depth = l.x.shape[3], all = l.weight.shape[2];
    const auto computed = [&](const PackedWeights<Real>& part, const Real* packed, int64_t first) {
        auto compute = [&](int64_t item, void* scratch) { part.compute(packed, first, item, scratch); };
        return run_items(part.row_blocks * part.out_blocks, static_cast<size_t>(part.scratch()) * sizeof(Real),
                         part.cost(), compute);
    };
    if (const PackedWeights<Real> whole(l, all); whole.by_block) return computed(whole, nullptr, 0);
    // About 4 MiB of packed weights at a time.
    const int64_t most = std::max<int64_t>(
        W, ((int64_t(4) << 20) / static_cast<int64_t>(sizeof(Real)) / std::max<int64_t>(1, depth)) / W * W);
    const View& weight = l.weight;
    for (int64_t first = 0; first < all; first += most) {
        const PackedWeights<Real> part(l, std::min(most, all - first));
        auto* packed =
            static_cast<Real*>(memory.at_least(static_cast<size_t>(part.panels() * W * depth) * sizeof(Real)));
        auto pack = [&](int64_t p, void*) {
            pack_panel<Real>(weight.at(0, 0, first + p * W), weight.type, weight.stride[2], weight.stride[3],
                             std::min<int64_t>(W, part.outs - p * W), depth, Real(1), packed + p * W * depth);
        };
        if (!run_items(part.panels(), 0, 8. * static_cast<double>(part.outs * depth), pack)) return false;
        if (!computed(part, packed, first)) return false;
    }
    return true;
}

template <class Real>
bool linear_of(const Linear& l) {
    const int64_t rows = l.x.shape[2], W = panel<Real>;
    if (rows == 0 || l.weight.shape[2] == 0) return true;
    if constexpr (vector_bytes == 64)
        if (PackedWeights<Real>::suits(l)) return linear_with_packed_weights<Real>(l);
    // About 4 MiB of packed rows at a time.
    const int64_t most = std::max<int64_t>(
        96, (int64_t(4) << 20) / static_cast<int64_t>(sizeof(Real)) / std::max<int64_t>(1, l.x.shape[3]));
    const int64_t strips = (rows + most - 1) / most, strip = ((rows + strips - 1) / strips + W - 1) / W * W;
    for (int64_t row = 0; row < rows; row += strip)
        if (!linear_strip<Real>(l, row, std::min(strip, rows - row))) return false;
    return true;
}

bool linear(const Linear& l) {
    const bool wide = l.x.type == Type::f64 || l.weight.type == Type::f64;
    return wide ? linear_of<double>(l) : linear_of<float>(l);
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
