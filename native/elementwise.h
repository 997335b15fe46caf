// An activation of every number, or the gradient before it: output = f(x), or flow · f′(x).
#pragma once
#include "activations.h"
#include "work.h"

namespace regard {
namespace REGARD_ISA {
namespace {

template <class Real, Activation activation>
bool activate_with(const Activate& a) {
    constexpr int L = lanes<Real>;
    constexpr int64_t block = 8192;
    const int64_t count = a.x.shape[3], items = (count + block - 1) / block;
    const Real *x = reinterpret_cast<const Real*>(a.x.data), *flow = reinterpret_cast<const Real*>(a.flow.data);
    Real* out = reinterpret_cast<Real*>(a.output.data);
    const auto one = [flow](Vec<Real> at, Vec<Real> from) {
        return flow ? from * slope_of<Real, activation>(at) : activated<Real, activation>(at);
    };
    auto work = [&](int64_t item, void*) {
        int64_t i = item * block;
        const int64_t stop = std::min(count, i + block);
        for (; i + L <= stop; i += L) store<Real>(out + i, one(load(x + i), flow ? load(flow + i) : Vec<Real>{}));
        if (i == stop) return;
        Real last[L] = {}, from[L] = {};
        std::copy(x + i, x + stop, last);
        if (flow) std::copy(flow + i, flow + stop, from);
        store<Real>(last, one(load(last), load(from)));
        std::copy(last, last + (stop - i), out + i);
    };
    return run_items(items, 0, 40. * static_cast<double>(count), work);
}

template <class Real>
bool activate_of(const Activate& a) {
    switch (a.activation) {
        case Activation::gelu: return activate_with<Real, Activation::gelu>(a);
        case Activation::gelu_tanh: return activate_with<Real, Activation::gelu_tanh>(a);
        case Activation::silu: return activate_with<Real, Activation::silu>(a);
        default: return activate_with<Real, Activation::quick_gelu>(a);
    }
}

bool activate(const Activate& a) { return a.x.type == Type::f64 ? activate_of<double>(a) : activate_of<float>(a); }

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
