// What follows a linear map, on one vector at a time. NaN stays NaN.
#pragma once
#include <limits>

#include "lanes.h"

namespace regard {
namespace REGARD_ISA {
namespace {

// e^x without a limit on either side: twice 2^127 (2^1023) is infinity.
template <class Real>
REGARD_INLINE Vec<Real> exp_of(Vec<Real> x) {
    constexpr Real most = sizeof(Real) == 4 ? Real(127) : Real(1023);
    const Vec<Real> powers = x * log2_e<Real> - Real(1);
    return exp2_of(powers > most ? all(most) : powers) * Real(2);
}

// A polynomial, coefficients from the constant upwards.
template <class Real, int count>
REGARD_INLINE Vec<Real> polynomial(const Real (&coefficients)[count], Vec<Real> x) {
    Vec<Real> sum = all(coefficients[count - 1]);
    for (int k = count - 2; k >= 0; --k) sum = sum * x + coefficients[k];
    return sum;
}

// The upper tail of the normal distribution for x ≥ 0, ½ erfc(x / √2), to a small relative error:
// e^(−x²/2) · t · a polynomial, with t = 1 / (1 + p x). Fitted for the least relative error: 1.3e-8 and 6e-16. In
// single precision the polynomial is one in x t = (1 − t) / p, whose rounding does not matter where x is small.
REGARD_INLINE Vec<float> normal_beyond(Vec<float> x) {
    static constexpr float mills[] = {0.500000007f,    -0.265942643f,    0.073144171f,
                                      -0.00876588845f, -0.00036357244f,  0.000142094307f,
                                      2.71334241e-05f, -9.73224166e-06f, 7.65103883e-07f};
    const Vec<float> xt = x / (1.f + 0.266f * x);
    return exp2_of(x * x * (-0.5f * log2_e<float>)) * ((1.f - 0.266f * xt) * polynomial(mills, xt));
}
REGARD_INLINE Vec<double> normal_beyond(Vec<double> x) {
    static constexpr double mills[] = {
        0.18882128260393785,    0.15197416049297324,    0.096784350185556645,    0.046630464489894677,
        0.01509914372259023,    0.0018850472422229046,  -0.00086992308916287564, -0.0004077046213683964,
        3.3336052290036945e-05, 5.7773784446822336e-05, -4.769190076797745e-07,  -8.7864005897611292e-06,
        1.7865053828168654e-07, 1.4807234443854819e-06, -1.5623877693912945e-07, -2.5674601753579823e-07,
        6.6183432049496698e-08, 4.0557908021339177e-08, -1.9695900856734096e-08, -4.8924022349935119e-09,
        4.0168467393323501e-09, 3.19308785823943e-10,   -4.2216442416966838e-10};
    const Vec<double> t = 1. / (1. + 0.25 * x);
    return exp2_of(x * x * (-0.5 * log2_e<double>)) * (t * polynomial(mills, 2. * t - 1.));
}

// x Φ(x) = max(x, 0) − |x| · Φ(−|x|): nothing cancels, on either side. Beyond 40 the tail is zero, and ∞ · 0 would be
// NaN. Clamping |x| as an integer is one instruction; a NaN that it removes comes back with max(x, 0).
template <class Real>
REGARD_INLINE Vec<Real> gelu_of(Vec<Real> x) {
    using Whole = typename Traits<Real>::Whole;
    const Int<Real> bits = (Int<Real>)x & std::numeric_limits<Whole>::max(), most = (Int<Real>)all(Real(40));
    const Vec<Real> size = (Vec<Real>)(bits < most ? bits : most);
    return larger(Vec<Real>{}, x) - size * normal_beyond(size);
}

// ½ x (1 + tanh u) = x / (1 + e^(−2u)), u = √(2/π) (x + 0.044715 x³).
template <class Real>
REGARD_INLINE Vec<Real> gelu_tanh_of(Vec<Real> x) {
    constexpr Real slope = Real(-1.5957691216057307), cubic = Real(0.044715);
    return x / (Real(1) + exp_of<Real>(slope * (x + cubic * (x * x * x))));
}

template <class Real>
REGARD_INLINE Vec<Real> silu_of(Vec<Real> x) {
    return x / (Real(1) + exp_of<Real>(-x));
}

// x σ(1.702 x), the cheap approximation of gelu that CLIP uses.
template <class Real>
REGARD_INLINE Vec<Real> quick_gelu_of(Vec<Real> x) {
    return x / (Real(1) + exp_of<Real>(Real(-1.702) * x));
}

template <class Real, Activation activation>
REGARD_INLINE Vec<Real> activated(Vec<Real> x) {
    switch (activation) {
        case Activation::relu: return x < Real(0) ? Vec<Real>{} : x;
        case Activation::gelu: return gelu_of<Real>(x);
        case Activation::gelu_tanh: return gelu_tanh_of<Real>(x);
        case Activation::silu: return silu_of<Real>(x);
        case Activation::tanh: return tanh_of<Real>(x);
        case Activation::quick_gelu: return quick_gelu_of<Real>(x);
        default: return x;
    }
}

// σ(a x) and its slope a x σ (1 − σ) for the activations that are x σ(…): the sum is the derivative.
template <class Real>
REGARD_INLINE Vec<Real> swish_slope(Vec<Real> x, Vec<Real> exponent, Vec<Real> growth) {
    const Vec<Real> part = Real(1) / (Real(1) + exp_of<Real>(-exponent));
    return part + x * growth * part * (Real(1) - part);
}

// The derivative of the activations that have an exponential. Beyond ±800 it is 0 or 1, also in double precision.
template <class Real, Activation activation>
REGARD_INLINE Vec<Real> slope_of(Vec<Real> x) {
    x = x > Real(800) ? all(Real(800)) : x < Real(-800) ? all(Real(-800)) : x;
    if constexpr (activation == Activation::gelu) {
        const Vec<Real> size = x < Real(0) ? -x : x, near = size > Real(40) ? all(Real(40)) : size;
        const Vec<Real> tail = normal_beyond(near), below = x < Real(0) ? tail : Real(1) - tail;
        return below + x * (Real(0.3989422804014327) * exp2_of(x * x * (Real(-0.5) * log2_e<Real>)));
    } else if constexpr (activation == Activation::gelu_tanh) {
        constexpr Real slope = Real(1.5957691216057307), cubic = Real(0.044715);
        const Vec<Real> square = x * x;
        return swish_slope<Real>(x, slope * (x + cubic * (square * x)), slope * (Real(1) + Real(3) * cubic * square));
    } else if constexpr (activation == Activation::silu) {
        return swish_slope<Real>(x, x, all(Real(1)));
    } else {
        return swish_slope<Real>(x, Real(1.702) * x, all(Real(1.702)));
    }
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
