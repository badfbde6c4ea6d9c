// An error about one field of a document from outside (a job specification, a fault plan, a
// request's body). The field travels as a payload of the status, so that an answer can name it by
// itself ({"field": "optimizer.kind"}).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// kInvalidArgument, "place: field: message"; empty parts are left out. Lists are counted from 0:
// "data.paths[2]".
absl::Status FieldError(absl::string_view place, absl::string_view field,
                        absl::string_view message);

// The field that `status` is about; empty: none.
std::string FieldOf(const absl::Status& status);

// "; did you mean 'optimizer'?" when one of `known` is near `word`, else empty.
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known);

}  // namespace muster
