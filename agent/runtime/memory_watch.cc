#include "agent/runtime/memory_watch.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/memory_cgroup.h"
#include "lib/base/whole_file.h"

namespace muster::agent {
namespace {

std::optional<int64_t> OomKillsIn(const std::string& path) {
  return ParseOomKills(ReadWholeFile(path).value_or(""));
}

// Our cgroup's, or that of the nearest one around it: ours may not account for memory.
std::string CounterFile(const std::string& root, CgroupVersion version) {
  const std::string counter =
      version == CgroupVersion::k1 ? "/memory.oom_control" : "/memory.events";
  for (const std::string& folder : MemoryCgroups(version, root))
    if (OomKillsIn(folder + counter)) return folder + counter;
  return "";
}

}  // namespace

std::optional<int64_t> ParseOomKills(const std::string& text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    int64_t count = 0;
    if (absl::ConsumePrefix(&line, "oom_kill ") && absl::SimpleAtoi(line, &count)) return count;
  }
  return std::nullopt;
}

MemoryWatch::MemoryWatch(const std::string& root) : file_(CounterFile(root, CgroupVersion::k1)) {
  if (file_.empty()) file_ = CounterFile(root, CgroupVersion::k2);
  last_ = OomKillsIn(file_);
}

bool MemoryWatch::KilledSinceLastCall() {
  const std::optional<int64_t> now = OomKillsIn(file_);
  const bool grew = now && last_ && *now > *last_;
  last_ = now;
  return grew;
}

}  // namespace muster::agent
