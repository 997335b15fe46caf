// What the kernels compute, as plain structs: no Python, no templates. Bindings fill these; engines read them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace regard {

// The last two are GGUF's blocks of 32 numbers, read as weights of `Linear` only: see storage.h.
enum class Type : uint8_t { f16, bf16, f32, f64, u8, i32, i64, q8_0, q4_1 };

constexpr size_t bytes_of(Type type) {
    switch (type) {
        case Type::u8: return 1;
        case Type::f16:
        case Type::bf16: return 2;
        case Type::f32:
        case Type::i32: return 4;
        default: return 8;
    }
}

// An array of four axes; strides count elements and may be zero (broadcast) or negative. Null data: not given.
struct View {
    char* data = nullptr;
    int64_t shape[4] = {1, 1, 1, 1};
    int64_t stride[4] = {0, 0, 0, 0};
    Type type = Type::f32;

    explicit operator bool() const { return data != nullptr; }
    char* at(int64_t a, int64_t b, int64_t c = 0) const {
        return data + static_cast<int64_t>(bytes_of(type)) * (a * stride[0] + b * stride[1] + c * stride[2]);
    }
};

// Up to two key intervals [first, last) per query; `batch` is the distance between sequences, 0 where they share.
struct Intervals {
    const int32_t* first[2] = {nullptr, nullptr};
    const int32_t* last[2] = {nullptr, nullptr};
    int64_t batch = 0;

    explicit operator bool() const { return first[0] != nullptr; }
};

// Scores of every query and key: score → scaled → capped → biased → masked.
struct Scores {
    View queries;  // batch, head, query, size
    View keys;     // batch, key head, key, size
    double scale = 1;
    double softcap = 0;  // 0: none
    View bias;           // batch, head, query, key; broadcast axes have stride 0
    View mask;           // u8, likewise; 0 hides a key
    View relative;       // head, 1, 1, span: adds relative[i - j + relative_zero]
    int64_t relative_zero = 0;
    const double* sinks = nullptr;  // one per head
    Intervals visible;
    const int64_t* offset = nullptr;  // position of the first query; null: 0
    int64_t offset_stride = 0;        // 0: one for all sequences

    int64_t batch() const { return queries.shape[0]; }
    int64_t heads() const { return queries.shape[1]; }
    int64_t rows() const { return queries.shape[2]; }
    int64_t size() const { return queries.shape[3]; }
    int64_t columns() const { return keys.shape[2]; }
    int64_t key_head(int64_t head) const { return head / (queries.shape[1] / keys.shape[1]); }
    int64_t first_position(int64_t sequence) const { return offset ? offset[sequence * offset_stride] : 0; }
};

// Row statistics, contiguous (batch, head, query), of the computing type (float or double); null: not wanted.
struct Rows {
    void* row_max = nullptr;  // what RowState holds
    void* row_sum = nullptr;
    double* logsumexp = nullptr;  // double for both: rounded to float, it would lose digits of large scores
    void* entropy = nullptr;
    void* peak = nullptr;
    void* distance = nullptr;
    void* top_weight = nullptr;  // (batch, head, query, top)
    int64_t* top_index = nullptr;
    int64_t top = 0;

    bool any() const { return row_max || row_sum || logsumexp || entropy || peak || distance || top; }
};

struct Forward {
    Scores scores;
    View values;  // batch, key head, key, value size; none: statistics only
    View output;  // batch, head, query, value size
    Rows rows;
};

enum class Stage : int32_t { score, scaled, capped, biased, masked, weight };
enum class Pool : int32_t { sum, max };

// What every row needs to recompute its weights, exp(factor · (score − row_max)) / row_sum: (batch, head, query),
// contiguous, of the computing type. The units of row_max are those of `Units` in scores.h. A row that sees no key and
// has no sink: −inf and 0.
struct RowState {
    const void* row_max = nullptr;
    const void* row_sum = nullptr;
};

// Passes that know each row's state.
struct Backflow {
    Scores scores;
    RowState state;
    View rows;    // batch, head, query, size; none: ones, so that `output` holds column sums
    View output;  // batch, head, key, size (1 for column sums)
};

struct Pooled {
    Scores scores;
    RowState state;
    const int64_t* row_edges = nullptr;
    const int64_t* column_edges = nullptr;
    int64_t row_cells = 0, column_cells = 0;
    Pool pool = Pool::sum;
    void* output = nullptr;  // (batch, head, row cell, column cell), computing type
};

struct Tile {
    Scores scores;
    RowState state;
    Stage stage = Stage::weight;
    void* output = nullptr;  // (batch, head, query, key), computing type
};

struct Backward {
    Scores scores;
    View values, output, flow;
    RowState state;
    View grad_queries, grad_keys, grad_values;
    View grad_bias;                // computing type, full or broadcast (stride 0) axes; none: not wanted
    View grad_relative;            // computing type, (head or 1, 1, 1, span); none: not wanted
    double* grad_sinks = nullptr;  // one per head
};

enum class Activation : int32_t { none, relu, gelu, gelu_tanh, silu, tanh, quick_gelu };

struct Linear {
    View x;         // 1, 1, row, in
    View weight;    // 1, 1, out, in
    View bias;      // 1, 1, 1, out
    View times;     // 1, 1, row, out: a gate, multiplied with what the activation gives
    View residual;  // 1, 1, row, out
    View output;    // 1, 1, row, out
    Activation activation = Activation::none;
};

// gelu, gelu_tanh, silu and quick_gelu of contiguous numbers of one type, (1, 1, 1, count).
struct Activate {
    View x, flow, output;  // flow: the gradient after the activation; none: the activation itself is wanted
    Activation activation = Activation::gelu;
};

struct Norm {
    View x, weight, bias, output;  // (1, 1, row, size); weight and bias (1, 1, 1, size)
    double epsilon = 0;
    bool centred = true;  // layer norm; false: root mean square
};

struct Rotary {
    View x, output;       // batch, head, token, size
    View cosines, sines;  // batch or 1, 1, token, pairs
    bool interleaved = false;
};

// Sums over the queries of texts of equal length, for every head. The order is that of OF_ROWS in
// regard/heads/statistics.py; `x_of_rest` stands right after x.
enum class Statistic : int32_t {
    entropy,
    evenness,
    distance,
    distance_of_rest,
    first,
    separators,
    punctuation,
    itself,
    itself_of_rest,
    previous,
    previous_of_rest,
    next,
    next_of_rest,
    repeated,
    repeated_of_rest,
    same_word,
    same_word_of_rest,
    window,
    window_of_rest,
    sinks_by_norm
};
constexpr int statistic_count = 20;

struct HeadSums {
    int64_t texts, heads, rows, keys;
    const float* weights;                   // (text, head, row, key)
    const float *entropy, *distance;        // (text, head, row)
    const float* norms;                     // (text, head, key): ‖v · W_O‖
    const uint8_t* flags;                   // (text, key): 1 content, 2 special, 4 punctuation
    const int32_t *same_token, *same_word;  // (text, key): the next one like it, in a circle
    int64_t first;                          // position of the first row
    bool causal;
    int64_t window, long_enough, fewest;  // tokens on either side; content keys for a window, and for an evenness
    double* sums;                         // (text, head, statistic, 2): amount and count, added to
    double* received;                     // (text, head, key), added to
};

// ‖x · W_O‖ of vectors x, from W_Oᵀ W_O of every head.
struct Lengths {
    View vectors;        // 1, head or key head, token, size; the numbers of a vector are contiguous
    const float* grams;  // (head, size, size)
    int64_t heads;
    float* lengths;  // (head, token)
};

// Of every query the largest weight on a key that may be chosen and is not the query itself.
struct StrongestLinks {
    int64_t texts, heads, rows, keys;
    const float* weights;  // (text, head, row, key)
    const uint8_t* may;    // (text, key)
    int64_t first;         // position of the first row
    int32_t* best;         // (text, head, row)
    float* best_weight;    // −1 where none may be chosen
};

// Of every word the other word with the largest weight.
struct WordChoices {
    int64_t texts, heads, keys, words;  // words: of the text with most
    const float* weights;               // (text, head, key, key)
    const int32_t* edges;               // (text, word + 1): the first token of each word
    const int32_t* counts;              // (text,): words
    const uint8_t* aside;               // (text, word): never chosen
    int32_t* best;                      // (text, head, word); −1: none has any weight
};

// One instruction set's kernels. Each returns false when the caller asked to stop.
struct Kernels {
    const char* name;
    int lanes;
    bool (*forward)(const Forward&);
    bool (*backflow)(const Backflow&);
    bool (*pooled)(const Pooled&);
    bool (*tile)(const Tile&);
    bool (*backward)(const Backward&);
    bool (*linear)(const Linear&);
    bool (*activate)(const Activate&);
    bool (*norm)(const Norm&);
    bool (*rotary)(const Rotary&);
    bool (*lengths)(const Lengths&);
    bool (*head_sums)(const HeadSums&);
    bool (*strongest_links)(const StrongestLinks&);
    bool (*word_choices)(const WordChoices&);
    double (*multiply_adds)(int64_t count);  // a loop of fused multiply-adds on this thread; gives a value to keep
    int64_t multiply_adds_per_count;         // floating point operations in one count
};

}  // namespace regard
