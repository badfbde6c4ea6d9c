#include "lib/config/field_error.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"

namespace muster {
namespace {

constexpr char kFieldUrl[] = "muster.dev/field";

// Levenshtein distance; the words are field names and user's words, cut to a sane length by the
// caller.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

absl::Status FieldError(absl::string_view place, absl::string_view field,
                        absl::string_view message) {
  std::string text;
  if (!place.empty()) absl::StrAppend(&text, place, ": ");
  if (!field.empty())
    absl::StrAppend(&text, CutMiddle(absl::Utf8SafeCHexEscape(field.substr(0, kMostShownBytes))),
                    ": ");
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(text, message));
  if (!field.empty()) status.SetPayload(kFieldUrl, absl::Cord(Cut(field)));
  return status;
}

std::string FieldOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldUrl);
  return payload ? std::string(*payload) : std::string();
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kLongestName = 64;
  if (word.size() > kLongestName) return "";
  const std::string* best = nullptr;
  size_t least = word.size() / 3 + 2;  // one more than the typing errors that we forgive
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < least) {
      least = distance;
      best = &candidate;
    }
  }
  return best == nullptr ? "" : absl::StrCat("; did you mean '", *best, "'?");
}

}  // namespace muster
