#include "lib/base/printable.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/utf8.h"

namespace muster {
namespace {

// U+0080 to U+009F are control characters, too.
bool BeginsWithOneOfSecondSet(absl::string_view text) {
  return text.size() >= 2 && text[0] == '\xC2' &&
         (static_cast<unsigned char>(text[1]) & 0xE0) == 0x80;
}

}  // namespace

std::string Printable(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(Utf8Length(text), 1);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (Utf8Length(text) == 0) {
      out += '?';
    } else if (byte == '\n') {
      out += "\\n";
    } else if ((byte < 0x20 && byte != '\t') || byte == 0x7f) {
      absl::StrAppendFormat(&out, "\\x%02x", byte);
    } else if (BeginsWithOneOfSecondSet(text)) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(text[1]));
    } else {
      out.append(text.data(), length);
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string PrintableLines(absl::string_view text) {
  std::string out;
  for (size_t end; (end = text.find('\n')) != absl::string_view::npos; text.remove_prefix(end + 1))
    absl::StrAppend(&out, Printable(text.substr(0, end)), "\n");
  return absl::StrCat(out, Printable(text));
}

std::string PrintableJson(absl::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const bool is_of_second_set = BeginsWithOneOfSecondSet(json);
    const size_t length = is_of_second_set ? 2 : 1;
    if (is_of_second_set || json[0] == '\x7f')
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(json[length - 1]));
    else
      out += json[0];
    json.remove_prefix(length);
  }
  return out;
}

std::string Cut(absl::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  constexpr absl::string_view kMore = "...";
  size_t end = most - kMore.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), kMore);
}

std::string AsciiText(absl::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMostShownBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f)
      out += c;
    else
      absl::StrAppendFormat(&out, "\\x%02x", byte);
  }
  return Cut(out);
}

}  // namespace muster
