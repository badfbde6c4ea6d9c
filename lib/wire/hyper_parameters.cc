#include "lib/wire/hyper_parameters.h"

#include "absl/strings/str_cat.h"
#include "lib/wire/job_fields.h"

namespace muster {
namespace {

void AppendLeaves(const std::string& name, const nlohmann::json& value,
                  std::vector<HyperParameter>& all) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      AppendLeaves(absl::StrCat(name, ".", key), inner, all);
  } else if (value.is_boolean()) {
    all.push_back({name, value.get<bool>()});
  } else if (value.is_number()) {
    all.push_back({name, value.get<double>()});
  } else if (value.is_string()) {
    all.push_back({name, value.get<std::string>()});
  }
}

}  // namespace

std::vector<HyperParameter> HyperParametersOf(const JobSpec& spec) {
  std::vector<HyperParameter> all;
  for (const FieldRule& rule : FieldRules())
    if (rule.part == SpecPart::kTraining && rule.unused(spec).empty())
      AppendLeaves(rule.name, rule.write(spec), all);
  return all;
}

}  // namespace muster
