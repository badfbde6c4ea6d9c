#include "worker/commands/data_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/amount_text.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/domain/tensor_type.h"
#include "lib/wire/job_codec.h"
#include "lib/wire/json_text.h"
#include "nlohmann/json.hpp"

namespace muster::worker {
namespace {

using nlohmann::ordered_json;

std::string FormatOf(const JobSpec& spec) {
  const ordered_json data = ordered_json::parse(ToJson(spec)).value("data", ordered_json::object());
  return data.value("format", "text");
}

std::string Line(const std::string& name, const std::string& text) {
  return absl::StrFormat("%-12s %s\n", name, text);
}

std::string TypeAndShape(const DataField& field) {
  return absl::StrCat(NameOf(field.type), " (", absl::StrJoin(field.shape, ", "), ")");
}

std::string Values(const InspectedField& field) {
  return absl::StrCat(absl::StrJoin(field.first, " ",
                                    [](std::string* out, double value) {
                                      absl::StrAppendFormat(out, "%.6g", value);
                                    }),
                      field.has_more ? " …" : "");
}

// `what`: whose values stand in the last column.
std::string FieldTable(const std::vector<InspectedField>& fields, const std::string& what) {
  size_t name = 5, stored = 6, given = 5;
  for (const InspectedField& field : fields) {
    name = std::max(name, Printable(field.stored.name).size());
    stored = std::max(stored, TypeAndShape(field.stored).size());
    given = std::max(given, TypeAndShape(field.given).size());
  }
  std::string table;
  const auto row = [&](const std::string& a, const std::string& b, const std::string& c,
                       const std::string& d) {
    absl::StrAppend(&table,
                    absl::StrFormat("  %-*s  %-*s  %-*s  %s\n", name, a, stored, b, given, c, d));
  };
  row("field", "stored", "given", what);
  for (const InspectedField& field : fields)
    row(Printable(field.stored.name), TypeAndShape(field.stored), TypeAndShape(field.given),
        Values(field));
  return table;
}

// What of `data` is about what a task gets of samples, and not about which files hold them.
constexpr const char* kOfSamples[] = {"shape", "mean",   "deviation",        "crop",
                                      "flip",  "verify", "validation_share", "split_seed"};
constexpr const char* kOfImages[] = {"image_size", "fit", "channels"};

ordered_json DataOf(const JobSpec& spec, const ConvertedData& converted) {
  const ordered_json given =
      ordered_json::parse(ToJson(spec)).value("data", ordered_json::object());
  ordered_json data = {{"paths", {converted.target}}, {"format", NameOf(converted.format)}};
  const bool has_images = converted.format == ConvertFormat::kWebDataset;
  if (!has_images) {
    ordered_json keys = ordered_json::array();
    for (const DataField& field : converted.fields) keys.push_back(field.name);
    if (converted.has_label) {
      data["label"] = keys.back();
      keys.erase(keys.size() - 1);
    }
    if (!keys.empty()) data["keys"] = std::move(keys);
    // Bytes of another array are not made numbers from 0 to 1 by themselves.
    if (converted.is_picture) data["mean"] = {0.0};
  }
  for (const char* field : kOfSamples)
    if (given.contains(field) && !(given[field].is_array() && given[field].empty()))
      data[field] = given[field];
  for (const char* field : kOfImages)
    if (has_images && given.contains(field)) data[field] = given[field];
  return data;
}

std::string SizeText(uint64_t bytes) { return Bytes(static_cast<double>(bytes)); }

}  // namespace

std::string InspectionAsText(const JobSpec& spec, const InspectedData& inspected) {
  std::string text = Line("format", FormatOf(spec));
  if (inspected.sample_bytes > 0)
    return text +
           Line("samples", absl::StrCat("as they come, of ", inspected.sample_bytes, " bytes")) +
           FieldTable(inspected.fields, "a made sample");
  text += Line("content", absl::StrCat(Plural(static_cast<int64_t>(inspected.files), "file"), ", ",
                                       SizeText(inspected.bytes)));
  if (inspected.samples == 0) {
    text += Line("samples", "as the task cuts them");
  } else {
    text += Line("samples",
                 absl::StrCat(inspected.samples,
                              inspected.validation == 0
                                  ? ""
                                  : absl::StrCat(", ", inspected.validation, " for validation")));
    text += FieldTable(inspected.fields, "first sample");
  }
  if (!inspected.left_out.empty()) text += Line("left out", Printable(inspected.left_out));
  return text;
}

std::string InspectionAsJson(const JobSpec& spec, const InspectedData& inspected) {
  ordered_json json = {{"format", FormatOf(spec)},           {"files", inspected.files},
                       {"bytes", inspected.bytes},           {"samples", inspected.samples},
                       {"validation", inspected.validation}, {"fields", ordered_json::array()}};
  for (const InspectedField& field : inspected.fields) {
    ordered_json values = ordered_json::array();
    for (const double value : field.first)
      values.push_back(std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr));
    json["fields"].push_back({{"name", field.stored.name},
                              {"stored", NameOf(field.stored.type)},
                              {"stored_shape", field.stored.shape},
                              {"type", NameOf(field.given.type)},
                              {"shape", field.given.shape},
                              {"first", std::move(values)}});
  }
  if (inspected.sample_bytes > 0) json["sample_bytes"] = inspected.sample_bytes;
  if (!inspected.left_out.empty()) json["left_out"] = inspected.left_out;
  return TextOfJson(json) + "\n";
}

std::string ConversionAsText(const JobSpec& spec, const ConvertedData& converted) {
  std::string text = Line("written", Printable(converted.target));
  text += Line("content", absl::StrCat(Plural(static_cast<int64_t>(converted.files), "file"), ", ",
                                       SizeText(converted.bytes)));
  text +=
      Line("samples",
           absl::StrCat(
               converted.samples,
               converted.bad == 0 ? "" : absl::StrCat(", without ", converted.bad, " bad ones")));
  for (const DataField& field : converted.fields)
    text += Line("", absl::StrCat(Printable(field.name), "  ", TypeAndShape(field)));
  if (!converted.left_out.empty()) text += Line("left out", Printable(converted.left_out));
  const std::string data = TextOfJson(DataOf(spec, converted)) + "\n";
  return text + Line("data", data.substr(0, data.size() - 1));
}

std::string ConversionAsJson(const JobSpec& spec, const ConvertedData& converted) {
  ordered_json json = {{"target", converted.target},     {"format", NameOf(converted.format)},
                       {"files", converted.files},       {"bytes", converted.bytes},
                       {"samples", converted.samples},   {"bad", converted.bad},
                       {"fields", ordered_json::array()}};
  for (const DataField& field : converted.fields)
    json["fields"].push_back(
        {{"name", field.name}, {"type", NameOf(field.type)}, {"shape", field.shape}});
  if (!converted.left_out.empty()) json["left_out"] = converted.left_out;
  json["data"] = DataOf(spec, converted);
  return TextOfJson(json) + "\n";
}

std::string HashAsText(const HashedData& hashed) {
  std::string text = Line("hash", hashed.hash);
  if (hashed.samples > 0)
    text += Line("samples", absl::StrCat(hashed.samples, ", ", SizeText(hashed.bytes)));
  else
    text += Line("content", SizeText(hashed.bytes));
  if (hashed.was_kept) text += Line("", "kept from before: no file has changed since");
  if (!hashed.left_out.empty()) text += Line("left out", Printable(hashed.left_out));
  return text;
}

std::string HashAsJson(const HashedData& hashed) {
  ordered_json json = {{"hash", hashed.hash},
                       {"samples", hashed.samples},
                       {"bytes", hashed.bytes},
                       {"kept", hashed.was_kept}};
  if (!hashed.left_out.empty()) json["left_out"] = hashed.left_out;
  return TextOfJson(json) + "\n";
}

}  // namespace muster::worker
