#include "lib/wire/task_parameters.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/base/status.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr size_t kMostParameters = 256;
constexpr size_t kMostListItems = 4096;
constexpr size_t kMostNameBytes = 64;
constexpr size_t kMostStructureBytes = size_t{64} << 10;
// Numbers of a task that is not known: JSON holds no others.
constexpr NumberRange kAnyNumber = {.min = -1e300, .max = 1e300};

absl::StatusOr<double> ReadReal(const Document& document, const std::string& field,
                                const json& value, const TaskParameter& parameter) {
  return ReadNumber(document, field, value, {parameter.min, parameter.max});
}

absl::StatusOr<double> ReadInteger(const Document& document, const std::string& field,
                                   const json& value, const TaskParameter& parameter) {
  MUSTER_ASSIGN_OR_RETURN(
      const absl::int128 number,
      ReadWhole(document, field, value, absl::int128(parameter.min), absl::int128(parameter.max)));
  return static_cast<double>(number);
}

absl::StatusOr<std::string> ReadWord(const Document& document, const std::string& field,
                                     const json& value, const TaskParameter& parameter) {
  if (parameter.choices.empty()) return ReadText(document, field, value);
  return ReadChoice(document, field, value, parameter.choices);
}

template <class T, class Read>
absl::StatusOr<ParameterValue> ReadList(const Document& document, const std::string& field,
                                        const json& value, const Read& read) {
  if (!value.is_array())
    return ErrorAt(document, field, absl::StrCat(Describe(value), " is not a list; write [a, b]"));
  if (value.size() > kMostListItems)
    return ErrorAt(document, field,
                   absl::StrCat(value.size(), " items; at most ", kMostListItems, " are allowed"));
  std::vector<T> items;
  for (size_t i = 0; i < value.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(T item, read(FieldPath(field, i), value[i]));
    items.push_back(std::move(item));
  }
  return items;
}

bool IsStructure(const json& value) { return value.is_array() || value.is_object(); }

// A list or a mapping, or the text of one as JSON, which it becomes: keys in byte-wise order,
// without white space.
absl::StatusOr<ParameterValue> ReadStructure(const Document& document, const std::string& field,
                                             const json& value) {
  json structure = value;
  if (value.is_string()) {
    const absl::StatusOr<Document> parsed =
        ParseJsonDocument(value.get_ref<const std::string&>(), "");
    if (!parsed.ok()) return ErrorAt(document, field, parsed.status().message());
    structure = parsed->root;
  }
  if (!IsStructure(structure))
    return ErrorAt(document, field,
                   absl::StrCat(Describe(structure), " is neither a list nor a mapping"));
  std::string text = structure.dump();
  if (text.size() > kMostStructureBytes)
    return ErrorAt(document, field,
                   absl::StrCat("has ", text.size(), " bytes as JSON; at most ",
                                kMostStructureBytes, " are allowed"));
  return text;
}

absl::StatusOr<ParameterValue> ReadParameter(const Document& document, const std::string& field,
                                             const json& value, const TaskParameter& parameter) {
  const auto with = [&](const auto& read) {
    return [&](const std::string& item, const json& of_it) {
      return read(document, item, of_it, parameter);
    };
  };
  switch (parameter.kind) {
    case ParameterKind::kInteger: return ReadInteger(document, field, value, parameter);
    case ParameterKind::kReal: return ReadReal(document, field, value, parameter);
    case ParameterKind::kBoolean: return ReadSwitch(document, field, value);
    case ParameterKind::kText: return ReadWord(document, field, value, parameter);
    case ParameterKind::kIntegers:
      return ReadList<double>(document, field, value, with(ReadInteger));
    case ParameterKind::kReals: return ReadList<double>(document, field, value, with(ReadReal));
    case ParameterKind::kTexts:
      return ReadList<std::string>(document, field, value, with(ReadWord));
    case ParameterKind::kStructure: return ReadStructure(document, field, value);
  }
  return absl::InternalError(absl::StrCat(field, ": the task declares no type for it"));
}

absl::StatusOr<ParameterValue> ReadUnknown(const Document& document, const std::string& field,
                                           const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return ReadNumber(document, field, value, kAnyNumber);
  if (value.is_object() ||
      (value.is_array() && std::any_of(value.begin(), value.end(), IsStructure)))
    return ReadStructure(document, field, value);
  if (value.is_array() && !value.empty() && value.front().is_string())
    return ReadList<std::string>(
        document, field, value,
        [&](const std::string& item, const json& text) { return ReadText(document, item, text); });
  if (value.is_array())
    return ReadList<double>(document, field, value,
                            [&](const std::string& item, const json& number) {
                              return ReadNumber(document, item, number, kAnyNumber);
                            });
  return ErrorAt(document, field,
                 absl::StrCat(Describe(value),
                              " is no parameter; allowed: a number, a text, true, false, a list or "
                              "a mapping"));
}

bool IsName(const std::string& name) {
  const auto may_stand = [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
  };
  return !name.empty() && name.size() <= kMostNameBytes &&
         std::all_of(name.begin(), name.end(), may_stand);
}

std::optional<ParameterConflict> ConflictIn(const TaskInfo& task, const ParameterValues& values) {
  if (task.multiple.empty()) return std::nullopt;
  const double multiple = std::get<double>(values.at(task.multiple));
  const double divisor = std::get<double>(values.at(task.divisor));
  if (std::fmod(multiple, divisor) == 0) return std::nullopt;
  return ParameterConflict{task.divisor, absl::StrCat(divisor, " does not divide ", task.multiple,
                                                      " (", multiple, "); choose a divisor of it")};
}

}  // namespace

json FromNumber(double number) {
  constexpr double kExactBelow = 9007199254740992;  // 2^53
  if (std::abs(number) < kExactBelow && std::floor(number) == number)
    return static_cast<int64_t>(number);
  return number;
}

json FromParameter(const ParameterValue& value) {
  if (const double* number = std::get_if<double>(&value)) return FromNumber(*number);
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
    json list = json::array();
    for (const double number : *numbers) list.push_back(FromNumber(number));
    return list;
  }
  if (const bool* is_on = std::get_if<bool>(&value)) return *is_on;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) return *texts;
  return std::get<std::string>(value);
}

json ShownParameter(const ParameterValue& value, ParameterKind kind) {
  json shown = FromParameter(value);
  if (kind != ParameterKind::kStructure || !shown.is_string()) return shown;
  json structure =
      json::parse(shown.get_ref<const std::string&>(), nullptr, /*allow_exceptions=*/false);
  return IsStructure(structure) ? structure : shown;
}

absl::Status ReadParameters(const Document& document, const json& parameters, const TaskInfo& task,
                            ParameterValues& into) {
  std::vector<std::string> names;
  for (const TaskParameter& parameter : task.parameters) names.push_back(parameter.name);
  if (names.empty() && parameters.is_object() && !parameters.empty())
    return ErrorAt(document, FieldPath("parameters", parameters.begin().key()),
                   absl::StrCat("task ", task.name, " has no parameters; remove it"));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "parameters", parameters, names));
  for (const auto& item : parameters.items()) {
    if (item.value().is_null()) continue;
    MUSTER_ASSIGN_OR_RETURN(
        into[item.key()], ReadParameter(document, FieldPath("parameters", item.key()), item.value(),
                                        *task.Parameter(item.key())));
  }
  return absl::OkStatus();
}

absl::Status ReadUnknownParameters(const Document& document, const json& parameters,
                                   ParameterValues& into) {
  if (!parameters.is_object())
    return ErrorAt(document, "parameters",
                   absl::StrCat(Describe(parameters), " is not a mapping; write {name: value}"));
  if (parameters.size() > kMostParameters)
    return ErrorAt(
        document, "parameters",
        absl::StrCat(parameters.size(), " parameters; at most ", kMostParameters, " are allowed"));
  for (const auto& item : parameters.items()) {
    const std::string field = FieldPath("parameters", item.key());
    if (!IsName(item.key()))
      return ErrorAt(document, field,
                     absl::StrCat("is no name of a parameter; allowed: 1 to ", kMostNameBytes,
                                  " lower-case letters, digits and \"_\""));
    if (item.value().is_null()) continue;
    MUSTER_ASSIGN_OR_RETURN(into[item.key()], ReadUnknown(document, field, item.value()));
  }
  return absl::OkStatus();
}

absl::Status CheckTask(const Document& document, const TaskInfo& task,
                       const TrainingSpec& training) {
  if (const auto conflict = ConflictIn(task, training.parameters))
    return ErrorAt(document, FieldPath("parameters", conflict->parameter), conflict->reason);
  // What a stream needs is looked at with it.
  const bool has_files = training.data.format != DataFormat::kStream;
  if (task.data_needed && has_files && training.data.paths.empty())
    return ErrorAt(
        document, "data.paths",
        absl::StrCat("is missing; task ", task.name, " needs a list of files and directories"));
  return absl::OkStatus();
}

absl::StatusOr<TrainingSpec> CompleteFor(const TaskInfo& task, const TrainingSpec& training) {
  json given = json::object();
  for (const auto& [name, value] : training.parameters) given[name] = FromParameter(value);
  TrainingSpec complete = training;
  complete.parameters.clear();
  MUSTER_RETURN_IF_ERROR(ReadParameters({}, given, task, complete.parameters));
  for (const TaskParameter& parameter : task.parameters)
    complete.parameters.try_emplace(parameter.name, parameter.default_value);
  MUSTER_RETURN_IF_ERROR(CheckTask({}, task, complete));
  if (!task.data_needed && !training.data.paths.empty())
    return FieldError("", "data.paths",
                      absl::StrCat("is for tasks that read files; ", task.name,
                                   " makes its own data; leave it empty"));
  return complete;
}

json ParametersSchema() {
  return {{"type", "object"},
          {"maxProperties", kMostParameters},
          {"additionalProperties",
           {{"anyOf",
             {{{"type", "number"}},
              {{"type", "string"}},
              {{"type", "boolean"}},
              {{"type", "array"}, {"maxItems", kMostListItems}, {"items", json::object()}},
              {{"type", "object"}}}}}}};
}

}  // namespace muster
