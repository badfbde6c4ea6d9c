#include "lib/domain/labels.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/printable.h"

namespace muster {
namespace {

constexpr size_t kLongestName = 63;
constexpr size_t kLongestPrefix = 253;

bool IsLabelName(absl::string_view name) {
  const auto alphanumeric = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c));
  };
  return !name.empty() && name.size() <= kLongestName && alphanumeric(name.front()) &&
         alphanumeric(name.back()) && std::all_of(name.begin(), name.end(), [&](char c) {
           return alphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

bool IsDnsName(absl::string_view name) {
  if (name.size() > kLongestPrefix) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  return std::all_of(parts.begin(), parts.end(), IsDnsLabel);
}

bool IsLabelKey(absl::string_view key) {
  const size_t slash = key.find('/');
  if (slash == absl::string_view::npos) return IsLabelName(key);
  return IsDnsName(key.substr(0, slash)) && IsLabelName(key.substr(slash + 1));
}

}  // namespace

bool IsDnsLabel(absl::string_view name) {
  const auto alphanumeric = [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c));
  };
  return !name.empty() && name.size() <= kLongestName && alphanumeric(name.front()) &&
         alphanumeric(name.back()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return alphanumeric(c) || c == '-'; });
}

bool IsKeptName(absl::string_view name) {
  return IsDnsLabel(name) && std::any_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalpha(static_cast<unsigned char>(c));
         });
}

bool IsNewKeptName(absl::string_view name) {
  return IsKeptName(name) && name != "latest" && name != "never";
}

std::string WhyNotLabel(absl::string_view key, absl::string_view value) {
  if (!IsLabelKey(key))
    return absl::StrCat("'", Cut(Printable(key)),
                        "' is not the key of a label; allowed: 1 to 63 letters, digits, '-', '_' "
                        "and '.', a letter or digit at both ends, after a DNS name and '/' or not");
  if (!value.empty() && !IsLabelName(value))
    return absl::StrCat("'", Cut(Printable(value)),
                        "' is not the value of a label; allowed: nothing, or 1 to 63 letters, "
                        "digits, '-', '_' and '.', a letter or digit at both ends");
  return "";
}

bool HasLabels(const std::map<std::string, std::string>& labels,
               const std::map<std::string, std::string>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& label) {
    const auto it = labels.find(label.first);
    return it != labels.end() && it->second == label.second;
  });
}

}  // namespace muster
