// What an x86-64 processor and its operating system run, by CPUID and XGETBV: __builtin_cpu_supports needs a runtime
// library that neither clang-cl nor Zig links.
#pragma once

#include <cpuid.h>

namespace regard {

struct CpuFeatures {
    bool avx2 = false;    // with FMA and F16C
    bool avx512 = false;  // F, BW, DQ and VL
};

inline CpuFeatures cpu_features() {
    CpuFeatures features;
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return features;
    const auto has = [](unsigned word, auto... bits) { return ((word >> bits & 1u) && ...); };
    if (!has(ecx, 12, 27, 28, 29)) return features;  // FMA, OSXSAVE, AVX, F16C
    unsigned saved, high;  // the registers that the system saves: 1 SSE, 2 AVX, 5 to 7 AVX-512
    __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if (!has(saved, 1, 2) || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return features;
    features.avx2 = has(ebx, 5);
#if defined(__APPLE__)
    const bool saves_avx512 = true;  // macOS sets the bits when AVX-512 is first used
#else
    const bool saves_avx512 = has(saved, 5, 6, 7);
#endif
    features.avx512 = features.avx2 && saves_avx512 && has(ebx, 16, 17, 30, 31);
    return features;
}

}  // namespace regard
