// Where each part of a document stands in its text. A tree of line numbers beside the values: a
// field's path is only put together when an error names it, since a document may have long names
// and many values.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

struct NamedPlace;

struct Place {
  int line = 0;           // from 1; 0: not known
  bool from_set = false;  // it was given by --set
  // Of a mapping, in the order of the text; of a list with empty names.
  std::vector<NamedPlace> below;
};

struct NamedPlace {
  std::string name;
  Place place;
};

// The place of `field`, written as in errors ("data.paths[2]"); null if the text has none.
const Place* FindPlace(const Place& root, absl::string_view field);
// `setting` takes the place of what the document has at the mapping's field `keys`.
void SetPlace(Place& root, const std::vector<std::string>& keys, Place setting);
// "plan.yaml:7", "line 7", "--set", or the source alone.
std::string PlaceText(absl::string_view source, const Place& place);

// "optimizer" + "kind" → "optimizer.kind"; "" + "seed" → "seed".
std::string FieldPath(absl::string_view parent, absl::string_view key);
std::string FieldPath(absl::string_view parent, size_t index);

}  // namespace muster
