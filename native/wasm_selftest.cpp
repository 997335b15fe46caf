// What selftest.cpp needs of dispatch.cpp and the pool where WebAssembly is the only instruction set.
#include "dispatch.h"
#include "pool.h"

namespace regard {
namespace wasm {
extern const Kernels kernels;
}

std::vector<std::string> runnable() { return {"wasm"}; }
const Kernels* find(const std::string&) { return &wasm::kernels; }
void set_threads(int) {}

}  // namespace regard
