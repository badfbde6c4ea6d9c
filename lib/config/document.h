// YAML and JSON from outside as one kind of document: a JSON value and where each part of it stands
// in the text. What reads a document further (a job, a fault plan) uses the Read functions, and so
// all errors look alike: "plan.yaml:7: faults[1].kill: 'wroker 2' is not known; allowed: ...".
// Errors are kInvalidArgument with FieldOf(). Includes nlohmann/json, which is slow to compile:
// keep it out of headers.
#pragma once

#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/config/field_error.h"
#include "lib/config/places.h"
#include "nlohmann/json.hpp"

namespace muster {

struct Document {
  nlohmann::json root;
  std::string source;  // what to call the text: a file name; may be empty
  Place places;        // of `root`; JSON has none
};

// One YAML 1.2 document (core schema). Refused: more than 1 MiB, more than 160 levels, keys that
// are empty or occur twice, anchors and aliases, non-finite numbers, control characters, text that
// is not UTF-8, quotes that are not closed.
absl::StatusOr<Document> ParseYamlDocument(absl::string_view text, absl::string_view source);

// The same for JSON; also refused: a byte order mark and anything after the value. Without lines.
absl::StatusOr<Document> ParseJsonDocument(absl::string_view text, absl::string_view source);

// "optimizer.learning_rate=0.1" sets or adds one field; the value is YAML ("[a, b]", "{min: 1}").
// Later errors about the field are placed at "--set".
absl::Status ApplySetting(Document& document, absl::string_view setting);

// "place: field: message" with the field as payload.
absl::Status ErrorAt(const Document& document, absl::string_view field, absl::string_view message);

// Finite numbers from min to max, either end left out if the flag says so.
struct NumberRange {
  double min = 0;
  double max = 0;
  bool above_min = false;
  bool below_max = false;
};
std::string ToText(
    const NumberRange& range);  // "0 to 1"; "above 0, at most 1"; "at least 0, below 1"
std::string ToText(absl::int128 min, absl::int128 max);  // "1 to 4096"
std::string ToText(double number);  // shortest that reads back as the same: "0.1", "300"

// Each returns the value of `field`, which `value` holds, or says what was found and what is
// allowed.
absl::Status CheckKeys(const Document& document, absl::string_view field,
                       const nlohmann::json& value,
                       const std::vector<std::string>& allowed);  // a mapping with no other keys
absl::StatusOr<std::string> ReadText(const Document& document, absl::string_view field,
                                     const nlohmann::json& value);
absl::StatusOr<std::string> ReadChoice(const Document& document, absl::string_view field,
                                       const nlohmann::json& value,
                                       const std::vector<std::string>& allowed);
absl::StatusOr<bool> ReadSwitch(const Document& document, absl::string_view field,
                                const nlohmann::json& value);  // true or false
// A whole number as a number (also 1e6) or, as protobuf's JSON writes 64-bit numbers, as decimal
// text, in the one way in which it does: not "-0", nor "007".
absl::StatusOr<absl::int128> ReadWhole(const Document& document, absl::string_view field,
                                       const nlohmann::json& value, absl::int128 min,
                                       absl::int128 max);
absl::StatusOr<double> ReadNumber(const Document& document, absl::string_view field,
                                  const nlohmann::json& value, const NumberRange& range);

// For messages: 'text', 12, true, "a list", "a mapping".
std::string Describe(const nlohmann::json& value);

}  // namespace muster
