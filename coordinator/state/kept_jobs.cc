#include "coordinator/state/kept_jobs.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster::coordinator {
namespace {

constexpr size_t kMapNode = 64;
constexpr char kNextStep[] =
    "delete jobs that are over (`muster delete JOB`), then submit this one again";

size_t BytesOf(const std::string& text) { return sizeof(text) + text.size(); }

size_t BytesOf(const std::vector<std::string>& texts) {
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += BytesOf(text);
  return bytes;
}

size_t BytesOf(const ParameterValue& value) {
  size_t bytes = sizeof(value);
  if (const auto* text = std::get_if<std::string>(&value)) bytes += text->size();
  if (const auto* numbers = std::get_if<std::vector<double>>(&value))
    bytes += sizeof(double) * numbers->size();
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) bytes += BytesOf(*texts);
  return bytes;
}

}  // namespace

size_t BytesOf(const JobSpec& spec) {
  size_t bytes = sizeof(spec) + spec.training.task.size() + spec.runtime.name.size() +
                 spec.training.schedule.milestones.size() * sizeof(int64_t);
  const DataSpec& data = spec.training.data;
  for (const auto* texts : {&data.paths, &data.suffixes, &data.columns, &data.keys, &data.classes})
    bytes += BytesOf(*texts);
  for (const ParameterGroup& group : spec.training.groups)
    bytes += sizeof(group) + BytesOf(group.match);
  bytes += BytesOf(spec.training.validation.paths) + BytesOf(spec.training.validation.metric);
  for (const DataField& field : data.fields)
    bytes += sizeof(field) + BytesOf(field.name) + field.shape.size() * sizeof(int64_t);
  bytes += spec.runtime.stream.path.size() + spec.runtime.stream.host.size();
  bytes += spec.training.initial.file.size();
  if (const auto& parent = spec.training.initial.parent)
    bytes += parent->job.size() + parent->digest.size();
  for (const PrefixChange& change : spec.training.initial.map)
    bytes += BytesOf(change.from) + BytesOf(change.to);
  for (const auto& [name, value] : spec.training.parameters)
    bytes += kMapNode + BytesOf(name) + BytesOf(value);
  bytes += spec.runtime.stream.path.size() + spec.runtime.stream.host.size();
  bytes += spec.queue.name_space.size();
  for (const auto& [key, value] : spec.queue.labels)
    bytes += kMapNode + BytesOf(key) + BytesOf(value);
  return bytes;
}

JobBudget ShareOf(const JobBudget& all, size_t shares) {
  return {std::max(size_t{1}, all.jobs / shares), std::max(size_t{1}, all.spec_bytes / shares)};
}

std::string WhyNotKept(const KeptJobs& kept, const JobSpec& spec, const JobSpec* held,
                       const JobBudget& budget, const std::string& who) {
  if (held == nullptr && kept.jobs >= budget.jobs)
    return absl::StrCat(who, " keeps ", kept.jobs, " jobs and may keep ", budget.jobs, "; ",
                        kNextStep);
  const size_t asked = BytesOf(spec), had = held == nullptr ? 0 : BytesOf(*held);
  if (asked <= had || kept.spec_bytes - had + asked <= budget.spec_bytes) return "";
  return absl::StrCat("the specifications of all jobs that ", who, " keeps take ",
                      kept.spec_bytes / 1024, " KiB, this one takes ", asked / 1024,
                      " KiB, and all may take ", budget.spec_bytes / 1024, " KiB; ", kNextStep,
                      ", or name folders in data.paths instead of their files");
}

}  // namespace muster::coordinator
