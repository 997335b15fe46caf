#include "dispatch.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include "pool.h"
#if defined(__x86_64__) || defined(_M_X64)
#include "cpu.h"
#endif

namespace regard {

#if defined(__x86_64__) || defined(_M_X64)
namespace avx512 {
extern const Kernels kernels;
}
namespace avx2 {
extern const Kernels kernels;
}
#elif defined(__aarch64__)
namespace neon {
extern const Kernels kernels;
}
#endif
namespace plain {
extern const Kernels kernels;
}

namespace {

struct Entry {
    const Kernels* kernels;
    bool runs;
};

std::vector<Entry> entries() {
    std::vector<Entry> all;
#if defined(__x86_64__) || defined(_M_X64)
    static const CpuFeatures cpu = cpu_features();  // CPUID traps in a virtual machine
    all.push_back({&avx512::kernels, cpu.avx512});
    all.push_back({&avx2::kernels, cpu.avx2});
#elif defined(__aarch64__)
    all.push_back({&neon::kernels, true});
#endif
    all.push_back({&plain::kernels, true});
    return all;
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

Choice choose() {
    const char* forced = std::getenv("REGARD_ISA");
    for (const Entry& entry : entries()) {
        if (forced && *forced) {
            if (entry.kernels->name != std::string(forced)) continue;
            if (!entry.runs)
                throw std::runtime_error("REGARD_ISA=" + std::string(forced) +
                                         ": this machine cannot run it. It runs " + joined(runnable()) + ".");
            return {entry.kernels, "REGARD_ISA asks for it"};
        }
        if (entry.runs) return {entry.kernels, "the best that this machine runs"};
    }
    throw std::runtime_error("REGARD_ISA=" + std::string(forced) + " is not an instruction set of this build. It has " +
                             joined(compiled()) + ".");
}

}  // namespace

const Choice& chosen() {
    static const Choice choice = choose();
    return choice;
}

std::vector<std::string> compiled() {
    std::vector<std::string> names;
    for (const Entry& entry : entries()) names.push_back(entry.kernels->name);
    return names;
}

std::vector<std::string> runnable() {
    std::vector<std::string> names;
    for (const Entry& entry : entries())
        if (entry.runs) names.push_back(entry.kernels->name);
    return names;
}

const Kernels* find(const std::string& name) {
    for (const Entry& entry : entries())
        if (entry.kernels->name == name && entry.runs) return entry.kernels;
    return nullptr;
}

double machine_limit(double seconds) {
    using Clock = std::chrono::steady_clock;
    const Kernels& kernels = *chosen().kernels;
    const int64_t count = 200000;
    const int64_t items = 8 * threads();
    struct Context {
        const Kernels& kernels;
        int64_t count;
    } context{kernels, count};
    double best = 0;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    do {
        const auto start = Clock::now();
        run(
            items, 64, 1e18,
            [](void* given, int64_t, void* memory) {
                const auto& c = *static_cast<const Context*>(given);
                *static_cast<volatile double*>(memory) = c.kernels.multiply_adds(c.count);
            },
            &context);
        const double took = std::chrono::duration<double>(Clock::now() - start).count();
        best = std::max(best, static_cast<double>(items * count * kernels.multiply_adds_per_count) / took / 1e9);
    } while (Clock::now() < end);
    return best;
}

}  // namespace regard
