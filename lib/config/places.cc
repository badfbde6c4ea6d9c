#include "lib/config/places.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

// `rest` is what follows in the field's path; `top`: nothing precedes it.
const Place* Find(const Place& at, absl::string_view rest, bool top) {
  if (rest.empty()) return &at;
  absl::string_view digits = rest;
  if (absl::ConsumePrefix(&digits, "[")) {
    const size_t end = digits.find(']');
    size_t index = 0;
    if (end != absl::string_view::npos && absl::SimpleAtoi(digits.substr(0, end), &index) &&
        index < at.below.size() && at.below[index].name.empty())
      return Find(at.below[index].place, digits.substr(end + 1), false);
  }
  if (!top && !absl::ConsumePrefix(&rest, ".")) return nullptr;
  for (const auto& [name, place] : at.below) {  // a name may hold a dot or a bracket itself
    absl::string_view after = rest;
    if (name.empty() || !absl::ConsumePrefix(&after, name)) continue;
    if (!after.empty() && after[0] != '.' && after[0] != '[') continue;
    if (const Place* found = Find(place, after, false)) return found;
  }
  return nullptr;
}

void MarkAsSet(Place& place) {
  place.from_set = true;
  for (NamedPlace& child : place.below) MarkAsSet(child.place);
}

}  // namespace

const Place* FindPlace(const Place& root, absl::string_view field) {
  return Find(root, field, /*top=*/true);
}

void SetPlace(Place& root, const std::vector<std::string>& keys, Place setting) {
  Place* at = &root;
  for (const std::string& key : keys) {
    auto it = std::find_if(at->below.begin(), at->below.end(),
                           [&](const auto& child) { return child.name == key; });
    if (it == at->below.end()) it = at->below.insert(at->below.end(), {key, {}});
    at = &it->place;
  }
  MarkAsSet(setting);
  *at = std::move(setting);
}

std::string PlaceText(absl::string_view source, const Place& place) {
  if (place.from_set) return "--set";
  if (place.line == 0) return std::string(source);
  return absl::StrCat(source, source.empty() ? "line " : ":", place.line);
}

std::string FieldPath(absl::string_view parent, absl::string_view key) {
  if (parent.empty() || key.empty()) return absl::StrCat(parent, key);
  return absl::StrCat(parent, ".", key);
}

std::string FieldPath(absl::string_view parent, size_t index) {
  return absl::StrCat(parent, "[", index, "]");
}

}  // namespace muster
