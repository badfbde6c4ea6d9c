#include "lib/base/printable.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/utf8.h"

namespace muster {
namespace {

constexpr absl::string_view kMore = "...";

bool IsWithinCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Of the well-formed character that `text` is.
char32_t CodeOf(absl::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (text.size() == 1) return first;
  char32_t code = first & (0x7F >> text.size());
  for (const char c : text.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3F);
  return code;
}

// It is not seen, and steers a terminal or changes how the text around it reads: control characters
// of both sets, marks that turn the direction of writing, line separators, joiners and tags.
bool IsUnseen(char32_t code) {
  struct Range {
    char32_t first, last;
  };
  constexpr Range kRanges[] = {{0x00, 0x1F},     {0x7F, 0x9F},      {0x061C, 0x061C},
                               {0x200E, 0x200F}, {0x2028, 0x202E},  {0x2060, 0x206F},
                               {0xFEFF, 0xFEFF}, {0xE0000, 0xE007F}};
  return std::any_of(std::begin(kRanges), std::end(kRanges), [code](const Range& range) {
    return range.first <= code && code <= range.last;
  });
}

// As C++ writes it.
std::string Escaped(char32_t code) {
  if (code == '\n') return "\\n";
  if (code <= 0xFF) return absl::StrFormat("\\x%02x", static_cast<uint32_t>(code));
  if (code <= 0xFFFF) return absl::StrFormat("\\u%04x", static_cast<uint32_t>(code));
  return absl::StrFormat("\\U%08x", static_cast<uint32_t>(code));
}

// As JSON writes it: above U+FFFF as two halves.
std::string EscapedInJson(char32_t code) {
  const auto unit = [](char32_t c) { return absl::StrFormat("\\u%04x", static_cast<uint32_t>(c)); };
  if (code <= 0xFFFF) return unit(code);
  const char32_t above = code - 0x10000;
  return unit(0xD800 + (above >> 10)) + unit(0xDC00 + (above & 0x3FF));
}

}  // namespace

std::string Printable(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const absl::string_view character = text.substr(0, std::max<size_t>(length, 1));
    const char32_t code = length == 0 ? '?' : CodeOf(character);
    if (length == 0)
      out += '?';
    else if (code != '\t' && IsUnseen(code))
      out += Escaped(code);
    else
      absl::StrAppend(&out, character);
    text.remove_prefix(character.size());
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
    const absl::string_view character = json.substr(0, std::max<size_t>(Utf8Length(json), 1));
    const bool is_ascii = static_cast<unsigned char>(json[0]) < 0x7F;
    if (!is_ascii && IsUnseen(CodeOf(character)))
      out += EscapedInJson(CodeOf(character));
    else
      absl::StrAppend(&out, character);
    json.remove_prefix(character.size());
  }
  return out;
}

std::string Cut(absl::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = most - kMore.size();
  while (end > 0 && IsWithinCharacter(text[end])) --end;
  return absl::StrCat(text.substr(0, end), kMore);
}

std::string CutMiddle(absl::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  const size_t kept = most - kMore.size();
  size_t end = kept / 2, begin = text.size() - kept / 2;
  // Its names stay whole where they are short beside what is kept.
  const size_t dot_before = text.rfind('.', end), dot_after = text.find('.', begin);
  const bool ends_at_dot = dot_before != absl::string_view::npos && dot_before > kept / 4;
  const bool begins_at_dot = dot_after < text.size() - kept / 4;
  if (ends_at_dot && begins_at_dot)
    return absl::StrCat(text.substr(0, dot_before), kMore, text.substr(dot_after + 1));
  while (end > 0 && IsWithinCharacter(text[end])) --end;
  while (begin < text.size() && IsWithinCharacter(text[begin])) ++begin;
  return absl::StrCat(text.substr(0, end), kMore, text.substr(begin));
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
