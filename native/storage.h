// Vectors into 16-bit storage, and rows of numbers between any storage and the computing type.
#pragma once
#include <type_traits>

#include "block.h"

namespace regard {
namespace REGARD_ISA {
namespace {

REGARD_INLINE void store_half(uint16_t* to, Vec<float> x) {
#if defined(__AVX512F__)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__AVX2__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__ARM_NEON)
    vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x)));
#else
    for (int lane = 0; lane < lanes<float>; ++lane) to[lane] = float_to_half(x[lane]);
#endif
}
REGARD_INLINE void store_brain(uint16_t* to, Vec<float> x) {
    typedef uint32_t Wide __attribute__((vector_size(vector_bytes)));
    const Wide bits = (Wide)x, rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    const Wide kept = (x == x ? rounded : (bits | 0x400000u)) >> 16;  // rounding could turn a NaN into infinity
#if defined(__AVX512F__)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16((__m512i)kept));
#elif defined(__AVX2__)
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)kept, (__m256i)kept), 0x88);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(packed));
#else
    typedef uint16_t Narrow __attribute__((vector_size(vector_bytes / 2)));
    const Narrow narrow = __builtin_convertvector(kept, Narrow);
    std::memcpy(to, &narrow, sizeof narrow);
#endif
}

template <class Real>
constexpr Type own_type = sizeof(Real) == 4 ? Type::f32 : Type::f64;

// As write_row, by vectors if 16-bit numbers are contiguous.
template <class Real>
void write_numbers(const Real* from, int64_t count, char* to, Type type, int64_t stride) {
    int64_t i = 0;
    if constexpr (sizeof(Real) == 4) {
        constexpr int L = lanes<float>;
        auto* narrow = reinterpret_cast<uint16_t*>(to);
        if (stride == 1 && type == Type::f16)
            for (; i + L <= count; i += L) store_half(narrow + i, load(from + i));
        else if (stride == 1 && type == Type::bf16)
            for (; i + L <= count; i += L) store_brain(narrow + i, load(from + i));
    }
    write_row<Real>(from + i, count - i, to + i * stride * static_cast<int64_t>(bytes_of(type)), type, stride);
}

// One axis of a view as a contiguous row of the computing type: in place if it is one already, otherwise a copy.
template <class Real>
const Real* numbers(const char* from, Type type, int64_t stride, int64_t count, Real* copy) {
    if (stride == 1 && type == own_type<Real>) return reinterpret_cast<const Real*>(from);
    read_row<Real>(from, type, stride, count, copy);
    return copy;
}

// A vector from contiguous storage.
struct Half {
    uint16_t bits;
};
struct Brain {
    uint16_t bits;
};
REGARD_INLINE Vec<float> load_as(const float* from) { return load(from); }
REGARD_INLINE Vec<double> load_as(const double* from) { return load(from); }
REGARD_INLINE Vec<float> load_as(const Half* from) { return load_half(&from->bits); }
REGARD_INLINE Vec<float> load_as(const Brain* from) { return load_brain(&from->bits); }

// One number of it.
template <class Real, class Stored>
REGARD_INLINE Real one_as(const Stored* from) {
    if constexpr (std::is_same_v<Stored, Half>)
        return half_to_float(from->bits);
    else if constexpr (std::is_same_v<Stored, Brain>)
        return brain_to_float(from->bits);
    else
        return *from;
}

// GGUF's quantised weights: rows of blocks of 32 numbers, each block with its own scale, and shift.
constexpr int64_t quantised_block = 32;
struct Q8 {  // scale · number
    uint16_t scale;
    int8_t numbers[quantised_block];

    void read(float* to) const {
        const float by = half_to_float(scale);
        for (int i = 0; i < quantised_block; i += 16) widen_bytes(numbers + i, by, 0.f, to + i);
    }
};
struct Q4 {  // scale · number + shift: the first half in the lower four bits
    uint16_t scale, shift;
    uint8_t pairs[quantised_block / 2];

    void read(float* to) const {
        const float by = half_to_float(scale), plus = half_to_float(shift);
        int8_t low[16], high[16];
        for (int i = 0; i < 16; ++i) {
            low[i] = static_cast<int8_t>(pairs[i] & 15);
            high[i] = static_cast<int8_t>(pairs[i] >> 4);
        }
        widen_bytes(low, by, plus, to);
        widen_bytes(high, by, plus, to + 16);
    }
};
inline bool is_quantised(Type type) { return type == Type::q8_0 || type == Type::q4_1; }

template <class Block, class Real>
void read_blocks(const Block* block, int64_t count, Real* to) {
    for (int64_t i = 0; i < count; i += quantised_block, ++block) {
        if constexpr (sizeof(Real) == 4) {
            block->read(to + i);
        } else {
            float single[quantised_block];
            block->read(single);
            std::copy(single, single + quantised_block, to + i);
        }
    }
}
// Part of a row of a quantised matrix: `first` and `count` are multiples of 32.
template <class Real>
void read_quantised(const View& view, int64_t row, int64_t first, int64_t count, Real* to) {
    const int64_t block = (row * view.stride[2] + first) / quantised_block;
    if (view.type == Type::q8_0)
        read_blocks(reinterpret_cast<const Q8*>(view.data) + block, count, to);
    else
        read_blocks(reinterpret_cast<const Q4*>(view.data) + block, count, to);
}

// A part of the last two axes into contiguous rows `to_row` apart. In a transposed view, whole squares are
// transposed at once.
template <class Real, class Stored>
void turn_rows(const Stored* from, int64_t step, int64_t rows, int64_t count, Real* to, int64_t to_row) {
    constexpr int L = lanes<Real>;
    for (int64_t t = 0; t < count; t += L)
        for (int64_t r = 0; r < rows; r += L) {
            Vec<Real> square[L];
            for (int k = 0; k < L; ++k) square[k] = load_as(from + (t + k) * step + r);
            transpose<Real>(square);
            for (int k = 0; k < L; ++k) store<Real>(to + (r + k) * to_row + t, square[k]);
        }
}
template <class Real>
void copy_rows(const View& view, int64_t first_row, int64_t rows, int64_t first, int64_t count, Real* to,
               int64_t to_row) {
    constexpr int L = lanes<Real>;
    if (is_quantised(view.type)) {
        for (int64_t r = 0; r < rows; ++r) read_quantised(view, first_row + r, first, count, to + r * to_row);
        return;
    }
    const int64_t width = static_cast<int64_t>(bytes_of(view.type)), stride = view.stride[3];
    const char* from = view.at(0, 0, first_row) + first * stride * width;
    int64_t turned_rows = 0, turned = 0;
    if (view.stride[2] == 1 && stride != 1) {
        turned_rows = rows / L * L;
        turned = count / L * L;
        if (view.type == own_type<Real>)
            turn_rows(reinterpret_cast<const Real*>(from), stride, turned_rows, turned, to, to_row);
        else if (sizeof(Real) == 4 && view.type == Type::f16)
            turn_rows(reinterpret_cast<const Half*>(from), stride, turned_rows, turned, reinterpret_cast<float*>(to),
                      to_row);
        else if (sizeof(Real) == 4 && view.type == Type::bf16)
            turn_rows(reinterpret_cast<const Brain*>(from), stride, turned_rows, turned, reinterpret_cast<float*>(to),
                      to_row);
        else
            turned_rows = 0;
    }
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t done = r < turned_rows ? turned : 0;
        read_row<Real>(from + (r * view.stride[2] + done * stride) * width, view.type, stride, count - done,
                       to + r * to_row + done);
    }
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
