#include "lib/http/target.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/status.h"
#include "lib/base/utf8.h"

namespace muster::http {
namespace {

constexpr size_t kMaxQueryKeys = 64;

absl::Status Bad(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("request target: ", why));
}

std::optional<int> HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

absl::StatusOr<std::string> Decode(absl::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      const auto high = i + 2 < text.size() ? HexDigit(text[i + 1]) : std::nullopt;
      const auto low = i + 2 < text.size() ? HexDigit(text[i + 2]) : std::nullopt;
      if (!high || !low) return Bad("'%' is not followed by two hexadecimal digits");
      out += static_cast<char>(*high * 16 + *low);
      i += 2;
    }
  }
  const auto control = [](unsigned char c) { return absl::ascii_iscntrl(c); };
  if (std::any_of(out.begin(), out.end(), control)) return Bad("holds a control character");
  if (!IsUtf8(out)) return Bad("is not UTF-8");
  return out;
}

absl::StatusOr<std::string> DecodePath(absl::string_view path) {
  if (path.empty() || path[0] != '/') return Bad("must begin with '/'");
  if (path == "/") return std::string(path);
  if (path.back() == '/') path.remove_suffix(1);
  std::string out;
  for (const absl::string_view raw : absl::StrSplit(path.substr(1), '/')) {
    MUSTER_ASSIGN_OR_RETURN(const std::string segment, Decode(raw, false));
    if (segment.empty()) return Bad("has an empty path segment");
    if (segment == "." || segment == "..") return Bad("has a path segment '.' or '..'");
    if (segment.find_first_of("/\\%") != std::string::npos) {
      return Bad("has a '/', '\\' or '%' inside a path segment");
    }
    absl::StrAppend(&out, "/", segment);
  }
  return out;
}

}  // namespace

absl::StatusOr<Target> ParseTarget(absl::string_view target) {
  for (const char c : target) {
    if (c <= 0x20 || c >= 0x7f || c == '#')
      return Bad("holds a character that must be percent-encoded");
  }
  const size_t mark = target.find('?');
  Target out;
  MUSTER_ASSIGN_OR_RETURN(out.path, DecodePath(target.substr(0, mark)));
  if (mark == absl::string_view::npos) return out;
  for (const absl::string_view pair :
       absl::StrSplit(target.substr(mark + 1), '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    MUSTER_ASSIGN_OR_RETURN(std::string key, Decode(parts.first, true));
    MUSTER_ASSIGN_OR_RETURN(std::string value, Decode(parts.second, true));
    if (out.query.size() == kMaxQueryKeys) return Bad("has more than 64 query keys");
    if (!out.query.emplace(key, std::move(value)).second)
      return Bad(absl::StrCat("query key \"", key, "\" stands twice"));
  }
  return out;
}

}  // namespace muster::http
