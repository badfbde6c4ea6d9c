#include "agent/runtime/devices.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/printable.h"
#include "lib/domain/device_id.h"
#include "lib/domain/job.h"

namespace muster::agent {
namespace {

bool AreDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

std::vector<std::string> Numbered(int count) {
  std::vector<std::string> ids;
  for (int i = 0; i < count; ++i) ids.push_back(absl::StrCat(i));
  return ids;
}

// CUDA counts from 0 whatever the numbers of the files are: a container may have nvidia3 alone.
int CountFiles(const std::string& folder) {
  int count = 0;
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = file.path().filename();
    if (name.rfind("nvidia", 0) == 0 && AreDigits(absl::string_view(name).substr(6))) ++count;
  }
  return std::min(count, static_cast<int>(kMostDevices));
}

// As CUDA reads it: it ends at the first word that is no device, such as -1.
std::vector<std::string> Visible(const std::string& text) {
  std::vector<std::string> ids;
  std::set<std::string> seen;
  for (absl::string_view word : absl::StrSplit(text, ',')) {
    const std::string id(absl::StripAsciiWhitespace(word));
    if (!IsDeviceId(id) || id == "NoDevFiles" || ids.size() >= kMostDevices) break;
    if (seen.insert(id).second) ids.push_back(id);
  }
  return ids;
}

// 00 and 0 would be one device under two names.
bool HasZerosBefore(absl::string_view text) {
  return text.size() > 1 && text[0] == '0' && AreDigits(text);
}

absl::Status Wrong(const std::string& said, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("--devices ", Cut(Printable(said)), ": ", why,
                                                 "; give auto, none, how many there are, or their "
                                                 "ids with commas, such as 0,1"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> DevicesOfHost(const std::string& said,
                                                       const std::optional<std::string>& visible,
                                                       const std::string& folder) {
  if (said == "auto") return visible ? Visible(*visible) : Numbered(CountFiles(folder));
  if (said == "none") return std::vector<std::string>();
  const std::string most = absl::StrCat("a host has at most ", kMostDevices);
  constexpr char kNoZeros[] = "a number has no zero before it";
  if (HasZerosBefore(said)) return Wrong(said, kNoZeros);
  if (AreDigits(said)) {
    int count = 0;
    if (!absl::SimpleAtoi(said, &count) || count > kMostDevices) return Wrong(said, most);
    return Numbered(count);
  }
  std::vector<std::string> ids = absl::StrSplit(said, ',');
  if (ids.size() > 1 && ids.back().empty()) ids.pop_back();
  std::set<std::string> seen;
  for (const std::string& id : ids) {
    if (!IsDeviceId(id))
      return Wrong(said, absl::StrCat("'", Cut(Printable(id)), "' is no id, which must be ",
                                      DeviceIdRule()));
    if (HasZerosBefore(id)) return Wrong(said, kNoZeros);
    if (!seen.insert(id).second) return Wrong(said, absl::StrCat(id, " is there twice"));
  }
  if (ids.size() > kMostDevices) return Wrong(said, most);
  return ids;
}

}  // namespace muster::agent
