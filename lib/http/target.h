// What stands between method and version in a request line, taken apart and refused where it is not
// plainly clean.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::http {

struct Target {
  std::string path;  // decoded; begins with '/' and does not end with one, unless it is no more
  std::map<std::string, std::string> query;  // decoded
};

// kInvalidArgument: not an absolute path; a broken or double encoding; `.`, `..` or empty segments;
// encoded slashes, backslashes, control characters or what is not UTF-8; a query key given twice;
// more than 64 keys.
absl::StatusOr<Target> ParseTarget(absl::string_view target);

}  // namespace muster::http
