#include "worker/commands/data_text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/amount_text.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/domain/tensor_type.h"
#include "lib/wire/job_codec.h"

namespace muster::worker {
namespace {

using nlohmann::ordered_json;

std::string Dump(const ordered_json& json) {
  return PrintableJson(
             json.dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace)) +
         "\n";
}

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

std::string FieldTable(const std::vector<InspectedField>& fields) {
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
  row("field", "stored", "given", "first sample");
  for (const InspectedField& field : fields)
    row(Printable(field.stored.name), TypeAndShape(field.stored), TypeAndShape(field.given),
        Values(field));
  return table;
}

std::string SizeText(uint64_t bytes) { return Bytes(static_cast<double>(bytes)); }

}  // namespace

std::string InspectionAsText(const JobSpec& spec, const InspectedData& inspected) {
  std::string text = Line("format", FormatOf(spec));
  text += Line(
      "content",
      absl::StrCat(
          inspected.files == 0 ? "" : Plural(static_cast<int64_t>(inspected.files), "file") + ", ",
          SizeText(inspected.bytes)));
  if (inspected.samples == 0) {
    text += Line("samples", "as the task cuts them");
  } else {
    text += Line("samples",
                 absl::StrCat(inspected.samples,
                              inspected.validation == 0
                                  ? ""
                                  : absl::StrCat(", ", inspected.validation, " for validation")));
    text += FieldTable(inspected.fields);
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
  if (!inspected.left_out.empty()) json["left_out"] = inspected.left_out;
  return Dump(json);
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
  return Dump(json);
}

}  // namespace muster::worker
