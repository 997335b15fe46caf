// Jobs of the pool as callables, and the memory that their items take from a thread's scratch.
#pragma once
#include "lanes.h"
#include "pool.h"

namespace regard {
namespace REGARD_ISA {
namespace {

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Hands out parts of a thread's memory, each on its own cache lines.
struct Parts {
    char* base;
    size_t used = 0;
    template <class T>
    T* take(int64_t count) {
        T* part = reinterpret_cast<T*>(base + used);
        used += static_cast<size_t>(round_up(count * static_cast<int64_t>(sizeof(T)), 64));
        return part;
    }
};

// The memory that an item of this plan needs.
template <class Plan>
size_t scratch_of(const Plan& plan) {
    Parts parts{nullptr};
    typename Plan::Workspace probe(plan, parts);
    return parts.used;
}

template <class Work>
bool run_items(int64_t items, size_t scratch, double cost, Work& work) {
    return run(
        items, scratch, cost,
        [](void* context, int64_t item, void* memory) { (*static_cast<Work*>(context))(item, memory); }, &work);
}

}  // namespace
}  // namespace REGARD_ISA
}  // namespace regard
