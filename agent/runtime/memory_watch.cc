#include "agent/runtime/memory_watch.h"

#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster::agent {
namespace {

// Version 2 of the cgroups has one line, "0::/path".
std::string EventsFile() {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    absl::string_view path = line;
    if (absl::ConsumePrefix(&path, "0::"))
      return absl::StrCat("/sys/fs/cgroup", path, "/memory.events");
  }
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

MemoryWatch::MemoryWatch() : file_(EventsFile()), last_(Count()) {}

std::optional<int64_t> MemoryWatch::Count() const {
  std::ifstream in(file_);
  std::ostringstream text;
  text << in.rdbuf();
  return ParseOomKills(text.str());
}

bool MemoryWatch::KilledSinceLastCall() {
  const std::optional<int64_t> now = Count();
  const bool grew = now && last_ && *now > *last_;
  last_ = now;
  return grew;
}

}  // namespace muster::agent
