// Which arrays may go from `Attention` straight to the kernel: the checks that Python would make one attribute at a
// time, which for a few words takes longer than the kernel. For bindings.cpp alone.
#pragma once
#include "buffers.h"

namespace regard {
namespace {

// What is asked of PyTorch, looked up once. Null as long as PyTorch is not loaded.
class Torch {
    PyObject *grad_enabled_, *transforms_active_, *tracing_, *forward_mode_;
    PyObject *is_cpu_ = name("is_cpu"), *is_neg_ = name("is_neg"), *requires_grad_ = name("requires_grad"),
             *current_level_ = name("_current_level");

    static PyObject* name(const char* text) { return PyUnicode_InternFromString(text); }
    static PyObject* kept(const char* module, const char* attribute) {
        return nb::object(nb::module_::import_(module).attr(attribute)).release().ptr();
    }
    // Takes the reference.
    static bool truth(PyObject* answer) {
        if (!answer) throw nb::python_error();
        const bool found = answer == Py_True;
        Py_DECREF(answer);
        return found;
    }

    Torch()
        : grad_enabled_(kept("torch", "is_grad_enabled")),
          transforms_active_(kept("torch._C", "_are_functorch_transforms_active")),
          tracing_(kept("torch._C", "_is_tracing")), forward_mode_(kept("torch.autograd", "forward_ad")),
          tensor_class(reinterpret_cast<PyTypeObject*>(kept("torch", "Tensor"))) {}

  public:
    PyTypeObject* const tensor_class;

    static const Torch* loaded() {
        static const Torch* known = nullptr;
        if (!known) {
            const nb::object modules = nb::borrow(PyImport_GetModuleDict());
            if (PyDict_GetItemString(modules.ptr(), "torch")) known = new Torch;
        }
        return known;
    }

    // A tensor whose class adds nothing, in the memory of the CPU, which the kernel can read.
    bool is_plain(nb::handle object) const {
        return Py_TYPE(object.ptr()) == tensor_class && truth(PyObject_GetAttr(object.ptr(), is_cpu_));
    }
    bool is_negated(nb::handle tensor) const {
        PyObject* self = tensor.ptr();  // what PyObject_CallMethodNoArgs does, which the stable ABI does not have
        return truth(PyObject_VectorcallMethod(is_neg_, &self, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    }

    // Whether PyTorch traces or transforms: tensors may have no memory, and operations must be recorded.
    bool records() const {
        return truth(PyObject_CallNoArgs(transforms_active_)) || truth(PyObject_CallNoArgs(tracing_));
    }
    // Whether PyTorch needs gradients of one of these, in reverse or forward mode.
    bool differentiates(std::initializer_list<nb::handle> tensors) const {
        PyObject* level = PyObject_GetAttr(forward_mode_, current_level_);
        if (!level) throw nb::python_error();
        const bool forward = PyLong_AsLong(level) >= 0;
        Py_DECREF(level);
        if (forward) return true;
        if (!truth(PyObject_CallNoArgs(grad_enabled_))) return false;
        for (nb::handle tensor : tensors)
            if (truth(PyObject_GetAttr(tensor.ptr(), requires_grad_))) return true;
        return false;
    }
};

// Plain arrays of one library: NumPy arrays, or CPU tensors while PyTorch does not record what happens to them.
inline bool all_plain(std::initializer_list<nb::handle> arrays) {
    PyTypeObject* type = Py_TYPE(arrays.begin()->ptr());
    if (type == numpy_class()) {
        for (nb::handle array : arrays)
            if (Py_TYPE(array.ptr()) != type) return false;
        return true;
    }
    const Torch* torch = Torch::loaded();
    if (!torch || type != torch->tensor_class || !exchange_of(*arrays.begin()) || torch->records()) return false;
    for (nb::handle array : arrays)
        if (!torch->is_plain(array)) return false;
    return true;
}

// Holds an array; false if it is sparse, nested, or of a type or a number of axes that Python has to explain.
inline bool holds(Buffer& buffer, nb::handle array, const char* name) {
    try {
        buffer.hold(array, name);
        return true;
    } catch (const std::invalid_argument&) {
        return false;
    } catch (const nb::python_error&) {
        return false;
    }
}

inline bool is_floating(const Buffer& buffer, bool is_numpy) {
    const Type type = buffer.view.type;
    return type == Type::f32 || type == Type::f64 || type == Type::f16 || (type == Type::bf16 && !is_numpy);
}

// Whether the shapes of queries and keys fit, with two to four axes, and all sizes but the number of queries positive.
inline bool are_compatible(const Buffer& queries, const Buffer& keys) {
    const int64_t *q = queries.view.shape, *k = keys.view.shape;
    return queries.dimensions == keys.dimensions && queries.dimensions >= 2 && q[0] == k[0] && q[3] == k[3] &&
           q[1] > 0 && k[1] > 0 && k[2] > 0 && q[3] > 0 && q[1] % k[1] == 0;
}

// One interval of keys per query, as a mask without arrays gives it for these counts. The last answer is kept: calls
// of a model repeat mask and counts, and asking Python for it takes as long as a small product.
class KeptIntervals {
    nb::object mask_;
    int64_t queries_ = 0, keys_ = 0;

  public:
    nb::object first, last;
    bool usable = false;  // false: the mask has arrays, or more than one interval per query

    static const KeptIntervals& of(nb::handle mask, int64_t queries, int64_t keys) {
        static KeptIntervals& kept = *new KeptIntervals;
        if (!mask.is(kept.mask_) || queries != kept.queries_ || keys != kept.keys_) kept.evaluate(mask, queries, keys);
        return kept;
    }

  private:
    void evaluate(nb::handle mask, int64_t queries, int64_t keys) {
        mask_ = nb::object();
        usable = nb::cast<bool>(mask.attr("_only_numbers"));
        if (!usable) return;
        const nb::object visible = mask.attr("visible")(nb::arg("queries") = queries, nb::arg("keys") = keys);
        usable = visible.attr("rest").is_none() && visible.attr("second_first").is_none();
        first = visible.attr("first");
        last = visible.attr("last");
        mask_ = nb::borrow(mask);
        queries_ = queries;
        keys_ = keys;
    }
};

}  // namespace
}  // namespace regard
