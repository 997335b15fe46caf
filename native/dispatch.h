// Picks the kernels that this machine can run.
#pragma once
#include <string>
#include <vector>

#include "problem.h"

namespace regard {

struct Choice {
    const Kernels* kernels;
    std::string why;  // one sentence for `regard.engines.engine()`
};

// The best instruction set of this machine, or the one that REGARD_ISA names; throws std::runtime_error if that is
// unknown or this machine cannot run it.
const Choice& chosen();
std::vector<std::string> compiled();  // names of all sets in this build
std::vector<std::string> runnable();  // those this machine can run, best first
const Kernels* find(const std::string& name);

// Floating point operations per second of a fused multiply-add loop on all threads, in units of 1e9.
double machine_limit(double seconds);

}  // namespace regard
