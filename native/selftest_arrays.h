// Arrays of every storage and layout for checks of the kernels, and a count of what failed.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "problem.h"

namespace regard {
namespace checks {

inline double random_number() {  // −1 to 1, the same on every run
    static uint64_t state = 88172645463325252u;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(static_cast<int64_t>(state >> 11)) / 4503599627370496. - 1;
}

// Half of the distance between neighbours, relative.
inline double rounding(Type type) {
    switch (type) {
        case Type::f16: return 0x1p-11;
        case Type::bf16: return 0x1p-8;
        case Type::f32: return 0x1p-24;
        default: return 0x1p-53;
    }
}

// Half precision by scaling: plain, and independent of the kernels' own conversions.
inline uint16_t to_half(double x) {
    const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    if (x != x) return 0x7e00;
    const double size = std::fabs(x);
    if (size >= 65520) return static_cast<uint16_t>(sign | 0x7c00);
    if (size < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(size * 0x1p24)));
    int exponent;
    const double fraction = std::frexp(size, &exponent);
    return static_cast<uint16_t>(sign | (static_cast<int>(std::nearbyint(fraction * 2048)) + (exponent + 13) * 1024));
}
inline double from_half(uint16_t h) {
    const int exponent = (h >> 10) & 31, mantissa = h & 1023;
    double size = exponent ? std::ldexp(1024. + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
    if (exponent == 31) size = mantissa ? std::numeric_limits<double>::quiet_NaN() : HUGE_VAL;
    return h & 0x8000 ? -size : size;
}

enum class Layout { contiguous, wide_rows, transposed, every_second, reversed };
constexpr Layout layouts[] = {Layout::contiguous, Layout::wide_rows, Layout::transposed, Layout::every_second,
                              Layout::reversed};

// Memory of its own with a view into it; numbers outside the view keep a mark.
struct Array {
    std::vector<char> memory;
    View view;

    Array() = default;
    // The two last axes lie as the layout says, the leading ones around them.
    Array(Type type, int64_t a, int64_t b, int64_t rows, int64_t columns, Layout layout = Layout::contiguous) {
        const int64_t width = static_cast<int64_t>(bytes_of(type));
        int64_t row = columns, column = 1, start = 0, block = rows * columns;
        if (layout == Layout::wide_rows) row = columns + 5, block = rows * row;
        if (layout == Layout::transposed) row = 1, column = rows + 3, block = columns * column;
        if (layout == Layout::every_second) row = 2 * columns + 1, column = 2, block = rows * row;
        if (layout == Layout::reversed) row = -columns, column = -1, start = block - 1;
        memory.assign(static_cast<size_t>(a * b * block * width) + 16, 0x55);  // never null, even when empty
        view.data = memory.data() + start * width;
        const int64_t shape[] = {a, b, rows, columns}, stride[] = {b * block, block, row, column};
        std::copy(shape, shape + 4, view.shape);
        std::copy(stride, stride + 4, view.stride);
        view.type = type;
    }
    Array(const Array&) = delete;
    Array(Array&&) = default;
    Array& operator=(Array&&) = default;

    char* place(int64_t a, int64_t b, int64_t c, int64_t d) const {
        return view.at(a, b, c) + d * view.stride[3] * static_cast<int64_t>(bytes_of(view.type));
    }
    double get(int64_t a, int64_t b, int64_t c, int64_t d) const {
        const char* from = place(a, b, c, d);
        if (view.type == Type::f64) {
            double x;
            std::memcpy(&x, from, 8);
            return x;
        }
        if (view.type == Type::f32) {
            float x;
            std::memcpy(&x, from, 4);
            return x;
        }
        uint16_t narrow;
        std::memcpy(&narrow, from, 2);
        if (view.type == Type::f16) return from_half(narrow);
        const uint32_t bits = static_cast<uint32_t>(narrow) << 16;
        float x;
        std::memcpy(&x, &bits, 4);
        return x;
    }
    double get(int64_t c, int64_t d) const { return get(0, 0, c, d); }
    void set(int64_t a, int64_t b, int64_t c, int64_t d, double value) {
        char* to = place(a, b, c, d);
        const float x = static_cast<float>(value);
        if (view.type == Type::f64) {
            std::memcpy(to, &value, 8);
        } else if (view.type == Type::f32) {
            std::memcpy(to, &x, 4);
        } else {
            uint32_t bits;
            std::memcpy(&bits, &x, 4);
            const auto narrow = static_cast<uint16_t>(view.type == Type::f16 ? to_half(value) : bits >> 16);
            std::memcpy(to, &narrow, 2);
        }
    }
    template <class F>
    void each(F f) const {
        for (int64_t a = 0; a < view.shape[0]; ++a)
            for (int64_t b = 0; b < view.shape[1]; ++b)
                for (int64_t c = 0; c < view.shape[2]; ++c)
                    for (int64_t d = 0; d < view.shape[3]; ++d) f(a, b, c, d);
    }
    Array&& random(double scale = 1, double shift = 0) {
        each([&](int64_t a, int64_t b, int64_t c, int64_t d) { set(a, b, c, d, shift + scale * random_number()); });
        return std::move(*this);
    }
    bool others_untouched() const {
        std::vector<char> seen(memory.size(), 0);
        each([&](int64_t a, int64_t b, int64_t c, int64_t d) {
            std::memset(seen.data() + (place(a, b, c, d) - memory.data()), 1, bytes_of(view.type));
        });
        for (size_t i = 0; i < memory.size(); ++i)
            if (!seen[i] && memory[i] != 0x55) return false;
        return true;
    }
};

struct Failures {
    int count = 0;
    // `bound` is the error that rounding explains.
    bool differ(const std::string& what, double got, double expected, double bound) {
        const bool both_nan = got != got && expected != expected;
        if (both_nan || got == expected || std::fabs(got - expected) <= bound) return false;
        if (++count <= 20)
            std::printf("FAILED %s: %.9g instead of %.9g, bound %.2g\n", what.c_str(), got, expected, bound);
        return true;
    }
    void that(bool right, const std::string& what) {
        if (!right && ++count <= 20) std::printf("FAILED %s\n", what.c_str());
    }
};

}  // namespace checks
}  // namespace regard
