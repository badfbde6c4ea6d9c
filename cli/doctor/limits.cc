#include "cli/doctor/limits.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cli/format.h"
#include "lib/base/descriptors.h"
#include "lib/base/memory_cgroup.h"
#include "lib/base/whole_file.h"

namespace muster::cli::doctor {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

// Below it a coordinator has no room for a cluster of more than a few hosts.
constexpr int64_t kManyDescriptors = 1024;
// A cluster of one worker has three processes with some dozens of threads; each further one has a
// dozen, and one for each core that it computes with.
constexpr int64_t kFewestThreads = 64;
constexpr int64_t kManyThreads = 512;
// A coordinator and a worker with LibTorch, before there is a model.
constexpr int64_t kLeastMemory = 512 * kMiB;
constexpr int64_t kMuchMemory = 2 * kGiB;

std::optional<int64_t> LimitOf(decltype(RLIMIT_NOFILE) what, bool hard) {
  rlimit limit{};
  if (getrlimit(what, &limit) != 0) return std::nullopt;
  const rlim_t value = hard ? limit.rlim_max : limit.rlim_cur;
  if (value == RLIM_INFINITY || value > static_cast<rlim_t>(INT64_MAX)) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<int64_t> NumberIn(const std::string& file) {
  int64_t number = 0;
  if (absl::SimpleAtoi(ReadWholeFile(file).value_or(""), &number)) return number;
  return std::nullopt;
}

template <class T>
void KeepLeast(std::optional<T>& least, T value) {
  least = least ? std::min(*least, value) : value;
}

Finding JudgeDescriptors(std::optional<int64_t> limit) {
  constexpr char kCheck[] = "descriptors";
  constexpr int64_t kMost = 65'536;  // that a process takes (lib/base/descriptors.h)
  const int64_t at_most = std::min(limit.value_or(kMost), kMost);
  const absl::StatusOr<DescriptorBudget> budget = SplitDescriptors(static_cast<int>(at_most));
  constexpr char kRaise[] =
      "raise the hard limit: `ulimit -Hn 65536` as root, nofile in /etc/security/limits.conf, "
      "LimitNOFILE= of a systemd unit";
  if (!budget.ok())
    return Problem(kCheck,
                   absl::StrCat("A process may open ", at_most,
                                " files, and each of Muster's "
                                "needs at least ",
                                kFewestDescriptors, "."),
                   kRaise);
  const std::string room = absl::StrCat(
      "A process may open ", at_most, " files: a coordinator has room for ", budget->sessions,
      " sessions of hosts and members, and for ", budget->http, " connections of REST.");
  return at_most < kManyDescriptors ? Warning(kCheck, room, kRaise) : Ok(kCheck, room);
}

Finding JudgeThreads(const LimitFacts& facts) {
  constexpr char kCheck[] = "processes";
  std::optional<int64_t> least = facts.processes;
  const bool is_of_cgroup = facts.pids_left && (!least || *facts.pids_left < *least);
  if (is_of_cgroup) least = facts.pids_left;
  if (!least) return Ok(kCheck, "The number of processes and threads is not bounded.");
  const std::string text =
      is_of_cgroup ? absl::StrCat("The cgroup allows ", *least, " more processes and threads.")
                   : absl::StrCat("This user may have ", *least, " processes and threads.");
  const std::string raise =
      is_of_cgroup ? "raise pids.max of the cgroup (docker run --pids-limit, podPidsLimit "
                     "of a kubelet, TasksMax= of a systemd unit)"
                   : "raise the limit with `ulimit -u`";
  if (*least < kFewestThreads) return Problem(kCheck, text, raise);
  return *least < kManyThreads ? Warning(kCheck, text, raise) : Ok(kCheck, text);
}

Finding JudgeMemory(const LimitFacts& facts) {
  constexpr char kCheck[] = "memory";
  const bool is_less = facts.memory_for_us < facts.memory_of_machine;
  const std::string text =
      absl::StrCat("There are ", Bytes(static_cast<double>(facts.memory_for_us)), " of memory",
                   is_less ? absl::StrCat(", as the cgroup says, of the machine's ",
                                          Bytes(static_cast<double>(facts.memory_of_machine)))
                           : "",
                   ".");
  const std::string advice =
      is_less ? "raise memory.max of the cgroup (docker run --memory, resources.limits.memory of a "
                "pod), or start fewer workers here (--slots)"
              : "start fewer workers here (--slots), or take a machine with more memory";
  if (facts.memory_for_us < kLeastMemory) return Problem(kCheck, text, advice);
  return facts.memory_for_us < kMuchMemory ? Warning(kCheck, text, advice) : Ok(kCheck, text);
}

Finding JudgeCores(const LimitFacts& facts) {
  constexpr char kCheck[] = "cores";
  const std::string slots = absl::StrCat("This process may run on ", Plural(facts.slots, "core"),
                                         ", and muster up and muster agent take as many slots.");
  // A little less is what rounding makes of a share of a core.
  if (!facts.cpu_quota || *facts.cpu_quota > facts.slots - 0.5) return Ok(kCheck, slots);
  const int fits = std::max(1, static_cast<int>(*facts.cpu_quota));
  return Warning(kCheck,
                 absl::StrCat(slots, " The cgroup gives them the time of ",
                              absl::StrFormat("%.3g", *facts.cpu_quota),
                              ": workers are halted in each period when they have used it up."),
                 absl::StrCat("give `--slots ", fits,
                              "`, or raise the quota of the cgroup (cpu.max, "
                              "docker run --cpus, resources.limits.cpu of a pod)"));
}

Findings JudgeBoundsOfMemoryAndFiles(const LimitFacts& facts) {
  Findings findings;
  if (facts.address_space)
    findings.push_back(Warning(
        "address space",
        absl::StrCat("A process may map ", Bytes(static_cast<double>(*facts.address_space)),
                     " of addresses, of which LibTorch and RocksDB take more than they use."),
        "lift the limit with `ulimit -v unlimited`; memory is better bounded by a cgroup"));
  if (facts.file_bytes)
    findings.push_back(Warning(
        "file size",
        absl::StrCat("A file may grow to ", Bytes(static_cast<double>(*facts.file_bytes)),
                     " only, and a segment of a checkpoint is as large as a worker's part of the "
                     "model."),
        "lift the limit with `ulimit -f unlimited`"));
  return findings;
}

}  // namespace

// Version 2 says "max" where there is no bound, version 1 as well.
std::optional<int64_t> PidsLeft(const std::string& root) {
  std::optional<int64_t> least;
  for (const CgroupVersion version : {CgroupVersion::k1, CgroupVersion::k2})
    for (const std::string& folder : CgroupsOf(version, "pids", root)) {
      const std::optional<int64_t> most = NumberIn(folder + "/pids.max");
      if (most) KeepLeast(least, *most - NumberIn(folder + "/pids.current").value_or(0));
    }
  return least;
}

// Version 2: "200000 100000" or "max 100000". Version 1: two files, -1 without a quota.
std::optional<double> CpuQuota(const std::string& root) {
  std::optional<double> least;
  const auto keep = [&least](int64_t quota, int64_t period) {
    if (quota > 0 && period > 0)
      KeepLeast(least, static_cast<double>(quota) / static_cast<double>(period));
  };
  for (const std::string& folder : CgroupsOf(CgroupVersion::k1, "cpu", root))
    keep(NumberIn(folder + "/cpu.cfs_quota_us").value_or(-1),
         NumberIn(folder + "/cpu.cfs_period_us").value_or(0));
  for (const std::string& folder : CgroupsOf(CgroupVersion::k2, "cpu", root)) {
    const std::string text = ReadWholeFile(folder + "/cpu.max").value_or("");
    const std::vector<std::string> words =
        absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
    int64_t quota = 0, period = 0;
    if (words.size() == 2 && absl::SimpleAtoi(words[0], &quota) &&
        absl::SimpleAtoi(words[1], &period))
      keep(quota, period);
  }
  return least;
}

LimitFacts GatherLimits(const std::string& root) {
  const int64_t machine = MemoryOfMachine();
  return {.descriptors = LimitOf(RLIMIT_NOFILE, /*hard=*/true),
          // The kernel does not hold root to it.
          .processes = geteuid() == 0 ? std::nullopt : LimitOf(RLIMIT_NPROC, /*hard=*/false),
          .file_bytes = LimitOf(RLIMIT_FSIZE, /*hard=*/false),
          .address_space = LimitOf(RLIMIT_AS, /*hard=*/false),
          .pids_left = PidsLeft(root),
          .cpu_quota = CpuQuota(root),
          .memory_of_machine = machine,
          .memory_for_us = MemoryForUs(machine, root),
          .slots = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))};
}

Findings JudgeLimits(const LimitFacts& facts) {
  Findings findings = {JudgeCores(facts), JudgeMemory(facts), JudgeDescriptors(facts.descriptors),
                       JudgeThreads(facts)};
  for (Finding& finding : JudgeBoundsOfMemoryAndFiles(facts))
    findings.push_back(std::move(finding));
  return findings;
}

SharedMemoryFacts GatherSharedMemory(const std::string& folder) {
  struct statvfs of {};
  if (statvfs(folder.c_str(), &of) != 0) return {};
  const auto block = static_cast<int64_t>(of.f_frsize);
  return {.is_there = true,
          .bytes = static_cast<int64_t>(of.f_blocks) * block,
          .used = static_cast<int64_t>(of.f_blocks - of.f_bfree) * block,
          .memory = MemoryForUs()};
}

Finding JudgeSharedMemory(const SharedMemoryFacts& facts) {
  constexpr char kCheck[] = "shared memory";
  constexpr char kNoNeed[] = "Muster's processes share no memory, so its size does not matter.";
  if (!facts.is_there) return Ok(kCheck, absl::StrCat("There is no /dev/shm. ", kNoNeed));
  const std::string size = Bytes(static_cast<double>(facts.bytes));
  const std::string used = Bytes(static_cast<double>(facts.used));
  if (facts.memory > 0 && facts.used > facts.memory / 4)
    return Warning(kCheck,
                   absl::StrCat("What lies in /dev/shm takes ", used,
                                " of memory, which workers do not have then."),
                   "look what is left there (ls -l /dev/shm), and remove what no process uses");
  return Ok(kCheck,
            absl::StrCat("/dev/shm has ", size, ", of which ", used, " are used. ", kNoNeed));
}

std::optional<bool> IsClockKept() {
  timex state{};
  const int answer = adjtimex(&state);
  if (answer < 0) return std::nullopt;
  return (state.status & STA_UNSYNC) == 0;
}

Finding JudgeOwnClock(std::optional<bool> is_kept) {
  constexpr char kCheck[] = "clock";
  if (!is_kept) return Skipped(kCheck, "The kernel does not say whether the clock is kept right.");
  if (*is_kept) return Ok(kCheck, "The kernel's clock is kept right by a time server.");
  return Warning(kCheck,
                 "Nothing has told the kernel that its clock is right. Hosts whose clocks are five "
                 "minutes apart are refused.",
                 "run chrony or systemd-timesyncd on the machine, unless its hypervisor keeps the "
                 "clock; `muster doctor --to` measures how far it is from the coordinator's");
}

}  // namespace muster::cli::doctor
