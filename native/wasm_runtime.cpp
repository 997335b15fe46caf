// What the kernels need of a system and a C++ library, in WebAssembly: a pool of one thread, and memory. With it, the
// module imports nothing.
#include "wasm_runtime.h"

#include <new>
#include <version>

#include "memory.h"
#include "pool.h"

namespace regard {

bool run(int64_t items, size_t scratch_bytes, double, Work work, void* context) {
    static KeptMemory scratch;
    void* memory = scratch.at_least(scratch_bytes);
    for (int64_t item = 0; item < items; ++item) work(context, item, memory);
    return true;
}

// A job ends when its call returns: the page makes many small calls, and stops between them.
bool stopping() { return false; }
int threads() { return 1; }

namespace {

// Free parts of the memory in the order of their addresses, neighbours merged. The first that is large enough is taken:
// there are few. (Zig's own allocator rounds up to powers of two, which for weights would double the memory.)
constexpr size_t unit = 64, page = 65536;
struct alignas(unit) Block {
    size_t bytes;  // this header included
    Block* next;   // while it is free
};
Block* first_free = nullptr;

void put(Block* block) {
    Block** place = &first_free;
    Block* before = nullptr;
    while (*place && *place < block) {
        before = *place;
        place = &before->next;
    }
    block->next = *place;
    *place = block;
    const auto merge = [](Block* low, Block* high) {
        if (!low || !high || reinterpret_cast<char*>(low) + low->bytes != reinterpret_cast<char*>(high)) return;
        low->bytes += high->bytes;
        low->next = high->next;
    };
    merge(block, block->next);
    merge(before, block);
}

Block* take(size_t bytes) {
    for (Block** place = &first_free; *place; place = &(*place)->next) {
        Block* block = *place;
        if (block->bytes < bytes) continue;
        if (block->bytes < bytes + 2 * unit) {
            *place = block->next;
            return block;
        }
        auto* rest = reinterpret_cast<Block*>(reinterpret_cast<char*>(block) + bytes);
        rest->bytes = block->bytes - bytes;
        rest->next = block->next;
        *place = rest;
        block->bytes = bytes;
        return block;
    }
    return nullptr;
}

bool grow(size_t bytes) {
    const size_t pages = (bytes + page - 1) / page, before = __builtin_wasm_memory_grow(0, pages);
    if (before == SIZE_MAX) return false;
    auto* block = reinterpret_cast<Block*>(before * page);
    block->bytes = pages * page;
    put(block);
    return true;
}

}  // namespace

void* allocate(size_t bytes) {
    if (bytes > SIZE_MAX - page) return nullptr;
    const size_t whole = (bytes + 2 * unit - 1) / unit * unit;
    Block* block = take(whole);
    if (!block && grow(whole)) block = take(whole);
    return block ? block + 1 : nullptr;
}
void release(void* memory) {
    if (memory) put(static_cast<Block*>(memory) - 1);
}

}  // namespace regard

void* operator new(size_t bytes) {
    void* memory = regard::allocate(bytes);
    if (!memory) __builtin_trap();
    return memory;
}
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new(size_t bytes, std::align_val_t) { return operator new(bytes); }  // to at most a unit
void operator delete(void* memory) noexcept { regard::release(memory); }
void operator delete[](void* memory) noexcept { regard::release(memory); }
void operator delete(void* memory, size_t) noexcept { regard::release(memory); }
void operator delete[](void* memory, size_t) noexcept { regard::release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { regard::release(memory); }

// The one thread never ends.
extern "C" int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }

_LIBCPP_BEGIN_NAMESPACE_STD
// The library's own writes to the standard error stream, which a page does not have.
[[noreturn]] void __libcpp_verbose_abort(const char*, ...) noexcept { __builtin_trap(); }
_LIBCPP_END_NAMESPACE_STD
