// The cgroups that keep account of what this process uses, above all of its memory, of version 1 or
// 2, also where we see only a part of their tree; and how much memory they leave us.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

enum class CgroupVersion { k1, k2 };

// The folders of our cgroup and of those around it, our own first, as far as they can be seen.
// Empty: there is none of this version that has to do with memory. `root` goes before every path,
// /proc among them: for tests.
std::vector<std::string> MemoryCgroups(CgroupVersion version, const std::string& root = "");
// The same of another controller: "cpu", "pids". Version 2 has one tree for all of them.
std::vector<std::string> CgroupsOf(CgroupVersion version, const std::string& controller,
                                   const std::string& root = "");

// In bytes; INT64_MAX where the system does not tell.
int64_t MemoryOfMachine();

// What this process may have of it: no more than any cgroup that it is in leaves it.
int64_t MemoryForUs(int64_t machine = MemoryOfMachine(), const std::string& root = "");

}  // namespace muster
