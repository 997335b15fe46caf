// The one file that knows Python: buffers in, kernels called without the interpreter's lock.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "dispatch.h"
#include "pool.h"

namespace nb = nanobind;
using namespace regard;

namespace {

// An array that Python holds, for as long as this object lives. 16-bit integers stand for bfloat16, whose arrays offer
// no buffer of their own.
class Buffer {
    Py_buffer buffer_{};
    bool held_ = false;

  public:
    View view;
    int64_t dimensions = 0;

    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() {
        if (held_) PyBuffer_Release(&buffer_);
    }

    Buffer(nb::handle array, const char* name, bool writable = false) { hold(array, name, writable); }

    void hold(nb::handle array, const char* name, bool writable = false) {
        if (array.is_none()) return;
        if (PyObject_GetBuffer(array.ptr(), &buffer_, writable ? PyBUF_RECORDS : PyBUF_RECORDS_RO) != 0) throw nb::python_error();
        held_ = true;
        if (buffer_.ndim > 4) fail(name, "has more than four axes");
        dimensions = buffer_.ndim;
        view.type = type_of(name);
        const int64_t width = static_cast<int64_t>(bytes_of(view.type));
        view.data = static_cast<char*>(buffer_.buf);
        if (reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(width)) fail(name, "is not aligned");
        for (int64_t axis = 0; axis < dimensions; ++axis) {
            const int64_t to = 4 - dimensions + axis;
            view.shape[to] = buffer_.shape[axis];
            if (buffer_.strides[axis] % width) fail(name, "is not aligned");
            view.stride[to] = buffer_.shape[axis] > 1 ? buffer_.strides[axis] / width : 0;
        }
        // One number a row is as good as neighbouring numbers.
        if (view.shape[3] <= 1) view.stride[3] = 1;
    }

    template <class T>
    T* contiguous(const char* name, int64_t count, std::initializer_list<Type> types) const {
        if (!view) return nullptr;
        bool right = false;
        for (Type type : types) right |= type == view.type;
        if (!right) fail(name, "has another type than the kernel wants");
        int64_t expected = 1;
        for (int axis = 3; axis >= 0; --axis) {
            if (view.shape[axis] > 1 && view.stride[axis] != expected) fail(name, "is not contiguous");
            expected *= view.shape[axis];
        }
        if (expected != count) fail(name, "has another size than the kernel wants");
        return reinterpret_cast<T*>(view.data);
    }

  private:
    [[noreturn]] static void fail(const char* name, const char* what) {
        throw std::invalid_argument("`" + std::string(name) + "` " + what + ".");
    }
    Type type_of(const char* name) const {
        const char* format = buffer_.format ? buffer_.format : "B";
        if (*format == '@' || *format == '=' || *format == '<') ++format;
        if (std::strlen(format) == 1) switch (*format) {
                case 'e': return Type::f16;
                case 'h':
                case 'H': return Type::bf16;
                case 'f': return Type::f32;
                case 'd': return Type::f64;
                case '?':
                case 'B':
                case 'b': return Type::u8;
                case 'i': return Type::i32;
                case 'l':
                case 'q': return sizeof(long) == 8 || *format == 'q' ? Type::i64 : Type::i32;
            }
        fail(name, "has a type that the kernel does not read");
    }
};

[[noreturn]] void shapes(const char* name) {
    throw std::invalid_argument("`" + std::string(name) + "` does not fit the shapes of queries and keys.");
}

bool same(const View& view, int64_t a, int64_t b, int64_t c, int64_t d) {
    return view.shape[0] == a && view.shape[1] == b && view.shape[2] == c && view.shape[3] == d;
}
bool fits(int64_t have, int64_t full) { return have == full || have == 1; }

// Everything that decides the scores, with its arrays held.
struct HeldScores {
    Buffer queries, keys, bias, mask, relative, sinks, first[2], last[2], offset;
    int64_t one_offset = 0;
    Scores scores;

    HeldScores(nb::handle q, nb::handle k, double scale, double softcap, nb::handle bias_, nb::handle mask_,
               nb::handle relative_, int64_t relative_zero, nb::handle sinks_, nb::handle first_, nb::handle last_,
               nb::handle second_first, nb::handle second_last, nb::handle offset_) {
        queries.hold(q, "queries");
        keys.hold(k, "keys");
        scores.queries = queries.view;
        scores.keys = keys.view;
        const View &qv = queries.view, &kv = keys.view;
        if (kv.shape[0] != qv.shape[0] || kv.shape[3] != qv.shape[3] || kv.shape[1] < 1 || qv.shape[1] % kv.shape[1]) shapes("keys");
        if (qv.type != kv.type || qv.type > Type::f64) throw std::invalid_argument("`queries` and `keys` have different types.");
        scores.scale = scale;
        scores.softcap = softcap;
        hold_dense(bias, bias_, "bias", scores.bias);
        if (scores.bias && scores.bias.type > Type::f64) throw std::invalid_argument("`bias` is not of a floating point type.");
        hold_dense(mask, mask_, "mask", scores.mask);
        if (scores.mask && scores.mask.type != Type::u8) throw std::invalid_argument("`mask` is not boolean.");
        hold_relative(relative_, relative_zero);
        sinks.hold(sinks_, "sinks");
        scores.sinks = sinks.contiguous<double>("sinks", scores.heads(), {Type::f64});
        hold_offset(offset_);
        hold_intervals(0, first_, last_);
        hold_intervals(1, second_first, second_last);
        check_relative();
    }

  private:
    void hold_dense(Buffer& buffer, nb::handle array, const char* name, View& to) {
        buffer.hold(array, name);
        to = buffer.view;
        if (!to) return;
        const int64_t full[4] = {scores.batch(), scores.heads(), scores.rows(), scores.columns()};
        for (int axis = 0; axis < 4; ++axis)
            if (!fits(to.shape[axis], full[axis])) shapes(name);
        if (to.shape[3] == 1 && full[3] > 1) to.stride[3] = 0;
    }
    void hold_offset(nb::handle given) {
        if (given.is_none()) return;
        scores.offset = &one_offset;
        if (PyLong_Check(given.ptr())) {
            one_offset = nb::cast<int64_t>(given);
            return;
        }
        offset.hold(given, "offset");
        scores.offset = offset.contiguous<int64_t>("offset", scores.batch(), {Type::i64});
        scores.offset_stride = 1;
    }
    void hold_relative(nb::handle given, int64_t zero) {
        relative.hold(given, "relative");
        View& to = scores.relative;
        to = relative.view;
        if (!to) return;
        const bool wide = queries.view.type == Type::f64;
        if (to.type != (wide ? Type::f64 : Type::f32) || !fits(to.shape[2], scores.heads()) || to.stride[3] != 1) shapes("relative");
        to.stride[0] = to.shape[2] > 1 ? to.stride[2] : 0;  // (head or 1, span): the head's step first
        to.shape[0] = to.shape[2];
        to.shape[1] = to.shape[2] = 1;
        scores.relative_zero = zero;
    }
    void check_relative() const {
        if (!scores.relative) return;
        for (int64_t b = 0; b < (scores.offset_stride ? scores.batch() : 1); ++b) {
            const int64_t at = scores.first_position(b) + scores.relative_zero;
            if (at - (scores.columns() - 1) < 0 || at + scores.rows() - 1 >= scores.relative.shape[3]) shapes("relative");
        }
    }
    void hold_intervals(int which, nb::handle first_, nb::handle last_) {
        if (first_.is_none()) return;
        first[which].hold(first_, "first");
        last[which].hold(last_, "last");
        const int64_t batch = first[which].view.shape[2];
        if (!fits(batch, scores.batch())) shapes("first");
        Intervals& to = scores.visible;
        to.first[which] = first[which].contiguous<int32_t>("first", batch * scores.rows(), {Type::i32});
        to.last[which] = last[which].contiguous<int32_t>("last", batch * scores.rows(), {Type::i32});
        const int64_t step = batch > 1 ? scores.rows() : 0;
        if (which == 1 && step != to.batch) shapes("second_first");
        to.batch = step;
        for (int64_t i = 0; i < batch * scores.rows(); ++i)
            if (to.first[which][i] < to.last[which][i] && (to.first[which][i] < 0 || to.last[which][i] > scores.columns())) shapes("last");
    }
};

bool signal_came() {
    nb::gil_scoped_acquire lock;
    return PyErr_CheckSignals() != 0;
}

// Runs a kernel without the lock; Ctrl-C arrives through the poll and is raised here.
template <class Problem>
void call(bool (*kernel)(const Problem&), const Problem& problem) {
    set_poll(signal_came);
    bool done;
    {
        nb::gil_scoped_release unlocked;
        done = kernel(problem);
    }
    if (!done) throw nb::python_error();
}

const Kernels& kernels() { return *chosen().kernels; }
Type computing(const View& view) { return view.type == Type::f64 ? Type::f64 : Type::f32; }

void forward(const HeldScores& held, nb::handle values, nb::handle output, nb::handle logsumexp, nb::handle entropy,
             nb::handle peak, nb::handle distance, nb::handle top_index, nb::handle top_weight, int64_t top) {
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
    const Buffer l(logsumexp, "logsumexp", true), e(entropy, "entropy", true), p(peak, "peak", true), d(distance, "distance", true);
    const Buffer ti(top_index, "top_index", true), tw(top_weight, "top_weight", true);
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
    call(kernels().forward, f);
}

const double* normaliser_of(const Buffer& buffer, const Scores& s) {
    const auto* numbers = buffer.contiguous<double>("normaliser", s.batch() * s.heads() * s.rows(), {Type::f64});
    if (!numbers) shapes("normaliser");
    return numbers;
}

void backflow(const HeldScores& held, nb::handle normaliser, nb::handle rows, nb::handle output) {
    const Scores& s = held.scores;
    const Buffer n(normaliser, "normaliser"), r(rows, "rows"), out(output, "output", true);
    const Backflow b{s, normaliser_of(n, s), r.view, out.view};
    const int64_t size = b.rows ? b.rows.shape[3] : 1;
    if (b.rows && (!same(b.rows, s.batch(), s.heads(), s.rows(), size) || computing(b.rows) != computing(s.queries))) shapes("rows");
    if (!same(b.output, s.batch(), s.heads(), s.columns(), size) || b.output.type > Type::f64) shapes("output");
    call(kernels().backflow, b);
}

void pooled(const HeldScores& held, nb::handle normaliser, nb::handle row_edges, nb::handle column_edges, bool largest,
            nb::handle output) {
    const Scores& s = held.scores;
    const Buffer n(normaliser, "normaliser"), re(row_edges, "row_edges"), ce(column_edges, "column_edges"), out(output, "output", true);
    Pooled p;
    p.scores = s;
    p.normaliser = normaliser_of(n, s);
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
    p.output = out.contiguous<void*>("output", s.batch() * s.heads() * p.row_cells * p.column_cells, {computing(s.queries)});
    if (!p.output) shapes("output");
    if (p.row_cells && p.column_cells) call(kernels().pooled, p);
}

void tile(const HeldScores& held, nb::handle normaliser, int stage, nb::handle output) {
    const Scores& s = held.scores;
    const Buffer n(normaliser, "normaliser"), out(output, "output", true);
    Tile t;
    t.scores = s;
    if (stage < 0 || stage > 5) throw std::invalid_argument("`stage` is unknown.");
    t.stage = static_cast<Stage>(stage);
    if (t.stage == Stage::weight) t.normaliser = normaliser_of(n, s);
    t.output = out.contiguous<void*>("output", s.batch() * s.heads() * s.rows() * s.columns(), {computing(s.queries)});
    if (!t.output) shapes("output");
    call(kernels().tile, t);
}

void backward(const HeldScores& held, nb::handle values, nb::handle output, nb::handle normaliser, nb::handle flow,
              nb::handle grad_queries, nb::handle grad_keys, nb::handle grad_values, nb::handle grad_bias,
              nb::handle grad_relative, nb::handle grad_sinks) {
    const Scores& s = held.scores;
    const Buffer v(values, "values"), o(output, "output"), n(normaliser, "normaliser"), fl(flow, "flow");
    const Buffer gq(grad_queries, "grad_queries", true), gk(grad_keys, "grad_keys", true), gv(grad_values, "grad_values", true);
    const Buffer gb(grad_bias, "grad_bias", true), gr(grad_relative, "grad_relative", true), gs(grad_sinks, "grad_sinks", true);
    Backward b;
    b.scores = s;
    b.values = v.view;
    b.output = o.view;
    b.flow = fl.view;
    b.normaliser = normaliser_of(n, s);
    const int64_t size = b.values.shape[3];
    const Type real = computing(s.queries);
    if (!b.values || !same(b.values, s.batch(), s.keys.shape[1], s.columns(), size) || computing(b.values) != real) shapes("values");
    if (!same(b.output, s.batch(), s.heads(), s.rows(), size) || !same(b.flow, s.batch(), s.heads(), s.rows(), size)) shapes("flow");
    b.grad_queries = gq.view;
    b.grad_keys = gk.view;
    b.grad_values = gv.view;
    if (!same(gq.view, s.batch(), s.heads(), s.rows(), s.size()) || gq.view.type != real || gq.view.stride[3] != 1) shapes("grad_queries");
    if (!same(gk.view, s.batch(), s.keys.shape[1], s.columns(), s.size()) || gk.view.type != real || gk.view.stride[3] != 1) shapes("grad_keys");
    if (!same(gv.view, s.batch(), s.keys.shape[1], s.columns(), size) || gv.view.type != real || gv.view.stride[3] != 1) shapes("grad_values");
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
        if (!s.relative || gr.view.type != real || gr.view.shape[3] != s.relative.shape[3] || gr.view.shape[2] != s.relative.shape[0]) shapes("grad_relative");
        b.grad_relative.stride[0] = gr.view.shape[2] > 1 ? gr.view.stride[2] : 0;
    }
    b.grad_sinks = gs.contiguous<double>("grad_sinks", s.batch() * s.heads(), {Type::f64});
    call(kernels().backward, b);
}

void linear(nb::handle x, nb::handle weight, nb::handle bias, nb::handle residual, nb::handle output, int activation) {
    const Buffer xb(x, "x"), wb(weight, "weight"), bb(bias, "bias"), rb(residual, "residual"), ob(output, "output", true);
    const Linear l{xb.view, wb.view, bb.view, rb.view, ob.view, static_cast<Activation>(activation)};
    const int64_t rows = l.x.shape[2], in = l.x.shape[3], out = l.weight.shape[2];
    if (l.weight.shape[3] != in || !same(l.output, 1, 1, rows, out)) shapes("weight");
    if (l.bias && l.bias.shape[3] != out) shapes("bias");
    if (l.residual && !same(l.residual, 1, 1, rows, out)) shapes("residual");
    if (activation < 0 || activation > 5) throw std::invalid_argument("`activation` is unknown.");
    for (const View* view : {&l.x, &l.weight, &l.bias, &l.residual, &l.output})
        if (*view && view->type > Type::f64) throw std::invalid_argument("linear wants floating point arrays.");
    call(kernels().linear, l);
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
        if (!fits(view->shape[0], v.shape[0]) || view->shape[1] != 1 || view->shape[2] != v.shape[2] || view->shape[3] * 2 > v.shape[3]) shapes("cosines");
    if (r.cosines.shape[3] != r.sines.shape[3]) shapes("sines");
    call(kernels().rotary, r);
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

// A number that changes with the content, at the speed of memory.
uint64_t fingerprint(nb::handle array) {
    const Buffer buffer(array, "array");
    const View& v = buffer.view;
    const size_t width = bytes_of(v.type);
    uint64_t hash = 0x9e3779b97f4a7c15u;
    // Axes that lie behind each other without a gap are one long row.
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
    m.doc() = "The native engine: arrays in, arrays filled. regard.kernels.native is its face.";
    nb::class_<HeldScores>(m, "Scores")
        .def(nb::init<nb::handle, nb::handle, double, double, nb::handle, nb::handle, nb::handle, int64_t, nb::handle,
                      nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(),
             nb::arg("queries"), nb::arg("keys"), nb::arg("scale"), nb::arg("softcap") = 0.0, nb::arg("bias") = nb::none(),
             nb::arg("mask") = nb::none(), nb::arg("relative") = nb::none(), nb::arg("relative_zero") = 0,
             nb::arg("sinks") = nb::none(), nb::arg("first") = nb::none(), nb::arg("last") = nb::none(),
             nb::arg("second_first") = nb::none(), nb::arg("second_last") = nb::none(), nb::arg("offset") = nb::none());
    m.def("forward", &forward, nb::arg("scores"), nb::arg("values").none(), nb::arg("output").none(),
          nb::arg("logsumexp") = nb::none(), nb::arg("entropy") = nb::none(), nb::arg("peak") = nb::none(),
          nb::arg("distance") = nb::none(), nb::arg("top_index") = nb::none(), nb::arg("top_weight") = nb::none(),
          nb::arg("top") = 0);
    m.def("backflow", &backflow, nb::arg("scores"), nb::arg("normaliser"), nb::arg("rows").none(), nb::arg("output"));
    m.def("pooled", &pooled, nb::arg("scores"), nb::arg("normaliser"), nb::arg("row_edges"), nb::arg("column_edges"),
          nb::arg("largest"), nb::arg("output"));
    m.def("tile", &tile, nb::arg("scores"), nb::arg("normaliser").none(), nb::arg("stage"), nb::arg("output"));
    m.def("backward", &backward, nb::arg("scores"), nb::arg("values"), nb::arg("output"), nb::arg("normaliser"), nb::arg("flow"),
          nb::arg("grad_queries"), nb::arg("grad_keys"), nb::arg("grad_values"), nb::arg("grad_bias") = nb::none(),
          nb::arg("grad_relative") = nb::none(), nb::arg("grad_sinks") = nb::none());
    m.def("linear", &linear, nb::arg("x"), nb::arg("weight"), nb::arg("bias").none(), nb::arg("residual").none(),
          nb::arg("output"), nb::arg("activation") = 0);
    m.def("norm", &norm, nb::arg("x"), nb::arg("weight").none(), nb::arg("bias").none(), nb::arg("output"), nb::arg("epsilon"),
          nb::arg("centred"));
    m.def("rotary", &rotary, nb::arg("x"), nb::arg("cosines"), nb::arg("sines"), nb::arg("output"), nb::arg("interleaved"));
    m.def("fingerprint", &fingerprint, nb::arg("array"));
    m.def("threads", &threads);
    m.def("set_threads", [](int count) {
        if (count < 1 || count > 256) throw std::invalid_argument("`count` is a number of threads from 1 to 256.");
        set_threads(count);
    }, nb::arg("count"));
    m.def("instructions", [] { return std::string(kernels().name); });
    m.def("why", [] { return chosen().why; });
    m.def("compiled", &compiled);
    m.def("runnable", &runnable);
    m.def("machine_limit", [](double seconds) {
        nb::gil_scoped_release unlocked;
        return machine_limit(seconds);
    }, nb::arg("seconds") = 0.5);
}
