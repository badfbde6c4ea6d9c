#include "lib/wire/job_codec.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/config/document.h"
#include "lib/kernels/sha256.h"
#include "lib/task/registry.h"
#include "lib/wire/checkpoint_fields.h"
#include "lib/wire/initial_fields.h"
#include "lib/wire/job_document.h"
#include "lib/wire/job_fields.h"
#include "lib/wire/learning_fields.h"
#include "lib/wire/stream_fields.h"
#include "lib/wire/task_parameters.h"

namespace muster {
namespace {

using nlohmann::json;

const JobSpec& DefaultSpec() {
  static const auto& spec = *new JobSpec;
  return spec;
}

// "data.stream.path" → {"data", "stream", "path"}.
std::vector<std::string> Split(const std::string& name) { return absl::StrSplit(name, '.'); }

// The value of a field in a document, or of the group that fields are in; null where it is absent.
const json& ValueAt(const json& root, const std::string& name) {
  static const auto& absent = *new json();
  const json* at = &root;
  for (const std::string& part : Split(name)) {
    if (!at->is_object()) return absent;
    const auto value = at->find(part);
    if (value == at->end()) return absent;
    at = &*value;
  }
  return *at;
}

// What stands in each group ("data", "data.stream"), fields and groups; "": at the top.
std::map<std::string, std::vector<std::string>> Groups() {
  std::map<std::string, std::vector<std::string>> groups;
  for (const FieldRule& rule : FieldRules()) {
    std::string group;
    for (const std::string& part : Split(rule.name)) {
      std::vector<std::string>& inside = groups[group];
      if (std::find(inside.begin(), inside.end(), part) == inside.end()) inside.push_back(part);
      group = FieldPath(group, part);
    }
  }
  std::sort(groups[""].begin(), groups[""].end());
  return groups;
}

absl::Status CheckShape(const Document& document) {
  for (const auto& [name, inside] : Groups()) {
    const json& group = name.empty() ? document.root : ValueAt(document.root, name);
    if (!name.empty() && group.is_null()) continue;
    MUSTER_RETURN_IF_ERROR(CheckKeys(document, name, group, inside));
  }
  return absl::OkStatus();
}

void FillDefaults(const Document& document, JobSpec& spec) {
  if (ValueAt(document.root, "lanes").is_null())
    spec.training.lanes = static_cast<int32_t>(std::min(kDefaultLanes, spec.training.batch));
  if (const TaskInfo* task = FindTask(spec.training.task))
    for (const TaskParameter& parameter : task->parameters)
      spec.training.parameters.try_emplace(parameter.name, parameter.default_value);
  if (spec.training.sync == Sync::kServer && spec.runtime.servers == 0) spec.runtime.servers = 1;
}

absl::Status CheckLength(const Document& document, const TrainingSpec& training) {
  if (training.steps == 0 && training.epochs == 0)
    return ErrorAt(document, "steps", "neither steps nor epochs is given; give one of them");
  if (training.steps != 0 && training.epochs != 0)
    return ErrorAt(document, "epochs", "steps and epochs are both given; remove one of them");
  return absl::OkStatus();
}

absl::Status CheckUnused(const Document& document, const JobSpec& spec) {
  for (const FieldRule& rule : FieldRules()) {
    const std::string reason = rule.unused(spec);
    const json& value = ValueAt(document.root, rule.name);
    const bool fits_all = rule.default_fits_all && rule.write(spec) == rule.write(DefaultSpec());
    if (reason.empty() || value.is_null() || fits_all) continue;
    return ErrorAt(document, rule.name, absl::StrCat(reason, "; remove it"));
  }
  return absl::OkStatus();
}

void Put(json& root, const FieldRule& rule, const JobSpec& spec) {
  json value = rule.write(spec);
  if (value.is_null() || (!rule.unused(spec).empty() && value == rule.write(DefaultSpec()))) return;
  json* at = &root;
  for (const std::string& part : Split(rule.name)) at = &(*at)[part];
  *at = std::move(value);
}

// The training specification as a document.
json TrainingDocument(const TrainingSpec& training) {
  json root = json::object();
  for (const FieldRule& rule : FieldRules())
    if (rule.part == SpecPart::kTraining) Put(root, rule, JobSpec{training, {}, {}});
  return root;
}

std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Text without quotes where YAML reads it back as the same text.
std::string YamlScalar(const json& value) {
  const auto bare = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_-/", c);
  };
  const auto word = [&](const std::string& text) {
    static const auto& kReserved =
        *new std::set<std::string>{"true", "false", "null", "yes", "no", "on", "off", "y", "n"};
    return !text.empty() && absl::ascii_isalpha(static_cast<unsigned char>(text[0])) &&
           std::all_of(text.begin(), text.end(), bare) &&
           !kReserved.contains(absl::AsciiStrToLower(text));
  };
  return value.is_string() && word(value.get_ref<const std::string&>()) ? value.get<std::string>()
                                                                        : Dump(value);
}

std::string Indent(size_t groups) { return std::string(2 * groups, ' '); }

void AppendYaml(std::string& out, absl::string_view indent, const std::string& key,
                const json& value) {
  if (!value.is_object() || value.empty()) {
    absl::StrAppend(&out, indent, YamlScalar(key), ": ", YamlScalar(value), "\n");
    return;
  }
  absl::StrAppend(&out, indent, YamlScalar(key), ":\n");
  for (const auto& item : value.items())
    AppendYaml(out, absl::StrCat(indent, "  "), item.key(), item.value());
}

// Leaves of the training specification: "parameters.width" and so on.
std::map<std::string, json> Leaves(const TrainingSpec& training) {
  std::map<std::string, json> leaves;
  const json root = TrainingDocument(training);
  for (const auto& [name, value] : root.items()) {
    if (!value.is_object()) leaves[name] = value;
    if (value.is_object())
      for (const auto& [inner, leaf] : value.items()) leaves[FieldPath(name, inner)] = leaf;
  }
  return leaves;
}

std::string Shown(const std::map<std::string, json>& leaves, const std::string& name) {
  auto leaf = leaves.find(name);
  if (leaf == leaves.end()) return "absent";
  return leaf->second.is_structured() ? Dump(leaf->second) : Describe(leaf->second);
}

}  // namespace

absl::StatusOr<JobSpec> FromDocument(const Document& document) {
  MUSTER_RETURN_IF_ERROR(CheckShape(document));
  JobSpec spec;
  for (const FieldRule& rule : FieldRules()) {
    const json& value = ValueAt(document.root, rule.name);
    if (!value.is_null()) MUSTER_RETURN_IF_ERROR(rule.read(document, value, spec));
  }
  if (spec.training.task.empty())
    return ErrorAt(document, "task",
                   absl::StrCat("is missing; allowed: ", absl::StrJoin(TaskNames(), ", "),
                                ", or the name of a plug-in's task"));
  FillDefaults(document, spec);
  MUSTER_RETURN_IF_ERROR(ResolveLearning(document, ValueAt(document.root, "accumulate"),
                                         ValueAt(document.root, "optimizer.learning_rate"),
                                         spec.training));
  if (const TaskInfo* task = FindTask(spec.training.task))
    MUSTER_RETURN_IF_ERROR(CheckTask(document, *task, spec.training));
  MUSTER_RETURN_IF_ERROR(CheckLength(document, spec.training));
  MUSTER_RETURN_IF_ERROR(CheckUnused(document, spec));
  MUSTER_RETURN_IF_ERROR(CheckOptimizer(document, spec.training));
  MUSTER_RETURN_IF_ERROR(CheckSchedule(document, spec.training.schedule));
  MUSTER_RETURN_IF_ERROR(CheckLeavesOut(document, spec.training));
  MUSTER_RETURN_IF_ERROR(CheckSyncs(document, spec.training));
  MUSTER_RETURN_IF_ERROR(CheckValidation(document, spec.training));
  MUSTER_RETURN_IF_ERROR(CheckKeep(document, spec));
  MUSTER_RETURN_IF_ERROR(CheckStream(document, spec));
  return spec;
}

nlohmann::json ToDocument(const JobSpec& spec) {
  json root = json::object();
  for (const FieldRule& rule : FieldRules()) Put(root, rule, spec);
  return root;
}

nlohmann::json ShownDocument(const JobSpec& spec, const std::vector<TaskParameter>& declared) {
  json root = ToDocument(spec);
  for (const TaskParameter& parameter : declared)
    if (const auto given = spec.training.parameters.find(parameter.name);
        given != spec.training.parameters.end())
      root["parameters"][parameter.name] = ShownParameter(given->second, parameter.kind);
  return root;
}

nlohmann::json ShownDocument(const JobSpec& spec) {
  const TaskInfo* const task = FindTask(spec.training.task);
  return task == nullptr ? ToDocument(spec) : ShownDocument(spec, task->parameters);
}

absl::StatusOr<JobSpec> ParseJobYaml(absl::string_view text, absl::string_view source,
                                     absl::Span<const std::string> settings) {
  MUSTER_ASSIGN_OR_RETURN(Document document, ParseYamlDocument(text, source));
  for (const std::string& setting : settings)
    MUSTER_RETURN_IF_ERROR(ApplySetting(document, setting));
  return FromDocument(document);
}

absl::StatusOr<JobSpec> ParseJobJson(absl::string_view text, absl::string_view source) {
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(text, source));
  return FromDocument(document);
}

namespace {

// Whether a setting is about the field: itself, a part of it, or the group that it is in.
bool IsSet(absl::Span<const std::string> settings, const std::string& field) {
  return std::any_of(settings.begin(), settings.end(), [&](const std::string& setting) {
    const std::string name = setting.substr(0, setting.find('='));
    return name == field || absl::StartsWith(name, field + ".") ||
           absl::StartsWith(field, name + ".");
  });
}

void Erase(json& root, const std::string& name) {
  std::vector<std::string> path = Split(name);
  const std::string last = std::move(path.back());
  path.pop_back();
  json* at = &root;
  for (const std::string& part : path) {
    const auto inner = at->find(part);
    if (inner == at->end() || !inner->is_object()) return;
    at = &*inner;
  }
  at->erase(last);
}

// What has no meaning with the settings any more, and none of them is about.
absl::Status LeaveOutUnused(absl::Span<const std::string> settings, Document& document) {
  json& root = document.root;
  for (const auto& [given, other] : {std::pair("steps", "epochs"), std::pair("epochs", "steps")})
    if (IsSet(settings, given) && !IsSet(settings, other)) root.erase(other);
  MUSTER_RETURN_IF_ERROR(CheckShape(document));
  JobSpec spec;
  for (const FieldRule& rule : FieldRules()) {
    const json& value = ValueAt(root, rule.name);
    if (!value.is_null()) MUSTER_RETURN_IF_ERROR(rule.read(document, value, spec));
  }
  for (const FieldRule& rule : FieldRules())
    if (!rule.unused(spec).empty() && !IsSet(settings, rule.name)) Erase(root, rule.name);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobSpec> ParseStoredJob(absl::string_view json, absl::string_view source,
                                       absl::Span<const std::string> settings) {
  MUSTER_ASSIGN_OR_RETURN(Document document, ParseJsonDocument(json, source));
  nlohmann::json& root = document.root;
  if (root.is_object() && !root.contains("restarts") && root.contains("retries")) {
    root["restarts"] = root["retries"];
    root.erase("retries");
  }
  if (settings.empty()) return FromDocument(document);
  for (const std::string& setting : settings)
    MUSTER_RETURN_IF_ERROR(ApplySetting(document, setting));
  MUSTER_RETURN_IF_ERROR(LeaveOutUnused(settings, document));
  return FromDocument(document);
}

absl::StatusOr<JobSpec> ForkOf(const JobSpec& parent, const ParentState& state,
                               absl::Span<const std::string> settings) {
  Document document{ToDocument(parent), "the fork", {}};
  json& root = document.root;
  root.erase("resume");
  root["initial"] = {{"parent", FromParent(state)}};
  for (const std::string& setting : settings)
    MUSTER_RETURN_IF_ERROR(ApplySetting(document, setting));
  if (root["task"] != parent.training.task)
    return ErrorAt(document, "task",
                   absl::StrCat("a fork has its parent's task, which is ", parent.training.task));
  // Where the parent goes, it is said that it may not, and nothing is left out for that.
  std::vector<std::string> said(settings.begin(), settings.end());
  said.emplace_back("initial.parent");
  MUSTER_RETURN_IF_ERROR(LeaveOutUnused(said, document));
  if (ValueAt(root, "initial.parent").is_null())
    return ErrorAt(document, "initial.parent", "is what makes the job a fork: leave it there");
  return FromDocument(document);
}

std::string ToJson(const JobSpec& spec) { return Dump(ToDocument(spec)); }

std::string ToYaml(const JobSpec& spec) {
  const json root = ToDocument(spec);
  std::string out;
  std::vector<std::string> open;  // groups that the field before is in
  for (const FieldRule& rule : FieldRules()) {
    const json& value = ValueAt(root, rule.name);
    if (value.is_null()) continue;
    std::vector<std::string> groups = Split(rule.name);
    const std::string name = std::move(groups.back());
    groups.pop_back();
    const auto same = std::mismatch(groups.begin(), groups.end(), open.begin(), open.end()).first;
    for (auto group = same; group != groups.end(); ++group)
      absl::StrAppend(&out, Indent(static_cast<size_t>(group - groups.begin())), *group, ":\n");
    AppendYaml(out, Indent(groups.size()), name, value);
    open = std::move(groups);
  }
  return out;
}

absl::StatusOr<JobSpec> Complete(const JobSpec& spec) {
  return FromDocument({ToDocument(spec), "", {}});
}

absl::Status Validate(const JobSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(const JobSpec complete, Complete(spec));
  if (complete == spec) return absl::OkStatus();
  for (const auto& [name, value] : complete.training.parameters)
    if (!spec.training.parameters.contains(name))
      return FieldError("", FieldPath("parameters", name), "is missing");
  return FieldError("", "servers", absl::StrCat("is missing; allowed: ", ToText(1, kMaxProcesses)));
}

std::string TrainingHash(const TrainingSpec& training) {
  const std::string text = Dump(TrainingDocument(training));
  Sha256 hash;
  hash.Update(BytesOf(text));
  return hash.HexFinish();
}

std::vector<std::string> TrainingDifferences(const TrainingSpec& ours, const TrainingSpec& theirs) {
  const auto left = Leaves(ours);
  const auto right = Leaves(theirs);
  std::set<std::string> names;
  for (const auto* leaves : {&left, &right})
    for (const auto& [name, value] : *leaves) names.insert(name);
  std::vector<std::string> differences;
  for (const std::string& name : names) {
    const std::string a = Shown(left, name), b = Shown(right, name);
    if (a != b) differences.push_back(absl::StrCat(name, ": ", a, " against ", b));
  }
  return differences;
}

std::vector<std::string> RuntimeDifferences(const JobSpec& ours, const JobSpec& theirs) {
  std::vector<std::string> differences;
  for (const FieldRule& rule : FieldRules()) {
    if (rule.part != SpecPart::kRuntime || rule.name == "resume") continue;
    const json a = rule.write(ours), b = rule.write(theirs);
    if (a != b) differences.push_back(absl::StrCat(rule.name, ": ", Dump(a), " against ", Dump(b)));
  }
  return differences;
}

namespace {

bool MayChange(const FieldRule& rule) {
  return rule.part == SpecPart::kQueue && rule.name != "namespace";
}

}  // namespace

json SpecSchema() {
  json root = {
      {"type", "object"}, {"additionalProperties", false}, {"required", json::array({"task"})}};
  const std::vector<JobField> fields = JobFields();
  for (size_t i = 0; i < fields.size(); ++i) {
    const JobField& field = fields[i];
    json schema = FieldRules()[i].schema;
    const std::string& fallback = field.default_value;
    // As a `default` of the schema it would be sent by clients, also where it has no meaning.
    schema["description"] =
        absl::StrCat("Of the ", PartName(field.part), " specification. Allowed: ", field.allowed,
                     ". ", fallback.empty() ? "Needed" : absl::StrCat("Default: ", fallback), ".");
    json* at = &root;
    for (const std::string& part : Split(field.name)) {
      (*at)["type"] = "object";
      (*at)["additionalProperties"] = false;
      at = &(*at)["properties"][part];
    }
    *at = std::move(schema);
  }
  return root;
}

json QueueChangeSchema() {
  json root = {{"type", "object"}, {"additionalProperties", false}};
  for (const FieldRule& rule : FieldRules()) {
    if (!MayChange(rule)) continue;
    json schema = rule.schema;
    // Of labels a null takes one away, and all others stay.
    json& taken_back = rule.name == "labels" ? schema["additionalProperties"] : schema;
    taken_back["type"] = {taken_back["type"], "null"};
    schema["description"] = absl::StrCat("Allowed: ", rule.allowed, ", or null.");
    root["properties"][rule.name] = std::move(schema);
  }
  return root;
}

absl::StatusOr<QueueChange> ParseQueueChange(absl::string_view text) {
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(text, ""));
  if (document.root.is_object() && document.root.contains("namespace"))
    return ErrorAt(document, "namespace",
                   "cannot be changed; submit the job under another id in that namespace");
  std::vector<std::string> allowed;
  for (const FieldRule& rule : FieldRules())
    if (MayChange(rule)) allowed.push_back(rule.name);
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, allowed));
  JobSpec spec;  // a field that is null keeps its default
  for (const FieldRule& rule : FieldRules()) {
    const json& value = ValueAt(document.root, rule.name);
    if (MayChange(rule) && !value.is_null())
      MUSTER_RETURN_IF_ERROR(rule.read(document, value, spec));
  }
  const auto has = [&](const char* name) { return document.root.contains(name); };
  QueueChange change;
  if (has("priority")) change.priority = spec.queue.priority;
  if (has("deadline")) change.deadline = spec.queue.deadline;
  if (has("time_to_live")) change.time_to_live = spec.queue.time_to_live;
  if (has("retries")) change.retries = spec.queue.retries;
  if (!has("labels")) return change;
  const json& labels = document.root["labels"];
  if (labels.is_null())
    return ErrorAt(document, "labels",
                   "is null; write {key: null} for each label that is to be taken away");
  for (const auto& item : labels.items()) {
    const auto given = spec.queue.labels.find(item.key());
    change.labels[item.key()] =
        given == spec.queue.labels.end() ? std::nullopt : std::optional(given->second);
  }
  return change;
}

absl::StatusOr<QueueSpec> Changed(const QueueSpec& held, const QueueChange& change) {
  JobSpec asked;
  asked.queue = held;
  asked.queue.priority = change.priority.value_or(held.priority);
  asked.queue.deadline = change.deadline.value_or(held.deadline);
  asked.queue.time_to_live = change.time_to_live.value_or(held.time_to_live);
  asked.queue.retries = change.retries.value_or(held.retries);
  for (const auto& [key, value] : change.labels) {
    if (value)
      asked.queue.labels[key] = *value;
    else
      asked.queue.labels.erase(key);
  }
  // gRPC brings any values; the rules know what is allowed.
  JobSpec read;
  read.queue.name_space = held.name_space;
  for (const FieldRule& rule : FieldRules())
    if (MayChange(rule)) MUSTER_RETURN_IF_ERROR(rule.read({}, rule.write(asked), read));
  return read.queue;
}

const char* PartName(SpecPart part) {
  switch (part) {
    case SpecPart::kTraining: return "training";
    case SpecPart::kRuntime: return "runtime";
    case SpecPart::kQueue: return "queue";
  }
  return "";
}

std::vector<JobField> JobFields() {
  std::vector<JobField> fields;
  for (const FieldRule& rule : FieldRules()) {
    const json value = rule.write(DefaultSpec());
    const std::string written = value.is_null() ? "" : Dump(value);
    fields.push_back({rule.name, rule.part, rule.default_text.empty() ? written : rule.default_text,
                      rule.allowed});
  }
  return fields;
}

}  // namespace muster
