#include "lib/base/memory_cgroup.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "lib/base/whole_file.h"

namespace muster {
namespace {

using Words = std::vector<std::string>;

constexpr size_t kMostBytes = size_t{64} << 20;  // of the list of mounts, on a host with many

Words LinesOf(const std::string& path) {
  return absl::StrSplit(ReadWholeFile(path, kMostBytes).value_or(""), '\n');
}

bool Has(const std::string& controllers, const std::string& controller) {
  const Words names = absl::StrSplit(controllers, ',');
  return std::find(names.begin(), names.end(), controller) != names.end();
}

// Version 1 has a tree for each controller, version 2 one for all. Lines
// "NUMBER:CONTROLLERS:PATH".
std::optional<std::string> OurPath(const std::string& root, CgroupVersion version,
                                   const std::string& controller) {
  for (const std::string& line : LinesOf(root + "/proc/self/cgroup")) {
    const Words parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (version == CgroupVersion::k1 ? Has(parts[1], controller) : parts[1].empty())
      return parts[2];
  }
  return std::nullopt;
}

// Where the tree, or the part of it below `top`, can be seen.
struct Mount {
  std::string top;
  std::string point;
};
// Lines "ID PARENT DEVICE TOP POINT OPTIONS … - TYPE SOURCE SUPER_OPTIONS".
std::optional<Mount> MountOf(const std::string& root, CgroupVersion version,
                             const std::string& controller) {
  const bool first = version == CgroupVersion::k1;
  for (const std::string& line : LinesOf(root + "/proc/self/mountinfo")) {
    const Words words = absl::StrSplit(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    if (*(dash + 1) != (first ? "cgroup" : "cgroup2")) continue;
    if (!first || Has(*(dash + 3), controller)) return Mount{words[3], root + words[4]};
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

}  // namespace

std::vector<std::string> MemoryCgroups(CgroupVersion version, const std::string& root) {
  return CgroupsOf(version, "memory", root);
}

std::vector<std::string> CgroupsOf(CgroupVersion version, const std::string& controller,
                                   const std::string& root) {
  const std::optional<std::string> path = OurPath(root, version, controller);
  const std::optional<Mount> mount = path ? MountOf(root, version, controller) : std::nullopt;
  if (!mount) return {};
  std::vector<std::string> folders;
  std::string below = BelowTop(*path, mount->top);
  for (; !below.empty(); below.resize(below.rfind('/')))
    folders.push_back(absl::StrCat(mount->point, below));
  folders.push_back(mount->point);
  return folders;
}

int64_t MemoryOfMachine() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? pages * page : INT64_MAX;
}

// A cgroup without a limit says "max", or a number beyond any memory.
int64_t MemoryForUs(int64_t machine, const std::string& root) {
  int64_t least = machine;
  for (const auto& [version, file] : {std::pair(CgroupVersion::k1, "/memory.limit_in_bytes"),
                                      std::pair(CgroupVersion::k2, "/memory.max")})
    for (const std::string& folder : MemoryCgroups(version, root)) {
      int64_t limit = 0;
      if (absl::SimpleAtoi(ReadWholeFile(folder + file).value_or(""), &limit))
        least = std::min(least, limit);
    }
  return least;
}

}  // namespace muster
