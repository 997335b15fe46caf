// Arrays that Python holds, as views for the kernels; for bindings.cpp alone.
#pragma once
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "problem.h"

namespace nb = nanobind;

namespace regard {
namespace {

// A tensor as DLPack describes it, and the table of C functions on PyTorch's class that fills this in for a tensor, in
// a twentieth of the time that a NumPy view of it takes (https://dmlc.github.io/dlpack: the exchange API).
struct Tensor {
    void* data;
    int32_t device, device_number, dimensions;
    uint8_t kind, bits;
    uint16_t lanes;
    const int64_t *shape, *strides;  // strides in elements
    uint64_t byte_offset;
};
struct Exchange {
    uint32_t major, minor;
    const void* older;
    const void *allocate, *managed_from_object, *managed_to_object;
    int (*tensor_from_object)(void* object, Tensor* tensor);
};

// The table of an object's class; null if it has none.
inline const Exchange* exchange_of(nb::handle object) {
    static PyTypeObject* known = nullptr;
    static const Exchange* its_table = nullptr;
    PyTypeObject* type = Py_TYPE(object.ptr());
    if (type == known) return its_table;
    const Exchange* table = nullptr;
    PyObject* capsule = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
    if (capsule) {
        table = static_cast<const Exchange*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
        Py_DECREF(capsule);
    }
    PyErr_Clear();
    if (table && (table->major != 1 || !table->tensor_from_object)) table = nullptr;
    if (table) {
        known = type;
        its_table = table;
    }
    return table;
}

// The memory layout of a NumPy array: the fields that NumPy's C interface guarantees. Getting a buffer of the same
// array takes five times as long, which shows in calls on a few words.
struct NumPyArray {
    struct Kind {
        PyObject object;
        PyObject* scalar;
        char kind, letter, byte_order;
    };
    PyObject object;
    char* data;
    int dimensions;
    Py_ssize_t *shape, *strides;  // strides in bytes
    PyObject* base;
    Kind* kind;
    int flags;

    enum { writable = 0x400 };
};

// NumPy's array class; null if its arrays do not have the expected layout, and buffers must be used.
inline PyTypeObject* numpy_class() {
    static PyTypeObject* known = [] {
        const nb::module_ numpy = nb::module_::import_("numpy");
        const nb::object array = numpy.attr("zeros")(nb::make_tuple(3, 5), "f4");
        const auto* looked = reinterpret_cast<NumPyArray*>(array.ptr());
        const bool expected =
            looked->dimensions == 2 && looked->shape[0] == 3 && looked->shape[1] == 5 && looked->strides[0] == 20 &&
            looked->strides[1] == 4 && looked->kind->letter == 'f' && looked->kind->byte_order == '=' &&
            looked->flags & NumPyArray::writable &&
            nb::cast<uintptr_t>(array.attr("ctypes").attr("data")) == reinterpret_cast<uintptr_t>(looked->data);
        return expected ? reinterpret_cast<PyTypeObject*>(nb::object(numpy.attr("ndarray")).release().ptr()) : nullptr;
    }();
    return known;
}

bool is_contiguous(const View& view) {
    int64_t expected = 1;
    for (int axis = 3; axis >= 0; expected *= view.shape[axis--])
        if (view.shape[axis] > 1 && view.stride[axis] != expected) return false;
    return true;
}

// An array that Python holds, kept alive as long as this object. 16-bit integers stand for bfloat16, whose arrays offer
// no buffer of their own. A misaligned input is copied.
class Buffer {
    Py_buffer buffer_{};
    bool held_ = false;
    nb::object array_;  // if there is no buffer

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
        if (Py_TYPE(array.ptr()) == numpy_class()) return hold_numpy(array, name, writable);
        if (!PyObject_CheckBuffer(array.ptr()))
            if (const Exchange* table = exchange_of(array)) return hold_tensor(array, name, writable, *table);
        if (PyObject_GetBuffer(array.ptr(), &buffer_, writable ? PyBUF_RECORDS : PyBUF_RECORDS_RO) != 0)
            throw nb::python_error();
        held_ = true;
        const char* format = buffer_.format ? buffer_.format : "B";
        if (*format == '@' || *format == '=' || *format == '<') ++format;
        const Type type = type_of(std::strlen(format) == 1 ? *format : '-', name);
        lay_out(buffer_.buf, type, buffer_.ndim, buffer_.shape, buffer_.strides, name);
    }

    template <class T>
    T* contiguous(const char* name, int64_t count, std::initializer_list<Type> types) const {
        if (!view) return nullptr;
        bool right = false;
        for (Type type : types) right |= type == view.type;
        if (!right) fail(name, "does not have the type that the kernel expects");
        const int64_t numbers = view.shape[0] * view.shape[1] * view.shape[2] * view.shape[3];
        if (numbers > 0 && !is_contiguous(view))
            fail(name, "is not contiguous");  // the strides of an empty array mean nothing
        if (numbers != count) fail(name, "does not have the size that the kernel expects");
        return reinterpret_cast<T*>(view.data);
    }

  private:
    void hold_numpy(nb::handle object, const char* name, bool writable) {
        const auto* array = reinterpret_cast<NumPyArray*>(object.ptr());
        if (writable && !(array->flags & NumPyArray::writable)) fail(name, "is read-only");
        const char order = array->kind->byte_order;
        // '<' names this machine's order too, as in a type whose order was changed twice.
        const Type type = type_of(order == '=' || order == '|' || order == '<' ? array->kind->letter : '-', name);
        if (!writable && !aligned(array->data, type, array->dimensions, array->shape, array->strides)) {
            const nb::object copy = object.attr("copy")();
            return hold_numpy(copy, name, writable);
        }
        lay_out(array->data, type, array->dimensions, array->shape, array->strides, name);
        array_ = nb::borrow(object);
    }
    static bool aligned(const void* data, Type type, int axes, const Py_ssize_t* shape, const Py_ssize_t* strides) {
        const auto width = static_cast<Py_ssize_t>(bytes_of(type));
        if (std::find(shape, shape + axes, 0) != shape + axes) return true;  // as NumPy says of every empty array
        if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(width)) return false;
        return std::all_of(strides, strides + axes, [&](Py_ssize_t stride) { return stride % width == 0; });
    }
    void lay_out(void* data, Type type, int axes, const Py_ssize_t* shape, const Py_ssize_t* strides,
                 const char* name) {
        if (axes > 4) fail(name, "has more than four axes");
        dimensions = axes;
        view.type = type;
        const int64_t width = static_cast<int64_t>(bytes_of(type));
        view.data = static_cast<char*>(data);
        if (!aligned(data, type, axes, shape, strides)) fail(name, "is not aligned");
        for (int64_t axis = 0; axis < dimensions; ++axis) {
            const int64_t to = 4 - dimensions + axis;
            view.shape[to] = shape[axis];
            view.stride[to] = shape[axis] > 1 ? strides[axis] / width : 0;
        }
        // A row of one number counts as contiguous; for empty arrays NumPy gives a stride of 0.
        if (view.shape[3] <= 1 || !(view.shape[0] && view.shape[1] && view.shape[2])) view.stride[3] = 1;
    }
    void hold_tensor(nb::handle object, const char* name, bool writable, const Exchange& table) {
        Tensor tensor{};
        if (table.tensor_from_object(object.ptr(), &tensor) != 0) throw nb::python_error();
        if (tensor.device != 1) fail(name, "is not in the memory of the CPU");
        if (tensor.dimensions > 4) fail(name, "has more than four axes");
        dimensions = tensor.dimensions;
        view.type = type_of(tensor, name);
        view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
        if (reinterpret_cast<uintptr_t>(view.data) % bytes_of(view.type)) {
            if (writable) fail(name, "is not aligned");
            const nb::object copy = object.attr("clone")();
            return hold_tensor(copy, name, writable, table);
        }
        array_ = nb::borrow(object);
        for (int64_t axis = 0; axis < dimensions; ++axis) {
            const int64_t to = 4 - dimensions + axis;
            view.shape[to] = tensor.shape[axis];
            view.stride[to] = tensor.shape[axis] > 1 ? tensor.strides[axis] : 0;
        }
        if (view.shape[3] <= 1) view.stride[3] = 1;
        if (tensor.data) return;
        for (int64_t count : view.shape)
            if (!count) {  // an empty tensor has no memory, but a given array has an address
                static char nowhere[8];
                view.data = nowhere;
                return;
            }
        fail(name, "has no memory");
    }
    static Type type_of(const Tensor& tensor, const char* name) {
        enum { integer = 0, floating = 2, bfloat = 4, boolean = 6 };
        const int bits = tensor.bits;
        if (tensor.kind == floating && bits == 32) return Type::f32;
        if (tensor.kind == floating && bits == 64) return Type::f64;
        if (tensor.kind == floating && bits == 16) return Type::f16;
        if (tensor.kind == bfloat && bits == 16) return Type::bf16;
        if (tensor.kind == boolean && bits == 8) return Type::u8;
        if (tensor.kind == integer && bits == 32) return Type::i32;
        if (tensor.kind == integer && bits == 64) return Type::i64;
        fail(name, "has a type that the kernel cannot read");
    }
    [[noreturn]] static void fail(const char* name, const char* what) {
        throw std::invalid_argument("`" + std::string(name) + "` " + what + ".");
    }
    // By the type letter that Python's and NumPy's formats share.
    static Type type_of(char letter, const char* name) {
        switch (letter) {
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
            case 'q': return sizeof(long) == 8 || letter == 'q' ? Type::i64 : Type::i32;
            default: fail(name, "has a type that the kernel cannot read");
        }
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
        if (kv.shape[0] != qv.shape[0] || kv.shape[3] != qv.shape[3] || kv.shape[1] < 1 || qv.shape[1] % kv.shape[1])
            shapes("keys");
        if (qv.type != kv.type || qv.type > Type::f64)
            throw std::invalid_argument("`queries` and `keys` have different types.");
        scores.scale = scale;
        scores.softcap = softcap;
        hold_dense(bias, bias_, "bias", scores.bias);
        if (scores.bias && scores.bias.type > Type::f64)
            throw std::invalid_argument("`bias` is not of a floating point type.");
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
            if (to.first[which][i] < to.last[which][i] &&
                (to.first[which][i] < 0 || to.last[which][i] > scores.columns()))
                shapes("last");
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
        if (to.type != (wide ? Type::f64 : Type::f32) || !fits(to.shape[2], scores.heads()) || to.stride[3] != 1)
            shapes("relative");
        to.stride[0] = to.shape[2] > 1 ? to.stride[2] : 0;  // (head or 1, span): the head's step first
        to.shape[0] = to.shape[2];
        to.shape[1] = to.shape[2] = 1;
        scores.relative_zero = zero;
    }
    void check_relative() const {
        if (!scores.relative) return;
        for (int64_t b = 0; b < (scores.offset_stride ? scores.batch() : 1); ++b) {
            const int64_t at = scores.first_position(b) + scores.relative_zero;
            if (at - (scores.columns() - 1) < 0 || at + scores.rows() - 1 >= scores.relative.shape[3])
                shapes("relative");
        }
    }
};

}  // namespace
}  // namespace regard
