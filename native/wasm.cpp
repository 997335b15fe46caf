// The kernels as a WebAssembly module: functions over addresses in its memory, called by web/engine/kernel.js, which
// checks shapes and types. Compiled by `make wasm`, with wasm_runtime.cpp. Left out is what a page does not compute:
// gradients, and sums over whole corpora.
#include "backflow.h"
#include "decode.h"
#include "forward.h"
#include "linear.h"
#include "norms.h"
#include "pooled.h"
#include "rotary.h"
#include "sha256.h"
#include "tile.h"
#include "wasm_runtime.h"

#define REGARD_EXPORT(name) extern "C" __attribute__((export_name(#name)))

namespace {

using namespace regard;
using namespace regard::REGARD_ISA;

// An array as the page describes it: ten integers. A null pointer is an array that is not given.
struct Described {
    int32_t data, type, shape[4], stride[4];
};
Described described[16];

View view_of(const Described* array) {
    View view;
    if (!array) return view;
    view.data = reinterpret_cast<char*>(array->data);
    view.type = static_cast<Type>(array->type);
    for (int axis = 0; axis < 4; ++axis) {
        view.shape[axis] = array->shape[axis];
        view.stride[axis] = array->stride[axis];
    }
    return view;
}

Scores scores;  // of the next call
int64_t first_position;

bool in_double() { return scores.queries.type == Type::f64; }

}  // namespace

REGARD_EXPORT(allocate) void* allocate_for_page(size_t bytes) { return allocate(bytes); }
REGARD_EXPORT(release) void release_for_page(void* memory) { release(memory); }

// Room for the descriptions of one call.
REGARD_EXPORT(descriptions) Described* descriptions() { return described; }

// What decides the scores of the next call of `attend`, `tile`, `pooled` or `column_sums`.
REGARD_EXPORT(set_scores)
void set_scores(const Described* queries, const Described* keys, double scale, double softcap, const Described* bias,
                const Described* mask, const Described* relative, int32_t relative_zero, const double* sinks,
                const int32_t* first, const int32_t* last, const int32_t* second_first, const int32_t* second_last,
                int32_t offset) {
    scores = Scores{};
    scores.queries = view_of(queries);
    scores.keys = view_of(keys);
    scores.scale = scale;
    scores.softcap = softcap;
    scores.bias = view_of(bias);
    scores.mask = view_of(mask);
    scores.relative = view_of(relative);
    scores.relative_zero = relative_zero;
    scores.sinks = sinks;
    scores.visible.first[0] = first;
    scores.visible.last[0] = last;
    scores.visible.first[1] = second_first;
    scores.visible.last[1] = second_last;
    first_position = offset;
    scores.offset = &first_position;
}

REGARD_EXPORT(attend)
void attend(const Described* values, const Described* output, void* row_max, void* row_sum, double* logsumexp,
            void* entropy, void* peak, void* distance, void* top_weight, int64_t* top_index, int32_t top) {
    Forward forward;
    forward.scores = scores;
    forward.values = view_of(values);
    forward.output = view_of(output);
    forward.rows = Rows{row_max, row_sum, logsumexp, entropy, peak, distance, top_weight, top_index, top};
    if (in_double())
        decodes(forward) ? forward_decode<double>(forward) : forward_panels<double>(forward);
    else
        decodes(forward) ? forward_decode<float>(forward) : forward_panels<float>(forward);
}

REGARD_EXPORT(tile) void tile(const void* row_max, const void* row_sum, int32_t stage, void* output) {
    const Tile tile{scores, {row_max, row_sum}, static_cast<Stage>(stage), output};
    in_double() ? tile_of<double>(tile) : tile_of<float>(tile);
}

REGARD_EXPORT(pooled)
void pooled(const void* row_max, const void* row_sum, const int64_t* row_edges, int32_t row_cells,
            const int64_t* column_edges, int32_t column_cells, int32_t pool, void* output) {
    const Pooled pooled{scores,       {row_max, row_sum},      row_edges, column_edges, row_cells,
                        column_cells, static_cast<Pool>(pool), output};
    in_double() ? pooled_of<double>(pooled) : pooled_of<float>(pooled);
}

REGARD_EXPORT(column_sums)
void column_sums(const void* row_max, const void* row_sum, const Described* output) {
    const Backflow backflow{scores, {row_max, row_sum}, View{}, view_of(output)};
    in_double() ? backflow_of<double>(backflow) : backflow_of<float>(backflow);
}

REGARD_EXPORT(linear)
void linear_of_page(const Described* x, const Described* weight, const Described* bias, const Described* times,
                    const Described* residual, const Described* output, int32_t activation) {
    linear(Linear{view_of(x), view_of(weight), view_of(bias), view_of(times), view_of(residual), view_of(output),
                  static_cast<Activation>(activation)});
}

REGARD_EXPORT(norm)
void norm_of_page(const Described* x, const Described* weight, const Described* bias, const Described* output,
                  double epsilon, int32_t centred) {
    norm(Norm{view_of(x), view_of(weight), view_of(bias), view_of(output), epsilon, centred != 0});
}

// What the norm of a row subtracts and divides by.
REGARD_EXPORT(moments) void moments(const double* row, int32_t count, double epsilon, int32_t centred, double* to) {
    const Moments<double> found(row, count, centred != 0, epsilon);
    to[0] = found.mean;
    to[1] = found.size;
}

REGARD_EXPORT(rotary)
void rotary_of_page(const Described* x, const Described* cosines, const Described* sines, const Described* output,
                    int32_t interleaved) {
    rotary(Rotary{view_of(x), view_of(output), view_of(cosines), view_of(sines), interleaved != 0});
}

// Some rows of a matrix of any type, as single or double precision.
REGARD_EXPORT(gather)
void gather(const Described* matrix, const int32_t* rows, int32_t count, const Described* output) {
    const View from = view_of(matrix), to = view_of(output);
    for (int32_t r = 0; r < count; ++r) {
        if (to.type == Type::f64)
            copy_rows<double>(from, rows[r], 1, 0, from.shape[3], reinterpret_cast<double*>(to.at(0, 0, r)), 0);
        else
            copy_rows<float>(from, rows[r], 1, 0, from.shape[3], reinterpret_cast<float*>(to.at(0, 0, r)), 0);
    }
}

// The 32 bytes of a SHA-256 digest.
REGARD_EXPORT(sha256) void sha256(const uint8_t* bytes, size_t count, uint8_t* to) {
    Sha256().digest(bytes, count, to);
}
