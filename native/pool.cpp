#include "pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cgroup.h"
#include "memory.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#elif !defined(_WIN32)
#include <pthread.h>
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace regard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto poll_every = std::chrono::milliseconds(50);
// Waking a sleeping thread costs the caller about 5 µs, and the worker arrives 10 to 50 µs later: less work than this
// (floating point operations) is done sooner alone. A worker that is still awake arrives within a microsecond.
constexpr double worth_waking = 3e6, worth_sharing = 3e5;
// Shorter jobs end before a request to stop could matter.
constexpr double worth_polling = 1e9;
// After a job a worker stays awake for some 50 µs: the next call of a model comes within that, and other libraries'
// threads are not kept off their core for longer. Calls that follow each other that quickly wake a worker for small
// jobs too.
constexpr int awake_spins = 1500;
constexpr auto soon = std::chrono::microseconds(50);

void breathe() {
#if defined(__x86_64__) || defined(_M_X64)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

struct Job {
    int64_t items;
    size_t scratch_bytes;
    Work work;
    void* context;
    bool polls;
    std::atomic<int64_t> next{0};
    std::atomic<bool> stop{false};
    std::atomic<int> inside{0};  // workers that hold this job
    int wanted;                  // workers it can still use; guarded by the pool's mutex
};

thread_local KeptMemory scratch;
thread_local Poll poll = nullptr;
thread_local Job* current = nullptr;
thread_local bool calling = false;
thread_local Clock::time_point last_poll, last_job;

void claim_items(Job& job, void* memory) {
    for (;;) {
        if (job.stop.load(std::memory_order_relaxed)) return;
        const int64_t item = job.next.fetch_add(1, std::memory_order_relaxed);
        if (item >= job.items) return;
        job.work(job.context, item, memory);
        if (calling && job.polls) stopping();
    }
}

class Pool {
  public:
    explicit Pool(int workers) {
        for (int w = 0; w < workers; ++w) workers_.emplace_back([this] { serve(); });
#if defined(__linux__)
        for (auto& worker : workers_) handles_.push_back(worker.native_handle());
        if (sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) handles_.clear();
#endif
        for (auto& worker : workers_) worker.detach();
    }

    // Keeps the workers off the core that the caller is on. Where other libraries' threads still spin on all others,
    // the kernel would wake a worker on the caller's own core, and both would take turns.
    void make_room() {
#if defined(__linux__)
        const int core = sched_getcpu();
        if (core < 0 || core >= CPU_SETSIZE || core == kept_off_.exchange(core, std::memory_order_relaxed)) return;
        cpu_set_t others = allowed_;
        CPU_CLR(core, &others);
        if (CPU_COUNT(&others) < size()) return;
        for (const auto handle : handles_) pthread_setaffinity_np(handle, sizeof others, &others);
#endif
    }

    int size() const { return static_cast<int>(workers_.size()); }

    // Ends idle workers. The pool itself stays: a call may be about to use it.
    void close() {
        std::lock_guard<std::mutex> lock(mutex_);
        closing_ = true;
        wake_.notify_all();
    }

    bool awake() const { return spinning_.load(std::memory_order_relaxed) > 0; }

    void offer(Job& job) {
        bool sleepers, several;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            jobs_.push_back(&job);
            offered_.fetch_add(1, std::memory_order_release);
            sleepers = sleeping_ > 0;
            several = job.wanted > 1;
        }
        if (!sleepers) return;
        if (several)
            wake_.notify_all();
        else
            wake_.notify_one();
    }

    // Takes the job off the list, then waits for the workers that are inside.
    void finish(Job& job) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), &job), jobs_.end());
        }
        for (int spin = 0; spin < 2000; ++spin) {
            if (job.inside.load(std::memory_order_acquire) == 0) return;
            breathe();
        }
        // A worker that lost its core may be waiting for ours: sleep to let it finish.
        waiting_.fetch_add(1);
        std::unique_lock<std::mutex> lock(mutex_);
        while (job.inside.load() != 0) {
            left_.wait_for(lock, poll_every);
            lock.unlock();
            stopping();
            lock.lock();
        }
        waiting_.fetch_sub(1);
    }

  private:
    Job* find_job() {
        for (Job* job : jobs_)
            if (job->wanted > 0 && job->next.load(std::memory_order_relaxed) < job->items) return job;
        return nullptr;
    }

    void serve() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            Job* job = find_job();
            if (!job) {
                if (closing_) return;
                const uint64_t seen = offered_.load(std::memory_order_relaxed);
                lock.unlock();
                const bool came = stay_awake(seen);
                lock.lock();
                if (came || offered_.load(std::memory_order_relaxed) != seen || closing_) continue;
                ++sleeping_;
                wake_.wait(lock);
                --sleeping_;
                continue;
            }
            --job->wanted;
            job->inside.fetch_add(1, std::memory_order_relaxed);
            lock.unlock();
            try {
                current = job;
                claim_items(*job, scratch.at_least(job->scratch_bytes));
            } catch (const std::bad_alloc&) {
                // The caller does the work alone.
            }
            current = nullptr;
            job->inside.fetch_sub(1);  // from here on the job may no longer exist
            lock.lock();
            if (waiting_.load() > 0) left_.notify_all();
        }
    }

    // Spins briefly for the next job; true if one arrived.
    bool stay_awake(uint64_t seen) {
        spinning_.fetch_add(1, std::memory_order_relaxed);
        bool came = false;
        for (int spin = 0; spin < awake_spins && !came; ++spin) {
            breathe();
            came = offered_.load(std::memory_order_acquire) != seen;
        }
        spinning_.fetch_sub(1, std::memory_order_relaxed);
        return came;
    }

    std::mutex mutex_;
    std::condition_variable wake_, left_;
    std::vector<Job*> jobs_;
    std::vector<std::thread> workers_;
    std::atomic<uint64_t> offered_{0};
    std::atomic<int> spinning_{0}, waiting_{0};
    int sleeping_ = 0;
    bool closing_ = false;
#if defined(__linux__)
    std::vector<std::thread::native_handle_type> handles_;
    cpu_set_t allowed_;
    std::atomic<int> kept_off_{-1};
#endif
};

std::mutex pool_mutex;
std::atomic<Pool*> pool{nullptr};  // never deleted: its threads may be anywhere when the process ends
std::vector<Pool*>* retired = nullptr;
int wanted_threads = 0;

std::atomic<Parallel> team{nullptr};
std::atomic<int (*)()> team_size{nullptr};
thread_local bool borrows = false;

// Every thread of the team does this, the caller among them.
void claim_in_team(void* context) {
    Job& job = *static_cast<Job*>(context);
    const bool is_worker = !calling;
    try {
        if (is_worker) current = &job;
        claim_items(job, scratch.at_least(job.scratch_bytes));
    } catch (const std::bad_alloc&) {
        // The caller, whose memory was taken before, does the work.
    }
    if (is_worker) current = nullptr;
}

int default_threads() {
    if (const char* text = std::getenv("REGARD_THREADS")) {
        char* end = nullptr;
        const long count = std::strtol(text, &end, 10);
        if (*text && *end == 0 && count >= 1 && count <= 256) return static_cast<int>(count);
        if (*text)
            throw std::runtime_error("REGARD_THREADS=" + std::string(text) +
                                     " is not a number of threads from 1 to 256.");
    }
    int cores = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
    cores = std::min(cores, cgroup_cpu_limit(""));
#endif
    return std::clamp(cores, 1, 256);
}

#if !defined(_WIN32)
void before_fork() { pool_mutex.lock(); }
void after_fork_in_parent() { pool_mutex.unlock(); }
void after_fork_in_child() {
    // After fork the workers do not exist here, and their locks may be held: abandon that pool.
    pool.store(nullptr);
    team.store(nullptr);  // the same holds for OpenMP's threads
    current = nullptr;
    calling = false;
    pool_mutex.unlock();
}
void register_fork_handlers() {
    static const int registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    (void)registered;
}
#endif

Pool* the_pool() {
    Pool* found = pool.load(std::memory_order_acquire);
    if (found) return found;
    std::lock_guard<std::mutex> lock(pool_mutex);
    found = pool.load();
    if (found) return found;
#if !defined(_WIN32)
    register_fork_handlers();
#endif
    if (wanted_threads == 0) wanted_threads = default_threads();
    found = new Pool(wanted_threads - 1);
    pool.store(found, std::memory_order_release);
    return found;
}

}  // namespace

bool stopping() {
    if (!current) return false;
    if (current->stop.load(std::memory_order_relaxed)) return true;
    if (!calling || !poll || !current->polls) return false;
    const auto now = Clock::now();
    if (now - last_poll < poll_every) return false;
    last_poll = now;
    if (poll()) current->stop.store(true, std::memory_order_relaxed);
    return current->stop.load(std::memory_order_relaxed);
}

void set_poll(Poll wanted) { poll = wanted; }

void set_team(Parallel parallel, int (*most)()) {
#if !defined(_WIN32)
    register_fork_handlers();
#endif
    team_size.store(most);
    team.store(parallel);
}

void borrow_team(bool wanted) { borrows = wanted; }

int threads() {
    std::lock_guard<std::mutex> lock(pool_mutex);
    if (wanted_threads == 0) wanted_threads = default_threads();
    return wanted_threads;
}

void set_threads(int count) {
    std::lock_guard<std::mutex> lock(pool_mutex);
    if (count == wanted_threads) return;
    wanted_threads = count;
    if (Pool* old = pool.exchange(nullptr)) {
        if (!retired) retired = new std::vector<Pool*>;
        retired->push_back(old);
        old->close();
    }
}

bool run(int64_t items, size_t scratch_bytes, double cost, Work work, void* context) {
    if (items <= 0) return true;
    Job job;
    job.items = items;
    job.scratch_bytes = scratch_bytes;
    job.work = work;
    job.context = context;
    job.polls = cost > worth_polling;
    void* memory = scratch.at_least(scratch_bytes);
    Job* const outer = current;
    const bool outer_calling = calling;
    current = &job;
    calling = true;
    if (job.polls) last_poll = Clock::now();
    const Parallel parallel = borrows && items > 1 && cost > worth_sharing ? team.load() : nullptr;
    if (parallel && team_size.load()() == threads()) {  // another size would start its threads anew
        parallel(claim_in_team, &job, static_cast<unsigned>(threads()), 0);
        current = outer;
        calling = outer_calling;
        return !job.stop.load();
    }
    Pool* shared = items > 1 && cost > worth_sharing ? the_pool() : nullptr;
    if (shared && cost < worth_waking && !shared->awake() && Clock::now() - last_job > soon) shared = nullptr;
    job.wanted = shared ? static_cast<int>(std::min<int64_t>(shared->size(), items - 1)) : 0;
    if (job.wanted > 0) {
        shared->make_room();
        shared->offer(job);
        claim_items(job, memory);
        shared->finish(job);
    } else {
        claim_items(job, memory);
    }
    current = outer;
    calling = outer_calling;
    if (cost > worth_sharing && cost < worth_waking) last_job = Clock::now();
    return !job.stop.load();
}

}  // namespace regard
