// Vectors of the instruction set that this file is compiled for, in GCC's and Clang's vector extensions.
// The only place with intrinsics: where the vector extensions cannot express an operation, or are slow.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "problem.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

#define REGARD_INLINE inline __attribute__((always_inline))

namespace regard {
namespace REGARD_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64, registers = 32;
#elif defined(__AVX2__)
constexpr int vector_bytes = 32, registers = 16;
#elif defined(__ARM_NEON)
constexpr int vector_bytes = 16, registers = 32;
#else
constexpr int vector_bytes = 16, registers = 16;
#endif
// WebAssembly is compiled once more by the browser. V8 (Chrome, Node) has 15 vector registers to give, and spills more
// in unrolled loops.
#if defined(__wasm_simd128__)
constexpr bool in_browser = true;
#else
constexpr bool in_browser = false;
#endif

template <class Real>
struct Traits;
template <>
struct Traits<float> {
    typedef float Vec __attribute__((vector_size(vector_bytes)));
    typedef float Loose __attribute__((vector_size(vector_bytes), aligned(4), may_alias));
    typedef int32_t Int __attribute__((vector_size(vector_bytes)));
    typedef uint32_t Bits __attribute__((vector_size(vector_bytes)));
    typedef int32_t Whole;
    static constexpr int lanes = vector_bytes / 4;
};
template <>
struct Traits<double> {
    typedef double Vec __attribute__((vector_size(vector_bytes)));
    typedef double Loose __attribute__((vector_size(vector_bytes), aligned(8), may_alias));
    typedef int64_t Int __attribute__((vector_size(vector_bytes)));
    typedef uint64_t Bits __attribute__((vector_size(vector_bytes)));
    typedef int64_t Whole;
    static constexpr int lanes = vector_bytes / 8;
};
template <class Real>
using Vec = typename Traits<Real>::Vec;
template <class Real>
using Int = typename Traits<Real>::Int;
template <class Real>
constexpr int lanes = Traits<Real>::lanes;

template <class Real>
REGARD_INLINE Vec<Real> load(const Real* from) {
    return *reinterpret_cast<const typename Traits<Real>::Loose*>(from);
}
template <class Real>
REGARD_INLINE void store(Real* to, Vec<Real> x) {
    *reinterpret_cast<typename Traits<Real>::Loose*>(to) = x;
}
template <class Real>
REGARD_INLINE Vec<Real> all(Real x) {
    return Vec<Real>{} + x;  // x + 0 turns −0 into +0, which no caller depends on
}
template <class Real>
REGARD_INLINE Int<Real> all_int(typename Traits<Real>::Whole x) {
    return Int<Real>{} + x;
}
template <class Real>
REGARD_INLINE Int<Real> lane_numbers() {
    Int<Real> numbers;
    for (int lane = 0; lane < lanes<Real>; ++lane) numbers[lane] = lane;
    return numbers;
}
template <class Real>
REGARD_INLINE Vec<Real> as_real(Int<Real> x) {
    return __builtin_convertvector(x, Vec<Real>);
}

// The second operand where either is NaN: `larger(c, x)` keeps x's NaN.
REGARD_INLINE Vec<float> larger(Vec<float> a, Vec<float> b) {
#if defined(__AVX512F__)
    return (Vec<float>)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (Vec<float>)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (Vec<float>)_mm_max_ps((__m128)a, (__m128)b);
#elif defined(__wasm_simd128__)
    return (Vec<float>)wasm_f32x4_pmax((v128_t)b, (v128_t)a);
#else
    return a > b ? a : b;
#endif
}
REGARD_INLINE Vec<double> larger(Vec<double> a, Vec<double> b) {
#if defined(__wasm_simd128__)
    return (Vec<double>)wasm_f64x2_pmax((v128_t)b, (v128_t)a);
#else
    return a > b ? a : b;
#endif
}

template <class Real>
REGARD_INLINE bool any_lane(Int<Real> mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#elif defined(__SSE2__)
    return _mm_movemask_epi8((__m128i)mask) != 0;
#elif defined(__ARM_NEON)
    return vmaxvq_u32((uint32x4_t)mask) != 0;
#elif defined(__wasm_simd128__)
    return wasm_v128_any_true((v128_t)mask);
#else
    for (int lane = 0; lane < lanes<Real>; ++lane)
        if (mask[lane]) return true;
    return false;
#endif
}

template <class Real>
REGARD_INLINE Real sum_lanes(Vec<Real> x) {
    Real total = 0;
    // A tree, so that the order does not depend on the optimiser.
    Real part[lanes<Real>];
    store<Real>(part, x);
    for (int half = lanes<Real> / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; ++lane) part[lane] += part[lane + half];
    total = part[0];
    return total;
}

// 2^x for x < 127.5 (1023.5); NaN stays NaN, whatever its payload; −inf and whatever is far below the smallest number
// gives exactly zero. Rounding to the nearest whole number n by a large constant, a polynomial for the rest, times 2^n
// made from the exponent's bits. AVX-512 has instructions for the first and the last step: 7 cycles for 16 numbers,
// otherwise 9 (Zen 4).
REGARD_INLINE Vec<float> exp2_of(Vec<float> x) {
#if defined(__AVX512F__)
    const Vec<float> rest = (Vec<float>)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF);
    // Smallest relative error on [0, 1] with value 1 at 0: 8.3e-8.
    Vec<float> p = rest * 0.0018671300495043397f + 0.009017030708491802f;
    p = p * rest + 0.05579991266131401f;
    p = p * rest + 0.24016444385051727f;
    p = p * rest + 0.6931512951850891f;
    p = p * rest + 1.f;
    return (Vec<float>)_mm512_scalef_ps((__m512)p, (__m512)x);
#else
    x = larger(all(-127.f), x);
    const Vec<float> magic = all(12582912.f + 127);  // 1.5 · 2^23, and the exponent's bias
    const Vec<float> shifted = x + magic;
    const Vec<float> rest = x - (shifted - magic);
    // Smallest relative error on [−½, ½] with value 1 at 0: 9.2e-8. In two halves, because a chain of five steps
    // stalls the multipliers: 4% of a whole forward at size 64.
    const Vec<float> square = rest * rest;
    const Vec<float> low = rest * 0.6931469775990191f + 1.f,
                     middle = rest * 0.05550733743347447f + 0.24022242085125964f;
    const Vec<float> high = rest * 0.0013264727219489195f + 0.009671512656017612f;
    const Vec<float> p = square * (square * high + middle) + low;
    return p * (Vec<float>)((Traits<float>::Bits)shifted << 23);
#endif
}
REGARD_INLINE Vec<double> exp2_of(Vec<double> x) {
    x = larger(all(-1023.), x);
    const Vec<double> magic = all(6755399441055744. + 1023);  // 1.5 · 2^52, and the exponent's bias
    const Vec<double> shifted = x + magic;
    const Vec<double> rest = x - (shifted - magic);
    // Likewise, 1.8e-17.
    Vec<double> p = all(4.07807192958833667e-10);
    p = p * rest + 7.07257041281442351e-9;
    p = p * rest + 1.01806476592341389e-7;
    p = p * rest + 1.32154426753298221e-6;
    p = p * rest + 0.0000152527273851938682;
    p = p * rest + 0.000154035304415721303;
    p = p * rest + 0.00133335581534399647;
    p = p * rest + 0.00961812910760700238;
    p = p * rest + 0.0555041086647903946;
    p = p * rest + 0.24022650695910098;
    p = p * rest + 0.693147180559945697;
    p = p * rest + 1.;
    return p * (Vec<double>)((Traits<double>::Bits)shifted << 52);
}

template <class Real>
constexpr Real log2_e = static_cast<Real>(1.4426950408889634074);
template <class Real>
constexpr Real ln_2 = static_cast<Real>(0.69314718055994530942);

// The two forms of tanh: near zero x + x · rise, elsewhere ±(1 − fall) with fall = 2 / (e^{2|x|} + 1).
template <class Real>
struct Tanh {
    Int<Real> near;
    Vec<Real> rise, fall;

    REGARD_INLINE explicit Tanh(Vec<Real> x) {
        const Vec<Real> size = x < Real(0) ? -x : x;
        const Vec<Real> limited = size > Real(20) ? all(Real(20)) : size;  // NaN stays
        fall = Real(2) / (exp2_of(limited * (2 * log2_e<Real>)) + Real(1));
        const Vec<Real> square = x * x;
        if constexpr (sizeof(Real) == 4) {
            near = size < Real(0.55);
            Vec<Real> p = all(Real(-0.0058820087));
            p = p * square + Real(0.0206390876);
            p = p * square + Real(-0.0537397153);
            p = p * square + Real(0.133314422);
            rise = square * (p * square + Real(-0.333332819));
        } else {
            near = size < Real(0.25);
            // The series to x^21: exact to rounding below ¼.
            const double c[] = {-1.0 / 3,
                                2.0 / 15,
                                -17.0 / 315,
                                62.0 / 2835,
                                -1382.0 / 155925,
                                21844.0 / 6081075,
                                -929569.0 / 638512875,
                                6404582.0 / 10854718875.0,
                                -443861162.0 / 1856156927625.0,
                                18888466084.0 / 194896477400625.0};
            Vec<Real> p = all(Real(c[9]));
            for (int k = 8; k >= 0; --k) p = p * square + Real(c[k]);
            rise = square * p;
        }
    }
};
template <class Real>
REGARD_INLINE Vec<Real> tanh_of(Vec<Real> x) {
    const Tanh<Real> t(x);
    const Vec<Real> far = Real(1) - t.fall;
    return t.near ? x + x * t.rise : (x < Real(0) ? -far : far);
}

// Storage to computing type and back.
REGARD_INLINE float half_to_float(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 31, mantissa = h & 1023u, bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000u | (mantissa << 13);
    } else if (exponent) {
        bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
    } else {
        float value = static_cast<float>(mantissa) * 5.9604644775390625e-08f;  // 2^-24
        std::memcpy(&bits, &value, 4);
        bits |= sign;
    }
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
REGARD_INLINE uint16_t float_to_half(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
    if (bits >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
    if (bits < 0x38800000u) {
        float magnitude;
        std::memcpy(&magnitude, &bits, 4);
        // Adding ½ moves the last half-precision bit to the last single-precision one, which rounds to even.
        magnitude += 0.5f;
        std::memcpy(&bits, &magnitude, 4);
        return static_cast<uint16_t>(sign | (bits - 0x3f000000u));
    }
    bits += 0xfffu + ((bits >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((bits - 0x38000000u) >> 13));
}
REGARD_INLINE float brain_to_float(uint16_t h) {
    const uint32_t bits = static_cast<uint32_t>(h) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
REGARD_INLINE uint16_t float_to_brain(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
    bits += 0x7fffu + ((bits >> 16) & 1u);
    return static_cast<uint16_t>(bits >> 16);
}

// One vector of float from 16-bit storage.
REGARD_INLINE Vec<float> load_half(const uint16_t* from) {
#if defined(__AVX512F__)
    return (Vec<float>)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__)
    return (Vec<float>)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__ARM_NEON)
    return (Vec<float>)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
#elif defined(__wasm_simd128__)
    // Sign, exponent and mantissa are moved to their places; a product corrects the exponent, exactly for subnormal
    // numbers too. What was infinite or NaN comes out as 65536 or more.
    typedef Traits<float>::Bits Bits;
    const Bits moved = ((Bits)wasm_i32x4_load16x4(from) << 13) & 0x8fffffffu;
    const Vec<float> finite = (Vec<float>)moved * 0x1p112f;
    const Bits beyond = (Bits)((Vec<float>)((Bits)finite & 0x7fffffffu) >= 65536.f);
    return (Vec<float>)((Bits)finite | (beyond & 0x7f800000u));
#else
    Vec<float> x;
    for (int lane = 0; lane < lanes<float>; ++lane) x[lane] = half_to_float(from[lane]);
    return x;
#endif
}
REGARD_INLINE Vec<float> load_brain(const uint16_t* from) {
    // GCC turns a conversion of the whole vector into many small ones.
#if defined(__AVX512F__)
    const __m256i narrow = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return (Vec<float>)_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16);
#elif defined(__AVX2__)
    const __m128i narrow = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return (Vec<float>)_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16);
#else
    typedef uint16_t Narrow __attribute__((vector_size(vector_bytes / 2)));
    typedef uint32_t Wide __attribute__((vector_size(vector_bytes)));
    Narrow narrow;
    std::memcpy(&narrow, from, sizeof narrow);
    return (Vec<float>)(__builtin_convertvector(narrow, Wide) << 16);
#endif
}

// Sixteen small integers as numbers: by · integer + plus.
REGARD_INLINE void widen_bytes(const int8_t* from, float by, float plus, float* to) {
#if defined(__wasm_simd128__)
    const v128_t bytes = wasm_v128_load(from), scale = wasm_f32x4_splat(by), shift = wasm_f32x4_splat(plus);
    const v128_t low = wasm_i16x8_extend_low_i8x16(bytes), high = wasm_i16x8_extend_high_i8x16(bytes);
    const v128_t wide[] = {wasm_i32x4_extend_low_i16x8(low), wasm_i32x4_extend_high_i16x8(low),
                           wasm_i32x4_extend_low_i16x8(high), wasm_i32x4_extend_high_i16x8(high)};
    for (int i = 0; i < 4; ++i)
        wasm_v128_store(to + 4 * i, wasm_f32x4_add(wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wide[i]), scale), shift));
#else
    for (int i = 0; i < 16; ++i) to[i] = by * static_cast<float>(from[i]) + plus;
#endif
}

template <class Real>
REGARD_INLINE Real read(const char* from, Type type) {
    switch (type) {
        case Type::f16: {
            uint16_t h;
            std::memcpy(&h, from, 2);
            return static_cast<Real>(half_to_float(h));
        }
        case Type::bf16: {
            uint16_t h;
            std::memcpy(&h, from, 2);
            return static_cast<Real>(brain_to_float(h));
        }
        case Type::f32: {
            float x;
            std::memcpy(&x, from, 4);
            return static_cast<Real>(x);
        }
        default: {
            double x;
            std::memcpy(&x, from, 8);
            return static_cast<Real>(x);
        }
    }
}

// `count` numbers from storage, `stride` elements apart, into a contiguous row of the computing type.
template <class Real>
void read_row(const char* from, Type type, int64_t stride, int64_t count, Real* to) {
    if constexpr (sizeof(Real) == 4) {
        constexpr int L = lanes<float>;
        if (stride == 1) {
            int64_t i = 0;
            if (type == Type::f32) {
                std::memcpy(to, from, static_cast<size_t>(count) * 4);
                return;
            }
            const auto* narrow = reinterpret_cast<const uint16_t*>(from);
            if (type == Type::f16)
                for (; i + L <= count; i += L) store<float>(to + i, load_half(narrow + i));
            else if (type == Type::bf16)
                for (; i + L <= count; i += L) store<float>(to + i, load_brain(narrow + i));
            const int64_t width = static_cast<int64_t>(bytes_of(type));
            for (; i < count; ++i) to[i] = read<Real>(from + i * width, type);
            return;
        }
    }
    if (type == Type::f64 && sizeof(Real) == 8 && stride == 1) {
        std::memcpy(to, from, static_cast<size_t>(count) * 8);
        return;
    }
    const int64_t width = static_cast<int64_t>(bytes_of(type)) * stride;
    for (int64_t i = 0; i < count; ++i) to[i] = read<Real>(from + i * width, type);
}

template <class Real>
void write_row(const Real* from, int64_t count, char* to, Type type, int64_t stride) {
    if (stride == 1 && type == (sizeof(Real) == 4 ? Type::f32 : Type::f64)) {
        std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Real));
        return;
    }
    const int64_t width = static_cast<int64_t>(bytes_of(type)) * stride;
    for (int64_t i = 0; i < count; ++i) {
        char* place = to + i * width;
        if (type == Type::f16) {
            const uint16_t h = float_to_half(static_cast<float>(from[i]));
            std::memcpy(place, &h, 2);
        } else if (type == Type::bf16) {
            const uint16_t h = float_to_brain(static_cast<float>(from[i]));
            std::memcpy(place, &h, 2);
        } else if (type == Type::f32) {
            const float x = static_cast<float>(from[i]);
            std::memcpy(place, &x, 4);
        } else {
            const double x = static_cast<double>(from[i]);
            std::memcpy(place, &x, 8);
        }
    }
}

// Transpose a square of vectors in registers: swap blocks of 1, 2, 4 … lanes between pairs of vectors.
template <class Real, int step, int... lane>
REGARD_INLINE void swap_blocks(Vec<Real>& a, Vec<Real>& b, std::integer_sequence<int, lane...>) {
    const Vec<Real> low = __builtin_shufflevector(a, b, ((lane & step) ? lanes<Real> + (lane ^ step) : lane)...);
    b = __builtin_shufflevector(a, b, ((lane & step) ? lanes<Real> + lane : (lane ^ step))...);
    a = low;
}
template <class Real, int step = 1>
REGARD_INLINE void transpose(Vec<Real> (&square)[lanes<Real>]) {
    if constexpr (step < lanes<Real>) {
        for (int i = 0; i < lanes<Real>; ++i)
            if (!(i & step))
                swap_blocks<Real, step>(square[i], square[i | step], std::make_integer_sequence<int, lanes<Real>>{});
        transpose<Real, step * 2>(square);
    }
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
