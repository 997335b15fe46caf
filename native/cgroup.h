// The CPU quota of Linux control groups, of both versions: how many threads can run at once without being throttled.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace regard {

constexpr int NO_CPU_LIMIT = 1 << 20;

// Whole CPUs of a quota per period, rounded up. "max" and −1 are no limit.
inline int cpus_of_quota(const std::string& quota, double period) {
    const double time = std::atof(quota.c_str());
    if (!(time > 0) || !(period > 0)) return NO_CPU_LIMIT;
    return std::max(1, static_cast<int>(std::min(time / period + 0.999, double(NO_CPU_LIMIT))));
}

// The least of the limits of a group and of all groups that it is in. Inside a container the group's own folder is
// often mounted as the root, where its path does not exist: then the root's limit counts. `root` is "" but in tests.
inline int cgroup_cpu_limit(const std::string& root) {
    int least = NO_CPU_LIMIT;
    std::ifstream groups(root + "/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {  // 0::/path, or 4:cpu,cpuacct:/path
        const auto first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const bool unified = controllers.empty();
        if (!unified && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
        const std::string mounted = root + "/sys/fs/cgroup" + (unified ? "" : "/cpu");
        for (std::string path = line.substr(second + 1);;) {
            std::string quota;
            double period = 0;
            if (unified) {
                std::ifstream(mounted + path + "/cpu.max") >> quota >> period;
            } else {
                std::ifstream(mounted + path + "/cpu.cfs_quota_us") >> quota;
                std::ifstream(mounted + path + "/cpu.cfs_period_us") >> period;
            }
            least = std::min(least, cpus_of_quota(quota, period));
            if (path.empty()) break;
            path.resize(std::min(path.size() - 1, path.rfind('/')));
        }
    }
    return least;
}

}  // namespace regard
