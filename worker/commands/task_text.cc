#include "worker/commands/task_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/printable.h"
#include "lib/wire/json_text.h"
#include "lib/wire/task_parameters.h"
#include "nlohmann/json.hpp"

namespace muster::worker {
namespace {

using nlohmann::ordered_json;

const char* NameOf(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::kInteger: return "integer";
    case ParameterKind::kReal: return "real";
    case ParameterKind::kBoolean: return "boolean";
    case ParameterKind::kText: return "text";
    case ParameterKind::kIntegers: return "list of integers";
    case ParameterKind::kReals: return "list of reals";
    case ParameterKind::kTexts: return "list of texts";
    case ParameterKind::kStructure: return "lists and mappings";
  }
  return "";
}

bool IsNumber(ParameterKind kind) {
  return kind == ParameterKind::kInteger || kind == ParameterKind::kReal ||
         kind == ParameterKind::kIntegers || kind == ParameterKind::kReals;
}

std::string AllowedOf(const TaskParameter& parameter) {
  if (IsNumber(parameter.kind))
    return absl::StrCat(FromNumber(parameter.min).dump(), " to ", FromNumber(parameter.max).dump());
  return absl::StrJoin(parameter.choices, ", ");
}

std::string DataOf(const TaskInfo& info) {
  if (info.data_needed) return "reads the files of data.paths";
  if (info.default_samples == 0) return "makes its own data";
  return absl::StrCat("makes its own data, ", info.default_samples,
                      " samples unless data.samples says otherwise");
}

ordered_json ToJson(const TaskParameter& parameter) {
  const bool is_structure = parameter.kind == ParameterKind::kStructure;
  ordered_json json = {{"name", Printable(parameter.name)},
                       {"type", is_structure ? "structure" : NameOf(parameter.kind)},
                       {"default", ShownParameter(parameter.default_value, parameter.kind)}};
  if (IsNumber(parameter.kind)) {
    json["min"] = FromNumber(parameter.min);
    json["max"] = FromNumber(parameter.max);
  }
  if (!parameter.choices.empty()) json["choices"] = parameter.choices;
  json["help"] = Printable(parameter.help);
  return json;
}

ordered_json ToJson(const LayerHelp& layer) {
  ordered_json fields = ordered_json::array();
  for (const LayerField& field : layer.fields) {
    ordered_json json = ToJson(field.parameter);
    if (field.is_needed) json.erase("default");
    fields.push_back(std::move(json));
  }
  return {{"name", layer.name},
          {"help", layer.help},
          {"bare", layer.takes_one ? layer.fields.front().parameter.name : ""},
          {"parameters", std::move(fields)}};
}

// Their defaults, then type, bounds and what they mean.
std::string LayerAsText(const LayerHelp& layer) {
  std::string text = absl::StrCat("  ", layer.name, ": ", layer.help, "\n");
  for (const LayerField& field : layer.fields) {
    const TaskParameter& parameter = field.parameter;
    const std::string allowed = AllowedOf(parameter);
    const bool is_bare = layer.takes_one && &field == &layer.fields.front();
    absl::StrAppend(
        &text, "      ", parameter.name, ": ",
        field.is_needed ? "needed"
                        : TextOfJson(ShownParameter(parameter.default_value, parameter.kind)),
        "; ", NameOf(parameter.kind), allowed.empty() ? "" : ", " + allowed, ". ", parameter.help,
        is_bare ? absl::StrCat("; ", layer.name, ": … alone is this") : "", "\n");
  }
  return text;
}

}  // namespace

std::string TasksAsText(const std::vector<ListedTask>& tasks) {
  size_t width = 0;
  for (const ListedTask& task : tasks) width = std::max(width, task.info.name.size());
  std::string text;
  for (const ListedTask& task : tasks)
    absl::StrAppend(&text, absl::StrFormat("%-*s  %s%s\n", width, Printable(task.info.name),
                                           Printable(task.info.help),
                                           task.plugin.empty() ? "" : " (" + task.plugin + ")"));
  return text;
}

std::string TaskAsText(const ListedTask& task) {
  const TaskInfo& info = task.info;
  std::string text =
      absl::StrCat(Printable(info.name), info.help.empty() ? "" : ": ", Printable(info.help), "\n");
  if (!task.plugin.empty()) absl::StrAppend(&text, "It is brought by ", task.plugin, ".\n");
  absl::StrAppend(&text, "It ", DataOf(info), ".\n");
  if (info.parameters.empty()) return text + "It has no parameters.\n";
  absl::StrAppend(&text, "parameters:\n");
  for (const TaskParameter& parameter : info.parameters) {
    const std::string allowed = AllowedOf(parameter);
    absl::StrAppend(&text, "  ", Printable(parameter.name), ": ",
                    TextOfJson(ShownParameter(parameter.default_value, parameter.kind)), "\n      ",
                    NameOf(parameter.kind), allowed.empty() ? "" : ", " + Printable(allowed), ". ",
                    Printable(parameter.help), "\n");
  }
  if (!info.multiple.empty())
    absl::StrAppend(&text, info.multiple, " must be a multiple of ", info.divisor, ".\n");
  if (!task.layers.empty()) absl::StrAppend(&text, "layers, and what each takes:\n");
  for (const LayerHelp& layer : task.layers) absl::StrAppend(&text, LayerAsText(layer));
  return text;
}

std::string TasksAsJson(const std::vector<ListedTask>& tasks) {
  ordered_json json = {{"tasks", ordered_json::array()}};
  for (const ListedTask& task : tasks) {
    ordered_json one = {{"name", Printable(task.info.name)}, {"help", Printable(task.info.help)}};
    if (!task.plugin.empty()) one["plugin"] = task.plugin;
    one["data_needed"] = task.info.data_needed;
    if (task.info.default_samples > 0) one["default_samples"] = task.info.default_samples;
    one["parameters"] = ordered_json::array();
    for (const TaskParameter& parameter : task.info.parameters)
      one["parameters"].push_back(ToJson(parameter));
    if (!task.layers.empty()) one["layers"] = ordered_json::array();
    for (const LayerHelp& layer : task.layers) one["layers"].push_back(ToJson(layer));
    json["tasks"].push_back(std::move(one));
  }
  return TextOfJson(json) + "\n";
}

}  // namespace muster::worker
