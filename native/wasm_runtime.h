// The memory of the WebAssembly module.
#pragma once
#include <cstddef>

namespace regard {

void* allocate(size_t bytes);  // aligned to 64 bytes; null if there is not enough
void release(void* memory);

}  // namespace regard
