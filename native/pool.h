// Our own threads: a job is a number of items, claimed one by one from an atomic counter.
//
// The caller works too, and never waits for a worker that has not claimed an item: a worker that the system does not
// run costs nothing. Several threads may run jobs at once; after fork the child starts with a fresh pool.
#pragma once
#include <cstddef>
#include <cstdint>

namespace regard {

using Work = void (*)(void* context, int64_t item, void* scratch);

// Runs `work` for every item below `items`; `scratch_bytes` of aligned memory are kept for each thread between jobs.
// `cost` is the job's number of floating point operations, so that small jobs stay on the calling thread.
// False when the caller's poll (below) asked to stop; items that had begun are then finished or cut short.
bool run(int64_t items, size_t scratch_bytes, double cost, Work work, void* context);

// Inside an item: should it stop early? Cheap; long items ask it between tiles.
bool stopping();

// The calling thread asks this about every 50 ms while a job runs; true means stop. Set by the bindings, thread-local.
using Poll = bool (*)();
void set_poll(Poll poll);

// OpenMP's threads in place of ours. While PyTorch trains, its threads spin on every core between its operations, and a
// worker of ours would get half a core: a backward pass of 64 tokens then takes 0.9 ms instead of 0.5. `parallel` is
// GOMP_parallel and `most` omp_get_max_threads of the library that PyTorch uses; no job borrows them in a forked child.
using Parallel = void (*)(void (*work)(void*), void* context, unsigned threads, unsigned flags);
void set_team(Parallel parallel, int (*most)());
void borrow_team(bool borrows);  // thread-local: whether the jobs of this thread run there

int threads();
void set_threads(int count);  // 1 to 256; takes effect for jobs that start later

}  // namespace regard
