#include "lib/checkpoint/checked_line.h"

#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "lib/base/bytes.h"
#include "lib/kernels/crc.h"

namespace muster {
namespace {

constexpr absl::string_view kMark = " crc32c:";

}  // namespace

std::string CheckedLine(absl::string_view text) {
  return absl::StrFormat("%s%s%08x\n", text, kMark, Crc32c(BytesOf(text)));
}

// What lacks its line feed may lack its checksum, too.
std::optional<std::string> ReadCheckedLine(absl::string_view file) {
  absl::string_view line = file;
  if (!absl::ConsumeSuffix(&line, "\n")) return std::nullopt;
  const std::string text(line.substr(0, line.find(kMark)));
  if (text.size() < line.size() && CheckedLine(text) != file) return std::nullopt;
  return text;
}

}  // namespace muster
