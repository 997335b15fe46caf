// Memory that is kept between jobs: a thread's own, or that of the thread that began the job.
#pragma once
#include <cstddef>
#include <new>

namespace regard {
namespace {  // each instruction set compiles its own: a shared one could use instructions that this machine lacks

struct KeptMemory {
    void* data = nullptr;
    size_t bytes = 0;

    void* at_least(size_t wanted) {
        if (wanted > bytes) {
            release();
            data = ::operator new(wanted, std::align_val_t(64));
            bytes = wanted;
        }
        return data;
    }
    void release() {
        if (data) ::operator delete(data, std::align_val_t(64));
        data = nullptr;
        bytes = 0;
    }
    ~KeptMemory() { release(); }
};

}  // namespace
}  // namespace regard
