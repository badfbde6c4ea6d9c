#include "agent/runtime/memory_watch.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster::agent {
namespace {

using Words = std::vector<std::string>;

struct Version {
  absl::string_view type;     // of the file system
  absl::string_view counter;  // the file in a cgroup's folder
  bool a_tree_each = false;   // for each controller
};
bool HasMemory(const std::string& controllers) {
  const Words names = absl::StrSplit(controllers, ',');
  return std::find(names.begin(), names.end(), "memory") != names.end();
}
constexpr Version kVersion1 = {"cgroup", "memory.oom_control", true};
constexpr Version kVersion2 = {"cgroup2", "memory.events", false};

std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Words LinesOf(const std::string& path) { return absl::StrSplit(ReadText(path), '\n'); }

// Lines "NUMBER:CONTROLLERS:PATH".
std::optional<std::string> OurPath(const std::string& root, const Version& version) {
  for (const std::string& line : LinesOf(root + "/proc/self/cgroup")) {
    const Words parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (version.a_tree_each ? HasMemory(parts[1]) : parts[1].empty()) return parts[2];
  }
  return std::nullopt;
}

// Where the tree, or the part of it below `top`, can be seen.
struct Mount {
  std::string top;
  std::string point;
};
// Lines "ID PARENT DEVICE TOP POINT OPTIONS … - TYPE SOURCE SUPER_OPTIONS".
std::optional<Mount> MountOf(const std::string& root, const Version& version) {
  for (const std::string& line : LinesOf(root + "/proc/self/mountinfo")) {
    const Words words = absl::StrSplit(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4 || *(dash + 1) != version.type) continue;
    if (!version.a_tree_each || HasMemory(*(dash + 3))) return Mount{words[3], root + words[4]};
  }
  return std::nullopt;
}

// In a container a path may begin with what its mounts leave out, or name what lies beyond them:
// then all we see is what lies at the mount, and that is our cgroup or one around it.
std::string BelowTop(const std::string& path, const std::string& top) {
  absl::string_view rest = path;
  if (absl::StrContains(path, "..") || (top != "/" && !absl::ConsumePrefix(&rest, top))) return "";
  return absl::StartsWith(rest, "/") && rest != "/" ? std::string(rest) : "";
}

// Our cgroup's, or that of the nearest one around it: ours may not account for memory.
std::string CounterFile(const std::string& root, const Version& version) {
  const std::optional<std::string> path = OurPath(root, version);
  const std::optional<Mount> mount = path ? MountOf(root, version) : std::nullopt;
  if (!mount) return "";
  for (std::string below = BelowTop(*path, mount->top);;) {
    std::string file = absl::StrCat(mount->point, below, "/", version.counter);
    if (ParseOomKills(ReadText(file))) return file;
    if (below.empty()) return "";
    below.resize(below.rfind('/'));
  }
}

}  // namespace

std::optional<int64_t> ParseOomKills(const std::string& text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    int64_t count = 0;
    if (absl::ConsumePrefix(&line, "oom_kill ") && absl::SimpleAtoi(line, &count)) return count;
  }
  return std::nullopt;
}

MemoryWatch::MemoryWatch(const std::string& root) : file_(CounterFile(root, kVersion1)) {
  if (file_.empty()) file_ = CounterFile(root, kVersion2);
  last_ = ParseOomKills(ReadText(file_));
}

bool MemoryWatch::KilledSinceLastCall() {
  const std::optional<int64_t> now = ParseOomKills(ReadText(file_));
  const bool grew = now && last_ && *now > *last_;
  last_ = now;
  return grew;
}

}  // namespace muster::agent
