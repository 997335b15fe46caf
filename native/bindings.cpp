// The Python module: takes arrays, calls kernels without the interpreter's lock.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "direct.h"
#include "dispatch.h"
#include "pool.h"

namespace nb = nanobind;
using namespace regard;

namespace {

bool signal_came() {
    nb::gil_scoped_acquire lock;
    return PyErr_CheckSignals() != 0;
}

// Runs a kernel without the interpreter's lock, or with it if the work takes less time than giving the lock away and
// taking it back. Ctrl-C arrives through the poll and is raised here.
template <class Problem>
void call(bool (*kernel)(const Problem&), const Problem& problem, bool is_short = false) {
    set_poll(signal_came);
    bool done;
    if (is_short) {
        done = kernel(problem);
    } else {
        nb::gil_scoped_release unlocked;
        done = kernel(problem);
    }
    if (!done) throw nb::python_error();
}

const Kernels& kernels() { return *chosen().kernels; }
Type computing(const View& view) { return view.type == Type::f64 ? Type::f64 : Type::f32; }

void forward(const HeldScores& held, nb::handle values, nb::handle output, nb::handle row_max, nb::handle row_sum,
             nb::handle logsumexp, nb::handle entropy, nb::handle peak, nb::handle distance, nb::handle top_index,
             nb::handle top_weight, int64_t top) {
    const Scores& s = held.scores;
    Forward f{s, {}, {}, {}};
    const Buffer v(values, "values"), out(output, "output", true);
    f.values = v.view;
    f.output = out.view;
    if (bool(f.values) != bool(f.output)) shapes("output");
    if (f.values && !same(f.values, s.batch(), s.keys.shape[1], s.columns(), f.values.shape[3])) shapes("values");
    if (f.values && (!same(f.output, s.batch(), s.heads(), s.rows(), f.values.shape[3]) || f.output.type > Type::f64 ||
                     f.values.type > Type::f64 || computing(f.values) != computing(s.queries)))
        shapes("output");
    const int64_t lines = s.batch() * s.heads() * s.rows();
    const Type real = computing(s.queries);
    const Buffer rm(row_max, "row_max", true), rs(row_sum, "row_sum", true);
    const Buffer l(logsumexp, "logsumexp", true), e(entropy, "entropy", true), p(peak, "peak", true),
        d(distance, "distance", true);
    const Buffer ti(top_index, "top_index", true), tw(top_weight, "top_weight", true);
    f.rows.row_max = rm.contiguous<void*>("row_max", lines, {real});
    f.rows.row_sum = rs.contiguous<void*>("row_sum", lines, {real});
    f.rows.logsumexp = l.contiguous<double>("logsumexp", lines, {Type::f64});
    f.rows.entropy = e.contiguous<void*>("entropy", lines, {real});
    f.rows.peak = p.contiguous<void*>("peak", lines, {real});
    f.rows.distance = d.contiguous<void*>("distance", lines, {real});
    f.rows.top = top;
    if (top > 0) {
        f.rows.top_index = ti.contiguous<int64_t>("top_index", lines * top, {Type::i64});
        f.rows.top_weight = tw.contiguous<void*>("top_weight", lines * top, {real});
        if (!f.rows.top_index || !f.rows.top_weight) shapes("top_index");
    }
    constexpr int64_t few_scores = 4096;  // 10 µs
    call(kernels().forward, f, lines * s.columns() <= few_scores);
}

// A new array for outputs (batch, head, query, size), in the axes, the dtype and the library of `rows`. If the heads of
// a token are contiguous in a NumPy array, they are in the outputs too: concatenating them is then a view.
nb::object outputs_like(nb::handle rows, const Buffer& buffer, int64_t size) {
    const View& v = buffer.view;
    const bool is_numpy = PyObject_CheckBuffer(rows.ptr());
    int64_t heads = v.shape[1], tokens = v.shape[2];
    const bool by_token = is_numpy && heads > 1 && tokens > 1 && v.stride[1] < v.stride[2];
    if (by_token) std::swap(heads, tokens);
    const auto shape = [&]() -> nb::object {
        if (buffer.dimensions == 4) return nb::make_tuple(v.shape[0], heads, tokens, size);
        return buffer.dimensions == 3 ? nb::make_tuple(heads, tokens, size) : nb::make_tuple(tokens, size);
    };
    const auto function = [](const char* module, const char* name) {
        return nb::handle(nb::object(nb::module_::import_(module).attr(name)).release());
    };
    if (!is_numpy) {
        static const nb::handle empty_like = function("torch", "empty_like"), empty = function("torch", "empty");
        if (size == v.shape[3] && is_contiguous(v)) return empty_like(rows);  // a microsecond less
        return empty(shape(), nb::arg("dtype") = rows.attr("dtype"));
    }
    static const nb::handle small = function("numpy", "empty"), large = function("regard.engines.memory", "empty");
    static const nb::handle single = nb::object(nb::module_::import_("numpy").attr("dtype")("f4")).release();
    constexpr int64_t reused = 1 << 18;  // bytes: memory.LEAST
    const bool is_small = v.shape[0] * heads * tokens * size * static_cast<int64_t>(bytes_of(v.type)) < reused;
    const nb::object dtype = v.type == Type::f32 ? nb::borrow(single) : nb::object(rows.attr("dtype"));
    nb::object made = (is_small ? small : large)(shape(), dtype);
    return by_token ? nb::object(made.attr("swapaxes")(-3, -2)) : made;
}

// Whether queries and keys are plain arrays of the same floating point type and of compatible shapes, so that
// `Attention` needs no further check of them.
bool are_usual(nb::handle queries, nb::handle keys) {
    if (!all_plain({queries, keys})) return false;
    const bool is_numpy = Py_TYPE(queries.ptr()) == numpy_class();
    Buffer q, k;
    if (!holds(q, queries, "queries") || !holds(k, keys, "keys")) return false;
    return q.view.type == k.view.type && is_floating(q, is_numpy) && are_compatible(q, k);
}

// `Attention(queries, keys) @ values` with no option but a mask of one interval per query: checks, allocates and
// computes in one call, because Python around a few words takes longer than the kernel. Arrays keep their two to four
// axes. None if they need more than this: conversion, gradients, another library.
nb::object product(nb::handle queries, nb::handle keys, nb::handle values, nb::handle mask) {
    const nb::object none = nb::none();
    if (!all_plain({queries, keys, values})) return none;
    const bool is_numpy = Py_TYPE(queries.ptr()) == numpy_class();
    if (!is_numpy) {
        const Torch& torch = *Torch::loaded();
        if (torch.differentiates({values, queries, keys})) return none;
        if (torch.is_negated(queries) || torch.is_negated(keys) || torch.is_negated(values)) return none;
    }
    HeldScores held(queries, keys, 1, 0, none, none, none, 0, none, none, none, none, none, none);
    if (!mask.is_none()) {
        const auto& intervals = KeptIntervals::of(mask, held.scores.rows(), held.scores.columns());
        if (!intervals.usable) return none;
        held.hold_intervals(0, intervals.first, intervals.last);
    }
    held.scores.scale = std::pow(static_cast<double>(held.scores.size()), -0.5);  // the same bits as in Python
    Buffer v;
    if (!holds(v, values, "values")) return none;
    const View &k = held.keys.view, &w = v.view;
    if (w.type != k.type || v.dimensions != held.keys.dimensions ||
        !same(w, k.shape[0], k.shape[1], k.shape[2], w.shape[3]))
        return none;
    const nb::object output = outputs_like(queries, held.queries, w.shape[3]);
    forward(held, values, output, none, none, none, none, none, none, none, none, 0);
    return output;
}

// Row state from Python: two arrays of the computing type.
struct HeldState {
    Buffer row_max, row_sum;
    RowState state;

    HeldState(nb::handle row_max_given, nb::handle row_sum_given, const Scores& s, bool needed = true)
        : row_max(row_max_given, "row_max"), row_sum(row_sum_given, "row_sum") {
        const int64_t lines = s.batch() * s.heads() * s.rows();
        state.row_max = row_max.contiguous<void*>("row_max", lines, {computing(s.queries)});
        state.row_sum = row_sum.contiguous<void*>("row_sum", lines, {computing(s.queries)});
        if (needed && !state.row_max) shapes("row_max");
        if (needed && !state.row_sum) shapes("row_sum");
    }
};

void backflow(const HeldScores& held, nb::handle row_max, nb::handle row_sum, nb::handle rows, nb::handle output) {
    const Scores& s = held.scores;
    const HeldState state(row_max, row_sum, s);
    const Buffer r(rows, "rows"), out(output, "output", true);
    const Backflow b{s, state.state, r.view, out.view};
    const int64_t size = b.rows ? b.rows.shape[3] : 1;
    if (b.rows && (!same(b.rows, s.batch(), s.heads(), s.rows(), size) || computing(b.rows) != computing(s.queries)))
        shapes("rows");
    if (!same(b.output, s.batch(), s.heads(), s.columns(), size) || b.output.type > Type::f64) shapes("output");
    call(kernels().backflow, b);
}

void pooled(const HeldScores& held, nb::handle row_max, nb::handle row_sum, nb::handle row_edges,
            nb::handle column_edges, bool largest, nb::handle output) {
    const Scores& s = held.scores;
    const HeldState state(row_max, row_sum, s);
    const Buffer re(row_edges, "row_edges"), ce(column_edges, "column_edges"), out(output, "output", true);
    Pooled p;
    p.scores = s;
    p.state = state.state;
    p.row_cells = re.view.shape[3] - 1;
    p.column_cells = ce.view.shape[3] - 1;
    p.row_edges = re.contiguous<int64_t>("row_edges", p.row_cells + 1, {Type::i64});
    p.column_edges = ce.contiguous<int64_t>("column_edges", p.column_cells + 1, {Type::i64});
    const auto rising = [](const int64_t* edges, int64_t cells, int64_t end) {
        if (!edges || cells < 0 || edges[0] < 0 || edges[cells] > end) return false;
        for (int64_t c = 0; c < cells; ++c)
            if (edges[c] > edges[c + 1]) return false;
        return true;
    };
    if (!rising(p.row_edges, p.row_cells, s.rows())) shapes("row_edges");
    if (!rising(p.column_edges, p.column_cells, s.columns())) shapes("column_edges");
    p.pool = largest ? Pool::max : Pool::sum;
    p.output =
        out.contiguous<void*>("output", s.batch() * s.heads() * p.row_cells * p.column_cells, {computing(s.queries)});
    if (!p.output) shapes("output");
    if (p.row_cells && p.column_cells) call(kernels().pooled, p);
}

void tile(const HeldScores& held, nb::handle row_max, nb::handle row_sum, int stage, nb::handle output) {
    const Scores& s = held.scores;
    const Buffer out(output, "output", true);
    Tile t;
    t.scores = s;
    if (stage < 0 || stage > 5) throw std::invalid_argument("`stage` is unknown.");
    t.stage = static_cast<Stage>(stage);
    const HeldState state(row_max, row_sum, s, t.stage == Stage::weight);
    t.state = state.state;
    t.output = out.contiguous<void*>("output", s.batch() * s.heads() * s.rows() * s.columns(), {computing(s.queries)});
    if (!t.output) shapes("output");
    call(kernels().tile, t);
}

void backward(const HeldScores& held, nb::handle values, nb::handle output, nb::handle row_max, nb::handle row_sum,
              nb::handle flow, nb::handle grad_queries, nb::handle grad_keys, nb::handle grad_values,
              nb::handle grad_bias, nb::handle grad_relative, nb::handle grad_sinks) {
    const Scores& s = held.scores;
    const Buffer v(values, "values"), o(output, "output"), fl(flow, "flow");
    const HeldState state(row_max, row_sum, s);
    const Buffer gq(grad_queries, "grad_queries", true), gk(grad_keys, "grad_keys", true),
        gv(grad_values, "grad_values", true);
    const Buffer gb(grad_bias, "grad_bias", true), gr(grad_relative, "grad_relative", true),
        gs(grad_sinks, "grad_sinks", true);
    Backward b;
    b.scores = s;
    b.values = v.view;
    b.output = o.view;
    b.flow = fl.view;
    b.state = state.state;
    const int64_t size = b.values.shape[3];
    const Type real = computing(s.queries);
    if (!b.values || !same(b.values, s.batch(), s.keys.shape[1], s.columns(), size) || computing(b.values) != real)
        shapes("values");
    if (!same(b.output, s.batch(), s.heads(), s.rows(), size) || !same(b.flow, s.batch(), s.heads(), s.rows(), size))
        shapes("flow");
    b.grad_queries = gq.view;
    b.grad_keys = gk.view;
    b.grad_values = gv.view;
    if (!same(gq.view, s.batch(), s.heads(), s.rows(), s.size()) || gq.view.type != real || gq.view.stride[3] != 1)
        shapes("grad_queries");
    if (!same(gk.view, s.batch(), s.keys.shape[1], s.columns(), s.size()) || gk.view.type != real ||
        gk.view.stride[3] != 1)
        shapes("grad_keys");
    if (!same(gv.view, s.batch(), s.keys.shape[1], s.columns(), size) || gv.view.type != real || gv.view.stride[3] != 1)
        shapes("grad_values");
    if (gb.view) {
        b.grad_bias = gb.view;
        const int64_t full[4] = {s.batch(), s.heads(), s.rows(), s.columns()};
        for (int axis = 0; axis < 4; ++axis)
            if (!fits(gb.view.shape[axis], full[axis])) shapes("grad_bias");
        if (gb.view.shape[3] == 1) b.grad_bias.stride[3] = full[3] > 1 ? 0 : 1;
        if (gb.view.type != real) shapes("grad_bias");
    }
    if (gr.view) {
        b.grad_relative = gr.view;
        if (!s.relative || gr.view.type != real || gr.view.shape[3] != s.relative.shape[3] ||
            gr.view.shape[2] != s.relative.shape[0])
            shapes("grad_relative");
        b.grad_relative.stride[0] = gr.view.shape[2] > 1 ? gr.view.stride[2] : 0;
    }
    b.grad_sinks = gs.contiguous<double>("grad_sinks", s.batch() * s.heads(), {Type::f64});
    call(kernels().backward, b);
}

void linear(nb::handle x, nb::handle weight, nb::handle bias, nb::handle residual, nb::handle output, int activation,
            nb::handle times) {
    const Buffer xb(x, "x"), wb(weight, "weight"), bb(bias, "bias"), tb(times, "times"), rb(residual, "residual"),
        ob(output, "output", true);
    const Linear l{xb.view, wb.view, bb.view, tb.view, rb.view, ob.view, static_cast<Activation>(activation)};
    const int64_t rows = l.x.shape[2], in = l.x.shape[3], out = l.weight.shape[2];
    if (l.weight.shape[3] != in || !same(l.output, 1, 1, rows, out)) shapes("weight");
    if (l.bias && l.bias.shape[3] != out) shapes("bias");
    if (l.times && !same(l.times, 1, 1, rows, out)) shapes("times");
    if (l.residual && !same(l.residual, 1, 1, rows, out)) shapes("residual");
    if (activation < 0 || activation > static_cast<int>(Activation::quick_gelu))
        throw std::invalid_argument("`activation` is unknown.");
    for (const View* view : {&l.x, &l.weight, &l.bias, &l.times, &l.residual, &l.output})
        if (*view && view->type > Type::f64) throw std::invalid_argument("linear takes floating point arrays.");
    call(kernels().linear, l);
}

void activate(nb::handle x, nb::handle output, int activation, nb::handle flow) {
    const Buffer xb(x, "x"), fb(flow, "flow"), ob(output, "output", true);
    const Activate a{xb.view, fb.view, ob.view, static_cast<Activation>(activation)};
    if (activation < static_cast<int>(Activation::gelu) || activation > static_cast<int>(Activation::quick_gelu) ||
        a.activation == Activation::tanh)
        throw std::invalid_argument("`activation` is unknown.");
    for (const View* view : {&a.x, &a.flow, &a.output})
        if (*view && (!same(*view, 1, 1, 1, a.x.shape[3]) || (a.x.shape[3] > 1 && view->stride[3] != 1) ||
                      view->type != a.x.type || (a.x.type != Type::f32 && a.x.type != Type::f64)))
            shapes("x");
    call(kernels().activate, a);
}

void norm(nb::handle x, nb::handle weight, nb::handle bias, nb::handle output, double epsilon, bool centred) {
    const Buffer xb(x, "x"), wb(weight, "weight"), bb(bias, "bias"), ob(output, "output", true);
    const Norm n{xb.view, wb.view, bb.view, ob.view, epsilon, centred};
    if (!same(n.output, 1, 1, n.x.shape[2], n.x.shape[3]) || n.x.shape[0] != 1 || n.x.shape[1] != 1) shapes("output");
    if (n.weight && n.weight.shape[3] != n.x.shape[3]) shapes("weight");
    if (n.bias && n.bias.shape[3] != n.x.shape[3]) shapes("bias");
    call(kernels().norm, n);
}

void rotary(nb::handle x, nb::handle cosines, nb::handle sines, nb::handle output, bool interleaved) {
    const Buffer xb(x, "x"), cb(cosines, "cosines"), sb(sines, "sines"), ob(output, "output", true);
    const Rotary r{xb.view, ob.view, cb.view, sb.view, interleaved};
    const View& v = r.x;
    if (!same(r.output, v.shape[0], v.shape[1], v.shape[2], v.shape[3])) shapes("output");
    for (const View* view : {&r.cosines, &r.sines})
        if (!fits(view->shape[0], v.shape[0]) || view->shape[1] != 1 || view->shape[2] != v.shape[2] ||
            view->shape[3] * 2 > v.shape[3])
            shapes("cosines");
    if (r.cosines.shape[3] != r.sines.shape[3]) shapes("sines");
    call(kernels().rotary, r);
}

void vector_lengths(nb::handle vectors, nb::handle grams, nb::handle lengths) {
    const Buffer v(vectors, "vectors"), g(grams, "grams"), o(lengths, "lengths", true);
    Lengths l{v.view, nullptr, g.view.shape[1], nullptr};
    const int64_t size = v.view.shape[3];
    if (v.view.type != Type::f32 || v.view.stride[3] != 1 || v.view.shape[0] != 1 || v.view.shape[1] < 1 ||
        l.heads % v.view.shape[1])
        shapes("vectors");
    l.grams = g.contiguous<float>("grams", l.heads * size * size, {Type::f32});
    l.lengths = o.contiguous<float>("lengths", l.heads * v.view.shape[2], {Type::f32});
    call(kernels().lengths, l);
}

// Each text's numbers must be a permutation of its positions: then following them returns to the start.
void check_circles(const int32_t* next, int64_t texts, int64_t keys) {
    std::vector<bool> met;
    for (int64_t text = 0; text < texts; ++text, next += keys) {
        met.assign(static_cast<size_t>(keys), false);
        for (int64_t key = 0; key < keys; ++key) {
            if (next[key] < 0 || next[key] >= keys || met[static_cast<size_t>(next[key])]) shapes("same_token");
            met[static_cast<size_t>(next[key])] = true;
        }
    }
}

// What heads do, from weights (text, head, row, key).
void head_sums(nb::handle weights, nb::handle entropy, nb::handle distance, nb::handle norms, nb::handle flags,
               nb::handle same_token, nb::handle same_word, nb::tuple settings, nb::handle sums, nb::handle received) {
    const Buffer w(weights, "weights"), e(entropy, "entropy"), d(distance, "distance"), n(norms, "norms"),
        f(flags, "flags"), st(same_token, "same_token"), sw(same_word, "same_word"), s(sums, "sums", true),
        r(received, "received", true);
    HeadSums h{};
    h.texts = w.view.shape[0], h.heads = w.view.shape[1], h.rows = w.view.shape[2], h.keys = w.view.shape[3];
    const int64_t heads = h.texts * h.heads, tokens = h.texts * h.keys;
    h.weights = w.contiguous<float>("weights", heads * h.rows * h.keys, {Type::f32});
    h.entropy = e.contiguous<float>("entropy", heads * h.rows, {Type::f32});
    h.distance = d.contiguous<float>("distance", heads * h.rows, {Type::f32});
    h.norms = n.contiguous<float>("norms", heads * h.keys, {Type::f32});
    h.flags = f.contiguous<uint8_t>("flags", tokens, {Type::u8});
    h.same_token = st.contiguous<int32_t>("same_token", tokens, {Type::i32});
    h.same_word = sw.contiguous<int32_t>("same_word", tokens, {Type::i32});
    h.sums = s.contiguous<double>("sums", heads * 2 * statistic_count, {Type::f64});
    h.received = r.contiguous<double>("received", heads * h.keys, {Type::f64});
    h.first = nb::cast<int64_t>(settings[0]);
    h.causal = nb::cast<bool>(settings[1]);
    h.window = nb::cast<int64_t>(settings[2]);
    h.long_enough = nb::cast<int64_t>(settings[3]);
    h.fewest = nb::cast<int64_t>(settings[4]);
    if (h.first < 0 || h.first + h.rows > h.keys) shapes("weights");
    for (const int32_t* next : {h.same_token, h.same_word}) check_circles(next, h.texts, h.keys);
    call(kernels().head_sums, h);
}

void strongest_links(nb::handle weights, nb::handle may, int64_t first, nb::handle best, nb::handle best_weight) {
    const Buffer w(weights, "weights"), m(may, "may"), b(best, "best", true), bw(best_weight, "best_weight", true);
    StrongestLinks s{};
    s.texts = w.view.shape[0], s.heads = w.view.shape[1], s.rows = w.view.shape[2], s.keys = w.view.shape[3];
    const int64_t lines = s.texts * s.heads * s.rows;
    s.weights = w.contiguous<float>("weights", lines * s.keys, {Type::f32});
    s.may = m.contiguous<uint8_t>("may", s.texts * s.keys, {Type::u8});
    s.first = first;
    s.best = b.contiguous<int32_t>("best", lines, {Type::i32});
    s.best_weight = bw.contiguous<float>("best_weight", lines, {Type::f32});
    if (first < 0 || first + s.rows > s.keys) shapes("weights");
    call(kernels().strongest_links, s);
}

void word_choices(nb::handle weights, nb::handle edges, nb::handle counts, nb::handle aside, nb::handle best) {
    const Buffer w(weights, "weights"), e(edges, "edges"), c(counts, "counts"), a(aside, "aside"),
        b(best, "best", true);
    WordChoices o{};
    o.texts = w.view.shape[0], o.heads = w.view.shape[1], o.keys = w.view.shape[3], o.words = e.view.shape[3] - 1;
    o.weights = w.contiguous<float>("weights", o.texts * o.heads * o.keys * o.keys, {Type::f32});
    o.edges = e.contiguous<int32_t>("edges", o.texts * (o.words + 1), {Type::i32});
    o.counts = c.contiguous<int32_t>("counts", o.texts, {Type::i32});
    o.aside = a.contiguous<uint8_t>("aside", o.texts * o.words, {Type::u8});
    o.best = b.contiguous<int32_t>("best", o.texts * o.heads * o.words, {Type::i32});
    for (int64_t text = 0; text < o.texts; ++text) {
        const int32_t* edge = o.edges + text * (o.words + 1);
        const int64_t count = o.counts[text];
        if (count < 0 || count > o.words || edge[0] < 0 || edge[count] > o.keys) shapes("edges");
        for (int64_t word = 0; word < count; ++word)
            if (edge[word] > edge[word + 1]) shapes("edges");
    }
    call(kernels().word_choices, o);
}

// Four sums that mix every 8 bytes with their place, side by side so that the multiplications overlap.
uint64_t mixed(const char* from, size_t bytes, uint64_t hash) {
    uint64_t lane[4] = {hash, hash ^ 2, hash ^ 3, hash ^ 4};
    size_t i = 0;
    for (; i + 32 <= bytes; i += 32)
        for (size_t k = 0; k < 4; ++k) {
            uint64_t word;
            std::memcpy(&word, from + i + 8 * k, 8);
            lane[k] = (lane[k] ^ word) * 0xff51afd7ed558ccdu;
            lane[k] ^= lane[k] >> 32;
        }
    for (; i < bytes; ++i) lane[0] = (lane[0] ^ static_cast<unsigned char>(from[i])) * 0xff51afd7ed558ccdu;
    for (uint64_t part : lane) hash = ((hash ^ part) * 0xc4ceb9fe1a85ec53u) ^ (hash >> 29);
    return hash;
}

// A hash of the content, at the speed of memory.
uint64_t fingerprint(nb::handle array) {
    const Buffer buffer(array, "array");
    const View& v = buffer.view;
    const size_t width = bytes_of(v.type);
    uint64_t hash = 0x9e3779b97f4a7c15u;
    // Contiguous axes are one long row.
    int64_t row = v.shape[3];
    int outer = 3;
    if (v.stride[3] == 1)
        while (outer > 0 && (v.shape[outer - 1] <= 1 || v.stride[outer - 1] == row)) row *= v.shape[--outer];
    int64_t count[3] = {1, 1, 1};
    for (int axis = 0; axis < outer; ++axis) count[axis] = v.shape[axis];
    nb::gil_scoped_release unlocked;
    for (int64_t a = 0; a < count[0]; ++a)
        for (int64_t b = 0; b < count[1]; ++b)
            for (int64_t c = 0; c < count[2]; ++c) {
                const char* from = v.at(a, b, c);
                if (v.stride[3] == 1) {
                    hash = mixed(from, static_cast<size_t>(row) * width, hash);
                    continue;
                }
                for (int64_t d = 0; d < v.shape[3]; ++d)
                    hash = mixed(from + d * v.stride[3] * static_cast<int64_t>(width), width, hash);
            }
    return hash;
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "The native engine: takes arrays and fills arrays. regard.engines.native is its interface.";
    nb::class_<HeldScores>(m, "Scores")
        .def(nb::init<nb::handle, nb::handle, double, double, nb::handle, nb::handle, nb::handle, int64_t, nb::handle,
                      nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(),
             nb::arg("queries"), nb::arg("keys"), nb::arg("scale"), nb::arg("softcap") = 0.0,
             nb::arg("bias") = nb::none(), nb::arg("mask") = nb::none(), nb::arg("relative") = nb::none(),
             nb::arg("relative_zero") = 0, nb::arg("sinks") = nb::none(), nb::arg("first") = nb::none(),
             nb::arg("last") = nb::none(), nb::arg("second_first") = nb::none(), nb::arg("second_last") = nb::none(),
             nb::arg("offset") = nb::none());
    m.def("forward", &forward, nb::arg("scores"), nb::arg("values").none(), nb::arg("output").none(),
          nb::arg("row_max") = nb::none(), nb::arg("row_sum") = nb::none(), nb::arg("logsumexp") = nb::none(),
          nb::arg("entropy") = nb::none(), nb::arg("peak") = nb::none(), nb::arg("distance") = nb::none(),
          nb::arg("top_index") = nb::none(), nb::arg("top_weight") = nb::none(), nb::arg("top") = 0);
    m.def("are_usual", &are_usual, nb::arg().none(), nb::arg().none());
    m.def("product", &product, nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none());
    m.def("backflow", &backflow, nb::arg("scores"), nb::arg("row_max"), nb::arg("row_sum"), nb::arg("rows").none(),
          nb::arg("output"));
    m.def("pooled", &pooled, nb::arg("scores"), nb::arg("row_max"), nb::arg("row_sum"), nb::arg("row_edges"),
          nb::arg("column_edges"), nb::arg("largest"), nb::arg("output"));
    m.def("tile", &tile, nb::arg("scores"), nb::arg("row_max").none(), nb::arg("row_sum").none(), nb::arg("stage"),
          nb::arg("output"));
    m.def("backward", &backward, nb::arg("scores"), nb::arg("values"), nb::arg("output"), nb::arg("row_max"),
          nb::arg("row_sum"), nb::arg("flow"), nb::arg("grad_queries"), nb::arg("grad_keys"), nb::arg("grad_values"),
          nb::arg("grad_bias") = nb::none(), nb::arg("grad_relative") = nb::none(), nb::arg("grad_sinks") = nb::none());
    m.def("linear", &linear, nb::arg("x"), nb::arg("weight"), nb::arg("bias").none(), nb::arg("residual").none(),
          nb::arg("output"), nb::arg("activation") = 0, nb::arg("times") = nb::none());
    m.def("activate", &activate, nb::arg("x"), nb::arg("output"), nb::arg("activation"), nb::arg("flow") = nb::none());
    m.def("norm", &norm, nb::arg("x"), nb::arg("weight").none(), nb::arg("bias").none(), nb::arg("output"),
          nb::arg("epsilon"), nb::arg("centred"));
    m.def("rotary", &rotary, nb::arg("x"), nb::arg("cosines"), nb::arg("sines"), nb::arg("output"),
          nb::arg("interleaved"));
    m.def("vector_lengths", &vector_lengths, nb::arg("vectors"), nb::arg("grams"), nb::arg("lengths"));
    m.def("head_sums", &head_sums, nb::arg("weights"), nb::arg("entropy"), nb::arg("distance"), nb::arg("norms"),
          nb::arg("flags"), nb::arg("same_token"), nb::arg("same_word"), nb::arg("settings"), nb::arg("sums"),
          nb::arg("received"));
    m.def("strongest_links", &strongest_links, nb::arg("weights"), nb::arg("may"), nb::arg("first"), nb::arg("best"),
          nb::arg("best_weight"));
    m.def("word_choices", &word_choices, nb::arg("weights"), nb::arg("edges"), nb::arg("counts"), nb::arg("aside"),
          nb::arg("best"));
    m.def("fingerprint", &fingerprint, nb::arg("array"));
    m.attr("takes_tensors") = true;  // CPU tensors of PyTorch 2.10 and later, wherever arrays are taken
    m.def("threads", &threads);
    m.def(
        "set_threads",
        [](int count) {
            if (count < 1 || count > 256) throw std::invalid_argument("`count` is a number of threads from 1 to 256.");
            set_threads(count);
        },
        nb::arg("count"));
    m.def(
        "set_team",
        [](uintptr_t parallel, uintptr_t most) {
            set_team(reinterpret_cast<Parallel>(parallel), reinterpret_cast<int (*)()>(most));
        },
        nb::arg("parallel"), nb::arg("most"));
    m.def("borrow_team", &borrow_team, nb::arg("borrows"));
    m.def("instructions", [] { return std::string(kernels().name); });
    m.def("why", [] { return chosen().why; });
    m.def("compiled", &compiled);
    m.def("runnable", &runnable);
    m.def(
        "machine_limit",
        [](double seconds) {
            nb::gil_scoped_release unlocked;
            return machine_limit(seconds);
        },
        nb::arg("seconds") = 0.5);
}
