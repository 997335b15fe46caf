// Checks of linear, norm and rotary against plain loops in double precision, through the table of kernels.
// `check_linear(kernels)` prints what differs and gives the number of failures.
#pragma once
#include <algorithm>

#include "pool.h"
#include "selftest_arrays.h"

namespace regard {
namespace checks {

inline double activation_of(Activation activation, double x) {
    switch (activation) {
        case Activation::relu: return x < 0 ? 0 : x;
        case Activation::gelu: return x * 0.5 * std::erfc(-x * std::sqrt(0.5));
        case Activation::gelu_tanh: return x / (1 + std::exp(-2 * 0.79788456080286536 * (x + 0.044715 * x * x * x)));
        case Activation::silu: return x / (1 + std::exp(-x));
        case Activation::tanh: return std::tanh(x);
        case Activation::quick_gelu: return x / (1 + std::exp(-1.702 * x));
        default: return x;
    }
}

struct LinearCase {
    int64_t rows, in, out;
    Type x = Type::f32, weight = Type::f32, output = Type::f32;
    Layout x_layout = Layout::contiguous, weight_layout = Layout::contiguous, output_layout = Layout::contiguous;
    Activation activation = Activation::none;
    bool bias = true, residual = true, times = false;

    std::string name() const {
        return "linear " + std::to_string(rows) + " × " + std::to_string(in) + " → " + std::to_string(out) +
               ", types " + std::to_string(int(x)) + std::to_string(int(weight)) + std::to_string(int(output)) +
               ", layouts " + std::to_string(int(x_layout)) + std::to_string(int(weight_layout)) +
               std::to_string(int(output_layout)) + ", activation " + std::to_string(int(activation));
    }
};

inline void check(const Kernels& kernels, const LinearCase& c, Failures& failures) {
    const Array x = Array(c.x, 1, 1, c.rows, c.in, c.x_layout).random();
    const Array weight = Array(c.weight, 1, 1, c.out, c.in, c.weight_layout).random();
    const Array bias = Array(c.weight, 1, 1, 1, c.out).random(),
                residual = Array(c.output, 1, 1, c.rows, c.out, c.x_layout).random(),
                times = Array(c.output, 1, 1, c.rows, c.out, c.x_layout).random();
    const Array output(c.output, 1, 1, c.rows, c.out, c.output_layout);
    Linear l;
    l.x = x.view;
    l.weight = weight.view;
    if (c.bias) l.bias = bias.view;
    if (c.times) l.times = times.view;
    if (c.residual) l.residual = residual.view;
    l.output = output.view;
    l.activation = c.activation;
    failures.that(kernels.linear(l), c.name() + " stopped");
    failures.that(output.others_untouched(), c.name() + " wrote outside");
    const double unit = rounding(c.x == Type::f64 || c.weight == Type::f64 ? Type::f64 : Type::f32);
    for (int64_t r = 0; r < c.rows; ++r)
        for (int64_t o = 0; o < c.out; ++o) {
            double sum = c.bias ? bias.get(0, o) : 0, size = std::fabs(sum);
            for (int64_t t = 0; t < c.in; ++t) {
                const double part = x.get(r, t) * weight.get(o, t);
                sum += part;
                size += std::fabs(part);
            }
            const double added = c.residual ? residual.get(r, o) : 0;
            const double gate = c.times ? times.get(r, o) : 1;
            const double expected = activation_of(c.activation, sum) * gate + added;
            const double bound = unit * (8 + std::sqrt(static_cast<double>(c.in))) *
                                     (size * std::max(1., std::fabs(gate)) + std::fabs(added)) +
                                 2 * rounding(c.output) * std::fabs(expected) + 1e-12 * (unit > 1e-10) +
                                 0x1p-24 * (c.output == Type::f16);
            if (failures.differ(c.name(), output.get(r, o), expected, bound)) return;
        }
}

inline void check_linear_shapes(const Kernels& kernels, Failures& failures) {
    for (int64_t rows = 1; rows <= 40; ++rows) {
        check(kernels, {rows, 35, 29}, failures);
        check(kernels, {rows, 16, 10, Type::f64, Type::f64, Type::f64}, failures);
    }
    for (const int64_t in : {0, 1, 7, 8, 100, 391, 1000, 1541})
        for (const int64_t out : {1, 3, 4, 53, 130})
            for (const int64_t rows : {1, 3, 20, 37}) {
                if (in * out > 60000 && rows > 20) continue;
                check(kernels, {rows, in, out}, failures);
            }
    check(kernels, {0, 8, 8}, failures);
    check(kernels, {300, 4099, 25}, failures);  // more than is packed at a time
    check(kernels, {200, 64, 300}, failures);
    check(kernels, {72, 12001, 70}, failures);  // more of the weight than is packed at a time
    check(kernels, {40, 100, 100}, failures);   // rows and weight of about the same size
    check(kernels, {70, 300, 150}, failures);
    check(kernels, {13, 1024, 33}, failures);  // rows that share places of the cache
    LinearCase bare{20, 40, 30};
    bare.bias = bare.residual = false;
    check(kernels, bare, failures);
    for (const Type type : {Type::f16, Type::f32, Type::f64})
        for (const int64_t rows : {1, 7, 20, 33}) {
            LinearCase gated{rows, 40, 30, type, type, type};
            gated.activation = Activation::silu;
            gated.times = true;
            gated.residual = rows > 7;
            check(kernels, gated, failures);
        }
}

inline void check_linear_storage(const Kernels& kernels, Failures& failures) {
    const Type types[] = {Type::f16, Type::bf16, Type::f32, Type::f64};
    for (const int64_t rows : {1, 2, 7, 20})
        for (const Type x : types)
            for (const Type weight : types)
                for (const Type output : types) check(kernels, {rows, 43, 26, x, weight, output}, failures);
    for (const int64_t rows : {1, 5, 35})
        for (const Layout x : layouts)
            for (const Layout weight : layouts)
                for (const Layout output : layouts)
                    for (const Type type : {Type::f16, Type::f32})
                        check(kernels, {rows, 37, 27, Type::f32, type, type, x, weight, output}, failures);
    for (const Type type : types)
        check(kernels, {9, 70, 40, type, type, type, Layout::transposed, Layout::transposed}, failures);
}

// GGUF's blocks against the numbers that they stand for.
inline void check_quantised(const Kernels& kernels, Type type, int64_t rows, int64_t in, int64_t out, Type real,
                            Failures& failures) {
    const std::string name = "linear of quantised type " + std::to_string(int(type)) + ", " + std::to_string(rows) +
                             " × " + std::to_string(in) + " → " + std::to_string(out);
    const bool shifted = type == Type::q4_1;
    const size_t block = shifted ? 20 : 34;
    std::vector<uint8_t> bytes(static_cast<size_t>(in * out / 32) * block + 1);
    Array weight(Type::f32, 1, 1, out, in);
    const auto put_half = [](uint8_t* to, double x) {
        const uint16_t half = to_half(x);
        std::memcpy(to, &half, 2);
        return from_half(half);
    };
    for (int64_t b = 0; b < in * out / 32; ++b) {
        uint8_t* at = bytes.data() + static_cast<size_t>(b) * block;
        const double scale = put_half(at, random_number()), shift = shifted ? put_half(at + 2, random_number()) : 0;
        for (int i = 0; i < 32; ++i) {
            int number;
            if (shifted) {
                uint8_t& pair = at[4 + i % 16];
                number = static_cast<int>(8 + 8 * random_number());
                pair = static_cast<uint8_t>(i < 16 ? number : (number << 4) | pair);
            } else {
                number = static_cast<int>(127 * random_number());
                at[2 + i] = static_cast<uint8_t>(number);
            }
            weight.set(0, 0, b * 32 / in, b * 32 % in + i, scale * number + shift);
        }
    }
    const Array x = Array(real, 1, 1, rows, in).random(), output(real, 1, 1, rows, out);
    Linear l;
    l.x = x.view;
    l.weight = weight.view;
    l.weight.data = reinterpret_cast<char*>(bytes.data());
    l.weight.type = type;
    l.output = output.view;
    failures.that(kernels.linear(l), name + " stopped");
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t o = 0; o < out; ++o) {
            double sum = 0, size = 0;
            for (int64_t t = 0; t < in; ++t) {
                sum += x.get(r, t) * weight.get(o, t);
                size += std::fabs(x.get(r, t) * weight.get(o, t));
            }
            // Weights are single precision for both.
            if (failures.differ(name, output.get(r, o), sum, 0x1p-24 * (8 + std::sqrt(static_cast<double>(in))) * size))
                return;
        }
}
inline void check_quantised(const Kernels& kernels, Failures& failures) {
    for (const Type type : {Type::q8_0, Type::q4_1})
        for (const Type real : {Type::f32, Type::f64})
            for (const int64_t rows : {1, 2, 5, 16, 37, 300})
                for (const int64_t in : {32, 96, 4128}) check_quantised(kernels, type, rows, in, 29, real, failures);
}

// Each activation alone: one number in, weight 1.
inline void check_activations(const Kernels& kernels, Failures& failures) {
    const Activation all[] = {Activation::none, Activation::relu, Activation::gelu,      Activation::gelu_tanh,
                              Activation::silu, Activation::tanh, Activation::quick_gelu};
    const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    std::vector<double> points = {0., nan, infinity, 1e-30, -1e-30, 1e20, 3e4, -3e4, -200};
    for (int i = -2400; i <= 2400; ++i) points.push_back(i / 200. + 0.0013 * random_number());
    for (const Type type : {Type::f32, Type::f64})
        for (const Activation activation : all) {
            const auto count = static_cast<int64_t>(points.size());
            Array x(type, 1, 1, count, 1), one(type, 1, 1, 1, 1), output(type, 1, 1, count, 1);
            for (int64_t i = 0; i < count; ++i) x.set(0, 0, i, 0, points[static_cast<size_t>(i)]);
            one.set(0, 0, 0, 0, 1);
            Linear l;
            l.x = x.view;
            l.weight = one.view;
            l.output = output.view;
            l.activation = activation;
            kernels.linear(l);
            for (int64_t i = 0; i < count; ++i) {
                const double at = x.get(i, 0), expected = activation_of(activation, at);
                // Where e^(−y) is taken, a few roundings of y count y times.
                const double exponent =
                    activation == Activation::silu ? -at : std::fabs(at) + std::fabs(at * at * at) / 10;
                const double relative = rounding(type) * (8 + 6 * std::clamp(exponent, 0., 800.));
                const double bound = at != at || std::isinf(at)
                                         ? 0
                                         : relative * std::fabs(expected) + (type == Type::f32 ? 1e-36 : 1e-290);
                failures.differ("activation " + std::to_string(int(activation)) + " of " + std::to_string(at),
                                output.get(i, 0), expected, bound);
            }
        }
}

inline void check_linear_promises(const Kernels& kernels, Failures& failures) {
    // NaN stays in its row of x, or in its column when the weight holds it. This one has all bits set, so that rounding
    // them up would give −0.
    const uint32_t nan = 0x7fffffff;
    for (const int64_t rows : {1, 6, 21})
        for (const Type type : {Type::f16, Type::bf16, Type::f32}) {
            const Array x = Array(Type::f32, 1, 1, rows, 29).random(), output(type, 1, 1, rows, 31);
            Array weight = Array(Type::f32, 1, 1, 31, 29).random();
            std::memcpy(x.place(0, 0, rows / 2, 28), &nan, 4);
            weight.set(0, 0, 30, 3, HUGE_VAL);
            Linear l;
            l.x = x.view;
            l.weight = weight.view;
            l.output = output.view;
            kernels.linear(l);
            bool right = true;
            output.each([&](int64_t, int64_t, int64_t r, int64_t o) {
                const double got = output.get(r, o);
                right = right && (r == rows / 2 ? got != got : std::isfinite(got) == (o != 30));
            });
            failures.that(right, "NaN left its row or column");
        }
    // The same bits with any number of threads; and the residual's own memory may take the output.
    const int before = threads();
    const Array x = Array(Type::f32, 1, 1, 150, 200).random(), weight = Array(Type::f32, 1, 1, 170, 200).random();
    const Array residual = Array(Type::f32, 1, 1, 150, 170).random();
    std::vector<char> first;
    for (const int count : {1, 2, 5}) {
        set_threads(count);
        Array output(Type::f32, 1, 1, 150, 170);
        output.memory.assign(residual.memory.begin(), residual.memory.end());
        output.view.data = output.memory.data();
        Linear l;
        l.x = x.view;
        l.weight = weight.view;
        l.residual = l.output = output.view;
        l.activation = Activation::gelu;
        kernels.linear(l);
        if (first.empty()) first = output.memory;
        failures.that(first == output.memory, "linear depends on threads");
    }
    set_threads(before);
}

inline void check_norm(const Kernels& kernels, int64_t rows, int64_t size, bool centred, Type type, Type parameters,
                       Layout layout, double shift, bool in_place, Failures& failures) {
    const std::string name = "norm " + std::to_string(rows) + " × " + std::to_string(size) + ", centred " +
                             std::to_string(centred) + ", type " + std::to_string(int(type)) + ", layout " +
                             std::to_string(int(layout)) + ", in place " + std::to_string(in_place);
    const Array x = Array(type, 1, 1, rows, size, layout).random(1, shift), output(type, 1, 1, rows, size, layout);
    const Array weight = Array(parameters, 1, 1, 1, size).random(), bias = Array(parameters, 1, 1, 1, size).random();
    const bool given = size % 2 == 0 || in_place;
    std::vector<double> expected, bounds;
    const double unit = rounding(type == Type::f64 ? Type::f64 : Type::f32);
    for (int64_t r = 0; r < rows; ++r) {
        double mean = 0, square = 0;
        for (int64_t i = 0; i < size; ++i) mean += centred ? x.get(r, i) / static_cast<double>(size) : 0;
        for (int64_t i = 0; i < size; ++i) square += std::pow(x.get(r, i) - mean, 2) / static_cast<double>(size);
        const double scale = 1 / std::sqrt(square + 1e-5);
        for (int64_t i = 0; i < size; ++i) {
            const double normal = (x.get(r, i) - mean) * scale, factor = given ? weight.get(0, i) : 1;
            expected.push_back(normal * factor + (given ? bias.get(0, i) : 0));
            // Subtracting the mean leaves the rounding of numbers as large as the shift.
            bounds.push_back(unit * (32 + 8 * scale * std::fabs(shift)) * (1 + std::fabs(normal)) +
                             2 * rounding(type) * std::fabs(expected.back()) + 0x1p-24 * (type == Type::f16));
        }
    }
    Norm n;
    n.x = x.view;
    n.output = in_place ? x.view : output.view;
    if (given) n.weight = weight.view, n.bias = bias.view;
    n.epsilon = 1e-5;
    n.centred = centred;
    failures.that(kernels.norm(n), name + " stopped");
    failures.that(output.others_untouched(), name + " wrote outside");
    const Array& got = in_place ? x : output;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < size; ++i) {
            const auto at = static_cast<size_t>(r * size + i);
            if (failures.differ(name, got.get(r, i), expected[at], bounds[at])) return;
        }
}

inline void check_rotary(const Kernels& kernels, int64_t size, int64_t pairs, bool interleaved, Type type, Type angles,
                         Layout layout, bool own_angles, bool in_place, Failures& failures) {
    const std::string name = "rotary size " + std::to_string(size) + ", pairs " + std::to_string(pairs) +
                             ", interleaved " + std::to_string(interleaved) + ", type " + std::to_string(int(type)) +
                             ", layout " + std::to_string(int(layout));
    const int64_t batch = 2, heads = 3, tokens = 5;
    const Array x = Array(type, batch, heads, tokens, size, layout).random(),
                output(type, batch, heads, tokens, size, layout);
    const Array cosines = Array(angles, own_angles ? batch : 1, 1, tokens, pairs).random();
    const Array sines = Array(angles, own_angles ? batch : 1, 1, tokens, pairs, layout).random();
    std::vector<double> expected;
    x.each([&](int64_t b, int64_t h, int64_t t, int64_t d) {
        if (d >= 2 * pairs) return expected.push_back(x.get(b, h, t, d));
        const int64_t pair = interleaved ? d / 2 : d % pairs, step = interleaved ? 1 : pairs,
                      angle = own_angles ? b : 0;
        const bool second = interleaved ? d % 2 : d >= pairs;
        const double other = x.get(b, h, t, second ? d - step : d + step);
        expected.push_back(x.get(b, h, t, d) * cosines.get(angle, 0, t, pair) +
                           (second ? 1 : -1) * other * sines.get(angle, 0, t, pair));
    });
    Rotary r;
    r.x = x.view;
    r.output = in_place ? x.view : output.view;
    r.cosines = cosines.view;
    r.sines = sines.view;
    r.interleaved = interleaved;
    failures.that(kernels.rotary(r), name + " stopped");
    failures.that(output.others_untouched(), name + " wrote outside");
    const Array& got = in_place ? x : output;
    size_t at = 0;
    bool told = false;
    got.each([&](int64_t b, int64_t h, int64_t t, int64_t d) {
        const double wanted = expected[at++], bound = 3 * rounding(type) * (1 + std::fabs(wanted));
        if (!told) told = failures.differ(name, got.get(b, h, t, d), wanted, bound);
    });
}

inline void check_norms_and_rotary(const Kernels& kernels, Failures& failures) {
    for (const Type type : {Type::f16, Type::bf16, Type::f32, Type::f64})
        for (const bool centred : {true, false})
            for (const Type parameters : {type, type == Type::f64 ? Type::f64 : Type::f32})
                for (const int64_t size : {1, 2, 7, 8, 31, 64, 383, 1000})
                    check_norm(kernels, 5, size, centred, type, parameters, layouts[size % 5], 0, size % 3 == 0,
                               failures);
    for (const Layout layout : layouts)
        check_norm(kernels, 70, 390, true, Type::f32, Type::f32, layout, 100, false, failures);
    for (const Type type : {Type::f16, Type::bf16, Type::f32, Type::f64})
        for (const bool interleaved : {true, false})
            for (const int64_t pairs : {0, 1, 3, 8, 16, 21})
                for (const Layout layout : layouts)
                    check_rotary(kernels, 2 * pairs + pairs % 4, pairs, interleaved, type,
                                 pairs % 2           ? type
                                 : type == Type::f64 ? type
                                                     : Type::f32,
                                 layout, pairs % 3 == 0, pairs > 8, failures);
}

}  // namespace checks

inline int check_linear(const Kernels& kernels) {
    checks::Failures failures;
    checks::check_linear_shapes(kernels, failures);
    checks::check_linear_storage(kernels, failures);
    checks::check_quantised(kernels, failures);
    checks::check_activations(kernels, failures);
    checks::check_linear_promises(kernels, failures);
    checks::check_norms_and_rotary(kernels, failures);
    if (failures.count) std::printf("%d checks of linear, norm and rotary failed (%s)\n", failures.count, kernels.name);
    return failures.count;
}

}  // namespace regard
