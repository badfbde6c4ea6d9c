#include "lib/launch/host_list.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/digits.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/launch/launch_plan.h"

namespace muster {
namespace {

absl::Status WrongLine(absl::string_view line, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the line '", Cut(Printable(line)), "' ", why));
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What follows a name.
absl::StatusOr<int> SlotsIn(absl::string_view line, absl::string_view word) {
  int slots = 0;
  if (absl::ConsumePrefix(&word, "slots=") && !word.empty() && ParseDigits(word, &slots) &&
      slots >= 1 && slots <= kMostSlotsOfHost)
    return slots;
  return WrongLine(line,
                   "is neither NAME nor NAME slots=N; a user, a port or an address of the "
                   "host belong into ~/.ssh/config");
}

}  // namespace

absl::StatusOr<NamedHosts> ParseHostFile(absl::string_view text) {
  NamedHosts list;
  bool is_first = true;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line.substr(0, line.find('#')), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const absl::StatusOr<std::vector<std::string>> named = ExpandNodeList(words[0]);
    if (!named.ok()) return WrongLine(line, named.status().message());
    std::optional<int> slots;
    for (size_t i = 1; i < words.size(); ++i) {
      MUSTER_ASSIGN_OR_RETURN(slots, SlotsIn(line, words[i]));
    }
    if (!is_first && slots != list.slots)
      return WrongLine(line,
                       "gives another number of slots than those before it: all hosts have "
                       "the same; leave it out, or give --nproc-per-node");
    is_first = false;
    list.slots = slots;
    for (const std::string& name : *named)
      if (!Contains(list.hosts, name)) list.hosts.push_back(name);
    if (list.hosts.size() > kMostHosts)
      return absl::InvalidArgumentError(
          absl::StrCat("names more than ", kMostHosts, " hosts, which are the most of a run"));
  }
  if (list.hosts.empty()) return absl::InvalidArgumentError("names no host: give one on each line");
  return list;
}

absl::StatusOr<NamedHosts> WithoutHosts(NamedHosts list, const std::vector<std::string>& excluded) {
  for (const std::string& text : excluded) {
    const absl::StatusOr<std::vector<std::string>> names = ExpandNodeList(text);
    MUSTER_RETURN_IF_ERROR(Prefix("--exclude", names.status()));
    for (const std::string& name : *names)
      if (std::erase(list.hosts, name) == 0)
        return absl::InvalidArgumentError(absl::StrCat(
            "--exclude: ", name, " is not among the hosts: write it as it stands there"));
  }
  if (list.hosts.empty()) return absl::InvalidArgumentError("--exclude leaves no host: name fewer");
  return list;
}

}  // namespace muster
