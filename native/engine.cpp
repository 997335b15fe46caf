// All kernels for one instruction set. Compiled once for each, with its flags and -DREGARD_ISA=its name.
#include "backflow.h"
#include "backward.h"
#include "decode.h"
#include "elementwise.h"
#include "forward.h"
#include "heads.h"
#include "linear.h"
#include "norms.h"
#include "pooled.h"
#include "rotary.h"
#include "tile.h"

namespace regard {
#if defined(__AVX512F__)
namespace avx2 {
extern const Kernels kernels;
}
#endif
namespace REGARD_ISA {
namespace {

bool in_double(const View& view) { return view.type == Type::f64; }
bool no_rows(const Scores& s) { return s.batch() * s.heads() * s.rows() == 0; }

#if defined(__AVX512F__)
// Up to 16 queries fill half a panel of AVX-512 and a whole one of AVX2, whose machines AVX-512's are too: 16 tokens
// take 9 µs there, and 13 here (8 heads, Zen 4). Long rows of keys for a single query are read here all the same.
bool fills_half_a_panel(const Scores& s) {
    const int64_t half = in_double(s.queries) ? lanes<double> : lanes<float>;
    return s.rows() <= half && (s.rows() > decode_rows || s.columns() <= 256);
}
#endif

bool forward(const Forward& f) {
    if (no_rows(f.scores)) return true;
#if defined(__AVX512F__)
    if (fills_half_a_panel(f.scores)) return avx2::kernels.forward(f);
#endif
    const bool few = decodes(f);
    if (in_double(f.scores.queries)) return few ? forward_decode<double>(f) : forward_panels<double>(f);
    return few ? forward_decode<float>(f) : forward_panels<float>(f);
}
bool backflow(const Backflow& b) {
    return in_double(b.scores.queries) ? backflow_of<double>(b) : backflow_of<float>(b);
}
bool pooled(const Pooled& p) { return in_double(p.scores.queries) ? pooled_of<double>(p) : pooled_of<float>(p); }
bool tile(const Tile& t) {
    if (no_rows(t.scores)) return true;
    return in_double(t.scores.queries) ? tile_of<double>(t) : tile_of<float>(t);
}
bool backward(const Backward& b) {
    return in_double(b.scores.queries) ? backward_of<double>(b) : backward_of<float>(b);
}

// The machine's limit: as many independent sums as fit the registers.
constexpr int sums = registers == 32 ? 24 : 12;
double multiply_adds(int64_t count) {
    Vec<float> sum[sums];
    for (int i = 0; i < sums; ++i) sum[i] = all(static_cast<float>(i));
    // Unknown to the compiler, which would otherwise find that the sum stays 1 and remove the loop.
    const volatile float decay = 0.999f, growth = 0.001f;
    const Vec<float> by = all<float>(decay), plus = all<float>(growth);
    for (int64_t c = 0; c < count; ++c) {
#pragma GCC unroll 32
        for (int i = 0; i < sums; ++i) sum[i] = sum[i] * by + plus;
    }
    float total = 0;
    for (int i = 0; i < sums; ++i) total += sum_lanes<float>(sum[i]);
    return static_cast<double>(total);
}

#define REGARD_TEXT_OF(name) #name
#define REGARD_TEXT(name) REGARD_TEXT_OF(name)

}  // namespace

extern const Kernels kernels;
const Kernels kernels{REGARD_TEXT(REGARD_ISA),
                      lanes<float>,
                      forward,
                      backflow,
                      pooled,
                      tile,
                      backward,
                      linear,
                      activate,
                      norm,
                      rotary,
                      vector_lengths,
                      head_sums,
                      strongest_links,
                      word_choices,
                      multiply_adds,
                      2 * sums * lanes<float>};

}  // namespace REGARD_ISA
}  // namespace regard
