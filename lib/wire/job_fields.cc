#include "lib/wire/job_fields.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/lease.h"
#include "lib/base/status.h"
#include "lib/base/time.h"
#include "lib/domain/best_state.h"
#include "lib/domain/labels.h"
#include "lib/domain/layout.h"
#include "lib/task/registry.h"
#include "lib/wire/checkpoint_fields.h"
#include "lib/wire/data_fields.h"
#include "lib/wire/initial_fields.h"
#include "lib/wire/job_codec.h"
#include "lib/wire/job_document.h"
#include "lib/wire/learning_fields.h"
#include "lib/wire/stream_fields.h"
#include "lib/wire/task_parameters.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr SpecPart kTraining = SpecPart::kTraining;
constexpr SpecPart kRuntime = SpecPart::kRuntime;
constexpr SpecPart kQueue = SpecPart::kQueue;
constexpr int64_t kMaxSteps = int64_t{1} << 40;
constexpr size_t kMaxListItems = 4096;

// The place of a field in the spec, for reading and for writing.
#define MUSTER_MEMBER(member) \
  [](auto& spec) -> auto& { return spec.member; }

FieldRule WithSchema(FieldRule field, json schema) {
  field.schema = std::move(schema);
  return field;
}

json WholeSchema(absl::int128 min, absl::int128 max) {
  json schema = {{"type", "integer"}, {"minimum", static_cast<int64_t>(min)}};
  if (max <= std::numeric_limits<int64_t>::max()) {
    schema["format"] = "int64";
    schema["maximum"] = static_cast<int64_t>(max);
  } else {
    schema["maximum"] = static_cast<uint64_t>(max);
  }
  return schema;
}

json RealSchema(const NumberRange& range) {
  return {{"type", "number"},
          {range.above_min ? "exclusiveMinimum" : "minimum", range.min},
          {range.below_max ? "exclusiveMaximum" : "maximum", range.max}};
}

json ChoiceSchema(const std::vector<std::string>& choices) {
  return {{"type", "string"}, {"enum", choices}};
}

template <class Member>
FieldRule Whole(const char* name, SpecPart part, Member member, absl::int128 min,
                absl::int128 max) {
  auto read = [=](const Document& document, const json& value, JobSpec& spec) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(const absl::int128 number, ReadWhole(document, name, value, min, max));
    member(spec) = static_cast<std::decay_t<decltype(member(spec))>>(number);
    return absl::OkStatus();
  };
  return WithSchema(
      {name, part, ToText(min, max), read, [=](const JobSpec& spec) { return json(member(spec)); }},
      WholeSchema(min, max));
}

template <class Member>
FieldRule Real(const char* name, SpecPart part, Member member, NumberRange range) {
  auto read = [=](const Document& document, const json& value, JobSpec& spec) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(member(spec), ReadNumber(document, name, value, range));
    return absl::OkStatus();
  };
  return WithSchema({name, part, ToText(range), read,
                     [=](const JobSpec& spec) { return FromNumber(member(spec)); }},
                    RealSchema(range));
}

// `choices` in the order of the enum's values, which count from 0.
template <class Member>
FieldRule Choice(const char* name, SpecPart part, Member member, std::vector<std::string> choices) {
  auto read = [=](const Document& document, const json& value, JobSpec& spec) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(const std::string word, ReadChoice(document, name, value, choices));
    const auto index = std::find(choices.begin(), choices.end(), word) - choices.begin();
    member(spec) = static_cast<std::decay_t<decltype(member(spec))>>(index);
    return absl::OkStatus();
  };
  auto write = [=](const JobSpec& spec) {
    return json(choices.at(static_cast<size_t>(member(spec))));
  };
  return WithSchema({name, part, absl::StrJoin(choices, ", "), read, write}, ChoiceSchema(choices));
}

template <class Member>
FieldRule Switch(const char* name, SpecPart part, Member member) {
  auto read = [=](const Document& document, const json& value, JobSpec& spec) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(member(spec), ReadSwitch(document, name, value));
    return absl::OkStatus();
  };
  return WithSchema(
      {name, part, "true, false", read, [=](const JobSpec& spec) { return json(member(spec)); }},
      {{"type", "boolean"}});
}

// `read_item` takes (document, field, value) and gives what a list of them holds.
template <class Member, class ReadItem>
FieldRule List(const char* name, SpecPart part, Member member, size_t most, std::string allowed,
               json item_schema, ReadItem read_item) {
  auto read = [=](const Document& document, const json& value, JobSpec& spec) -> absl::Status {
    if (!value.is_array() || value.size() > most)
      return ErrorAt(
          document, name,
          value.is_array()
              ? absl::StrCat(value.size(), " items; at most ", most, " are allowed")
              : absl::StrCat(Describe(value), " is not a list; write ",
                             value.is_string() ? absl::StrCat("[", value.get<std::string>(), "]")
                                               : "[a, b]"));
    member(spec).clear();
    for (size_t i = 0; i < value.size(); ++i) {
      MUSTER_ASSIGN_OR_RETURN(auto item, read_item(document, FieldPath(name, i), value[i]));
      member(spec).push_back(std::move(item));
    }
    return absl::OkStatus();
  };
  return WithSchema({name, part, std::move(allowed), read,
                     [=](const JobSpec& spec) { return json(member(spec)); }},
                    {{"type", "array"}, {"maxItems", most}, {"items", std::move(item_schema)}});
}

template <class Member>
FieldRule Texts(const char* name, SpecPart part, Member member, bool empty_allowed) {
  auto read = [=](const Document& document, const std::string& field,
                  const json& value) -> absl::StatusOr<std::string> {
    MUSTER_ASSIGN_OR_RETURN(std::string text, ReadText(document, field, value));
    if (text.empty() && !empty_allowed) return ErrorAt(document, field, "is empty");
    return text;
  };
  json text = {{"type", "string"}};
  if (!empty_allowed) text["minLength"] = 1;
  return List(name, part, member, kMaxListItems, "a list of texts", std::move(text), read);
}

template <class Member>
FieldRule Reals(const char* name, SpecPart part, Member member, size_t most, NumberRange range) {
  auto read = [=](const Document& document, const std::string& field, const json& value) {
    return ReadNumber(document, field, value, range);
  };
  return List(name, part, member, most, absl::StrCat("a list of numbers, ", ToText(range)),
              RealSchema(range), read);
}

template <class Member>
FieldRule Wholes(const char* name, SpecPart part, Member member, size_t most, int64_t min,
                 int64_t max) {
  auto read = [=](const Document& document, const std::string& field,
                  const json& value) -> absl::StatusOr<int64_t> {
    MUSTER_ASSIGN_OR_RETURN(const absl::int128 number, ReadWhole(document, field, value, min, max));
    return static_cast<int64_t>(number);
  };
  return List(name, part, member, most, absl::StrCat("a list of whole numbers, ", ToText(min, max)),
              WholeSchema(min, max), read);
}

template <class Member>
FieldRule Text(const char* name, SpecPart part, Member member, std::string allowed,
               size_t most_bytes) {
  auto read = [=](const Document& document, const json& value, JobSpec& spec) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(std::string text, ReadText(document, name, value));
    if (text.size() > most_bytes)
      return ErrorAt(document, name,
                     absl::StrCat("has ", text.size(), " bytes; allowed: ", allowed));
    member(spec) = std::move(text);
    return absl::OkStatus();
  };
  return WithSchema(
      {name, part, allowed, read, [=](const JobSpec& spec) { return json(member(spec)); }},
      {{"type", "string"}});
}

// A training field that came later is written only where it is not the default: so the hashes of
// jobs that were submitted before stay as they are, and their folders can be gone on with.
FieldRule Later(FieldRule field) {
  const json initial = field.write(JobSpec());
  field.default_text = initial.dump();
  field.write = [initial, write = field.write](const JobSpec& spec) {
    json value = write(spec);
    return value == initial ? json() : value;
  };
  return field;
}

json DnsLabelSchema() {
  return {{"type", "string"}, {"pattern", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}};
}

FieldRule Name() {
  auto read = [](const Document& document, const json& value, JobSpec& spec) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(spec.runtime.name, ReadText(document, "name", value));
    if (IsDnsLabel(spec.runtime.name)) return absl::OkStatus();
    return ErrorAt(document, "name",
                   absl::StrCat(Describe(value), " is not a name; allowed: ", kDnsLabelRule));
  };
  return WithSchema({"name", kRuntime, kDnsLabelRule, read,
                     [](const JobSpec& spec) { return json(spec.runtime.name); }},
                    DnsLabelSchema());
}

FieldRule Namespace() {
  auto read = [](const Document& document, const json& value, JobSpec& spec) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(spec.queue.name_space, ReadText(document, "namespace", value));
    if (IsDnsLabel(spec.queue.name_space)) return absl::OkStatus();
    return ErrorAt(document, "namespace",
                   absl::StrCat(Describe(value), " is not a namespace; allowed: ", kDnsLabelRule));
  };
  return WithSchema({"namespace", kQueue, kDnsLabelRule, read,
                     [](const JobSpec& spec) { return json(spec.queue.name_space); }},
                    DnsLabelSchema());
}

// Bounds of Kubernetes, so that a label of a pod can be a job's.
absl::Status ReadLabels(const Document& document, const json& value, JobSpec& spec) {
  if (!value.is_object())
    return ErrorAt(document, "labels",
                   absl::StrCat(Describe(value), " is not a mapping; write {key: value}"));
  if (value.size() > kMostLabels)
    return ErrorAt(document, "labels",
                   absl::StrCat(value.size(), " labels; at most ", kMostLabels, " are allowed"));
  spec.queue.labels.clear();
  for (const auto& item : value.items()) {
    if (item.value().is_null()) continue;
    const std::string field = FieldPath("labels", item.key());
    MUSTER_ASSIGN_OR_RETURN(std::string text, ReadText(document, field, item.value()));
    if (const std::string why = WhyNotLabel(item.key(), text); !why.empty())
      return ErrorAt(document, field, why);
    spec.queue.labels[item.key()] = std::move(text);
  }
  return absl::OkStatus();
}

FieldRule Labels() {
  auto write = [](const JobSpec& spec) {
    json labels = json::object();
    for (const auto& [key, value] : spec.queue.labels) labels[key] = value;
    return labels;
  };
  return WithSchema(
      {"labels", kQueue, absl::StrCat("at most ", kMostLabels, " texts by key"), ReadLabels, write},
      {{"type", "object"},
       {"maxProperties", kMostLabels},
       {"additionalProperties", {{"type", "string"}}}});
}

// Whether a task of another name is one of a plug-in, workers say.
FieldRule TaskName() {
  const std::string allowed = absl::StrCat(
      absl::StrJoin(TaskNames(), ", "), ", or the name of a plug-in's task (", kDnsLabelRule, ")");
  auto read = [=](const Document& document, const json& value, JobSpec& spec) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(spec.training.task, ReadText(document, "task", value));
    if (IsDnsLabel(spec.training.task)) return absl::OkStatus();
    return ErrorAt(document, "task",
                   absl::StrCat(Describe(value), " is no task; allowed: ", allowed));
  };
  return WithSchema({"task", kTraining, allowed, read,
                     [](const JobSpec& spec) {
                       return spec.training.task.empty() ? json() : json(spec.training.task);
                     }},
                    DnsLabelSchema());
}

// The task is read before its parameters.
FieldRule Parameters() {
  auto read = [](const Document& document, const json& value, JobSpec& spec) -> absl::Status {
    if (spec.training.task.empty()) return absl::OkStatus();  // that is the error to tell
    const TaskInfo* task = FindTask(spec.training.task);
    if (task == nullptr) return ReadUnknownParameters(document, value, spec.training.parameters);
    return ReadParameters(document, value, *task, spec.training.parameters);
  };
  auto write = [](const JobSpec& spec) {
    json parameters = json::object();
    for (const auto& [name, value] : spec.training.parameters)
      parameters[name] = FromParameter(value);
    return parameters;
  };
  return WithSchema({"parameters", kTraining, "the task's", read, write}, ParametersSchema());
}

FieldRule Lanes() {
  FieldRule field = Whole("lanes", kTraining, MUSTER_MEMBER(training.lanes), 1, kMostLanes);
  field.default_text = absl::StrCat("min(", kDefaultLanes, ", batch)");
  return field;
}

FieldRule ChunkBytes() {
  FieldRule field =
      Whole("chunk_bytes", kTraining, MUSTER_MEMBER(training.chunk_bytes), 64, kMaxChunkBytes);
  field.allowed = absl::StrCat("multiples of 64, ", field.allowed);
  field.schema["multipleOf"] = 64;
  field.read = [whole = field.read](const Document& document, const json& value,
                                    JobSpec& spec) -> absl::Status {
    MUSTER_RETURN_IF_ERROR(whole(document, value, spec));
    if (spec.training.chunk_bytes % 64 == 0) return absl::OkStatus();
    return ErrorAt(document, "chunk_bytes",
                   absl::StrCat(Describe(value), " is not a multiple of 64"));
  };
  return field;
}

// Seconds: 0, where the cluster's count, or so many.
template <class Member>
FieldRule SecondsOrZero(const char* name, Member member, Duration least, Duration most) {
  FieldRule field = Real(name, kRuntime, member, {0, Seconds(most)});
  field.allowed = absl::StrCat("0, or ", Seconds(least), " to ", Seconds(most));
  field.schema = {{"type", "number"},
                  {"anyOf", {{{"const", 0}}, RealSchema({Seconds(least), Seconds(most)})}}};
  field.read = [=, real = field.read, allowed = field.allowed](
                   const Document& document, const json& value, JobSpec& spec) -> absl::Status {
    MUSTER_RETURN_IF_ERROR(real(document, value, spec));
    if (member(spec) == 0 || member(spec) >= Seconds(least)) return absl::OkStatus();
    return ErrorAt(document, name,
                   absl::StrCat(Describe(value), " is out of range; allowed: ", allowed));
  };
  return field;
}

}  // namespace

absl::Status ReadWorkers(const Document& document, const json& value, JobSpec& spec) {
  RuntimeSpec& runtime = spec.runtime;
  auto count = [&](const std::string& field, const json& number, int32_t& into) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(const absl::int128 workers,
                            ReadWhole(document, field, number, 1, kMaxProcesses));
    into = static_cast<int32_t>(workers);
    return absl::OkStatus();
  };
  if (!value.is_object()) {
    runtime.workers_min = 1;
    return count("workers", value, runtime.workers_max);
  }
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "workers", value, {"min", "max"}));
  const json min = value.value("min", json());
  const json max = value.value("max", json());
  if (!min.is_null()) MUSTER_RETURN_IF_ERROR(count("workers.min", min, runtime.workers_min));
  if (max.is_null()) {
    runtime.workers_max = runtime.workers_min;
    return absl::OkStatus();
  }
  MUSTER_RETURN_IF_ERROR(count("workers.max", max, runtime.workers_max));
  if (runtime.workers_min <= runtime.workers_max) return absl::OkStatus();
  return ErrorAt(
      document, "workers.min",
      absl::StrCat(runtime.workers_min, " is more than workers.max (", runtime.workers_max, ")"));
}

namespace {

FieldRule Workers() {
  auto write = [](const JobSpec& spec) {
    return json{{"min", spec.runtime.workers_min}, {"max", spec.runtime.workers_max}};
  };
  const json count = WholeSchema(1, kMaxProcesses);
  return WithSchema({"workers", kRuntime, absl::StrCat(ToText(1, kMaxProcesses), ", or {min, max}"),
                     ReadWorkers, write},
                    {{"anyOf",
                      {count,
                       {{"type", "object"},
                        {"properties", {{"min", count}, {"max", count}}},
                        {"additionalProperties", false}}}}});
}

// `sync: server` without servers is written without them, so that its default (1) takes their
// place.
FieldRule Servers() {
  FieldRule field = Whole("servers", kRuntime, MUSTER_MEMBER(runtime.servers), 0, kMaxProcesses);
  field.allowed = absl::StrCat(ToText(1, kMaxProcesses), " with sync: server, else 0");
  field.read = [whole = field.read](const Document& document, const json& value,
                                    JobSpec& spec) -> absl::Status {
    MUSTER_RETURN_IF_ERROR(whole(document, value, spec));
    if (spec.runtime.servers > 0 || spec.training.sync != Sync::kServer) return absl::OkStatus();
    return ErrorAt(
        document, "servers",
        absl::StrCat("0 is out of range; allowed with sync: server: ", ToText(1, kMaxProcesses)));
  };
  field.write = [](const JobSpec& spec) {
    const bool absent = spec.runtime.servers == 0 && spec.training.sync == Sync::kServer;
    return absent ? json() : json(spec.runtime.servers);
  };
  field.unused = [](const JobSpec& spec) {
    return spec.training.sync == Sync::kServer ? "" : "is for sync: server";
  };
  field.default_fits_all = true;
  return field;
}

absl::Status ReadResume(const Document& document, const json& value, JobSpec& spec) {
  Resume& resume = spec.runtime.resume;
  resume = {};
  if (value == "latest") return absl::OkStatus();
  if (value == "never") {
    resume.kind = ResumeKind::kNever;
    return absl::OkStatus();
  }
  if (value.is_string() && IsKeptName(value.get<std::string>())) {
    resume = {ResumeKind::kNamed, 0, value.get<std::string>()};
    return absl::OkStatus();
  }
  const absl::StatusOr<absl::int128> step = ReadWhole(document, "resume", value, 1, kMaxSteps);
  if (!step.ok())
    return ErrorAt(
        document, "resume",
        absl::StrCat(Describe(value), " is not known; allowed: latest, never, best, a step, ",
                     ToText(1, kMaxSteps), ", or the name of a checkpoint that is kept, ",
                     kKeptNameRule));
  resume = {ResumeKind::kStep, static_cast<int64_t>(*step)};
  return absl::OkStatus();
}

FieldRule ResumeField() {
  auto write = [](const JobSpec& spec) -> json {
    const Resume& resume = spec.runtime.resume;
    if (resume.kind == ResumeKind::kStep) return resume.step;
    if (resume.kind == ResumeKind::kNamed) return resume.name;
    return resume.kind == ResumeKind::kNever ? "never" : "latest";
  };
  return WithSchema(
      {"resume", kRuntime,
       "latest, never, best, the number of a step, or the name of a checkpoint that is kept",
       ReadResume, write},
      {{"anyOf",
        {ChoiceSchema({"latest", "never", kBest}), WholeSchema(1, kMaxSteps), DnsLabelSchema()}}});
}

FieldRule OnlyFor(FieldRule field, std::function<std::string(const JobSpec&)> unused) {
  field.unused = std::move(unused);
  return field;
}

FieldRule LearningRateField() {
  auto read = [](const Document& document, const json& value, JobSpec& spec) {
    return ReadLearningRate(document, value, spec.training.optimizer);
  };
  return WithSchema(
      {"optimizer.learning_rate", kTraining,
       absl::StrCat(ToText(kLearningRates), ", or {value, per_samples}"), read,
       [](const JobSpec& spec) { return FromNumber(spec.training.optimizer.learning_rate); }},
      LearningRateSchema());
}

// What it makes of batch and lanes is written, so that the field itself never is.
FieldRule Accumulate() {
  auto read = [](const Document& document, const json& value, JobSpec&) {
    return ReadWhole(document, "accumulate", value, 1, kMostLanes).status();
  };
  FieldRule field = {"accumulate", kTraining, ToText(1, kMostLanes), read,
                     [](const JobSpec&) { return json(); }};
  field.default_text = absl::StrCat(1);
  return WithSchema(std::move(field), WholeSchema(1, kMostLanes));
}

FieldRule Milestones() {
  auto read = [](const Document& document, const json& value, JobSpec& spec) {
    return ReadMilestones(document, value, spec.training.schedule.milestones);
  };
  return WithSchema(
      {"schedule.milestones", kTraining, "a list of steps, ascending", read,
       [](const JobSpec& spec) { return json(spec.training.schedule.milestones); }},
      {{"type", "array"}, {"maxItems", kMostMilestones}, {"items", WholeSchema(1, kMostSteps)}});
}

FieldRule GroupsField() {
  auto read = [](const Document& document, const json& value, JobSpec& spec) {
    return ReadGroups(document, value, spec.training.groups);
  };
  return WithSchema({"groups", kTraining,
                     absl::StrCat("a list of at most ", kMostGroups,
                                  " {match, learning_rate_factor, weight_decay, frozen}"),
                     read, [](const JobSpec& spec) { return FromGroups(spec.training.groups); }},
                    GroupsSchema());
}

FieldRule PrefixChanges() {
  auto read = [](const Document& document, const json& value, JobSpec& spec) {
    return ReadPrefixChanges(document, value, spec.training.initial.map);
  };
  return WithSchema(
      {"initial.map", kTraining,
       absl::StrCat("a list of at most ", kMostPrefixChanges, " {from, to}"), read,
       [](const JobSpec& spec) { return FromPrefixChanges(spec.training.initial.map); }},
      PrefixChangesSchema());
}

FieldRule Parent() {
  auto read = [](const Document& document, const json& value, JobSpec& spec) {
    return ReadParent(document, value, spec.training.initial.parent);
  };
  FieldRule field =
      WithSchema({"initial.parent", kTraining, "{job, step, digest, updates, average}", read,
                  [](const JobSpec& spec) { return FromParent(spec.training.initial.parent); }},
                 ParentSchema());
  field.default_text = "none";
  return OnlyFor(std::move(field), [](const JobSpec& spec) {
    return spec.training.initial.file.empty() ? "" : "is for jobs without initial.file";
  });
}

// Of the checkpoints.
FieldRule Keep() {
  auto read = [](const Document& document, const json& value, JobSpec& spec) {
    return ReadKeep(document, value, spec.runtime.checkpoint);
  };
  return WithSchema({"checkpoint.keep", kRuntime,
                     absl::StrCat(ToText(1, kMostKept), ", or {last, every, every_epochs, best}"),
                     read, [](const JobSpec& spec) { return FromKeep(spec.runtime.checkpoint); }},
                    KeepSchema());
}

template <class... Kinds>
FieldRule ForSchedules(FieldRule field, std::string names, Kinds... kinds) {
  return OnlyFor(std::move(field), [=](const JobSpec& spec) {
    return ((spec.training.schedule.kind == kinds) || ...)
               ? ""
               : absl::StrCat("is for schedule.kind: ", names);
  });
}

template <class... Kinds>
FieldRule ForOptimizers(FieldRule field, std::string names, Kinds... kinds) {
  return OnlyFor(std::move(field), [=](const JobSpec& spec) {
    return ((spec.training.optimizer.kind == kinds) || ...)
               ? ""
               : absl::StrCat("is for optimizer.kind: ", names);
  });
}

std::string NeedsFiles(const JobSpec& spec) {
  const TaskInfo* task = FindTask(spec.training.task);
  return task == nullptr || task->data_needed
             ? ""
             : absl::StrCat("is for tasks that read files; ", task->name, " does not");
}

// A stream comes from one place, which is no file.
std::string NeedsPaths(const JobSpec& spec) {
  return spec.training.data.format == DataFormat::kStream
             ? "is for data in files; a stream comes from data.stream.path"
             : NeedsFiles(spec);
}

std::string NeedsText(const JobSpec& spec) {
  return spec.training.data.format == DataFormat::kText ? NeedsFiles(spec)
                                                        : "is for data.format: text";
}

std::string MakesData(const JobSpec& spec) {
  const TaskInfo* task = FindTask(spec.training.task);
  return task != nullptr && task->data_needed
             ? absl::StrCat("is for tasks that make their data; ", task->name, " reads data.paths")
             : "";
}

// Of decoded images.
FieldRule Channels() {
  FieldRule field = Whole("data.channels", kTraining, MUSTER_MEMBER(training.data.channels), 1, 3);
  field.allowed = "1, 3";
  field.schema = {{"type", "integer"}, {"enum", {1, 3}}};
  field.read = [whole = field.read](const Document& document, const json& value,
                                    JobSpec& spec) -> absl::Status {
    MUSTER_RETURN_IF_ERROR(whole(document, value, spec));
    if (spec.training.data.channels != 2) return absl::OkStatus();
    return ErrorAt(document, "data.channels", "2 is not known; allowed: 1, 3");
  };
  return field;
}

FieldRule DeclaredTypes() {
  auto read = [](const Document& document, const json& value, JobSpec& spec) {
    return ReadTypes(document, value, spec.training.data.types);
  };
  return WithSchema({"data.types", kTraining, "types by column or key", read,
                     [](const JobSpec& spec) { return FromTypes(spec.training.data.types); }},
                    TypesSchema());
}

FieldRule DeclaredShapes() {
  auto read = [](const Document& document, const json& value, JobSpec& spec) {
    return ReadShapes(document, value, spec.training.data.shapes);
  };
  return WithSchema({"data.shapes", kTraining, "lists of whole numbers by key", read,
                     [](const JobSpec& spec) { return FromShapes(spec.training.data.shapes); }},
                    ShapesSchema());
}

FieldRule StreamSource() {
  const std::vector<std::string> choices = {"folder", "socket"};
  auto read = [=](const Document& document, const json& value, JobSpec& spec) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(const std::string word,
                            ReadChoice(document, "data.stream.source", value, choices));
    spec.training.stream = word == choices[0] ? StreamFrom::kFolder : StreamFrom::kSocket;
    return absl::OkStatus();
  };
  auto write = [=](const JobSpec& spec) {
    return spec.training.stream ? json(choices[static_cast<size_t>(*spec.training.stream)])
                                : json();
  };
  FieldRule field = {"data.stream.source", kTraining, absl::StrJoin(choices, ", "), read, write};
  field.default_text = "none";
  return WithSchema(std::move(field), ChoiceSchema(choices));
}

FieldRule StreamFields() {
  auto read = [](const Document& document, const json& value, JobSpec& spec) {
    return ReadStreamFields(document, value, spec.training.data.fields);
  };
  FieldRule field = {
      "data.stream.fields", kTraining,
      absl::StrCat("a list of at most ", kMostStreamFields, " {name, type, shape}"), read,
      [](const JobSpec& spec) { return FromStreamFields(spec.training.data.fields); }};
  field.default_text = "[]";
  return WithSchema(std::move(field), StreamFieldsSchema());
}

std::vector<FieldRule> StreamRules() {
  const auto streamed = [](const JobSpec& spec) {
    return spec.training.data.format == DataFormat::kStream ? "" : "is for data.format: stream";
  };
  return {
      OnlyFor(StreamSource(), streamed),
      OnlyFor(StreamFields(), streamed),
      OnlyFor(Text("data.stream.path", kRuntime, MUSTER_MEMBER(runtime.stream.path),
                   "at most 4096 bytes", 4096),
              streamed),
      OnlyFor(Text("data.stream.host", kRuntime, MUSTER_MEMBER(runtime.stream.host),
                   "at most 256 bytes", 256),
              streamed),
      OnlyFor(Whole("data.stream.max_bytes", kRuntime, MUSTER_MEMBER(runtime.stream.max_bytes), 1,
                    kMostStreamBytes),
              streamed),
  };
}

// What a sample is, for tasks that read a data set (muster/data_set.h): those of plug-ins, and ours
// whose model the job brings.
std::vector<FieldRule> DataSetRules() {
  const auto of_format = [](std::vector<DataFormat> formats, std::string names) {
    return [=](const JobSpec& spec) -> std::string {
      const TaskInfo* task = FindTask(spec.training.task);
      if (task != nullptr && !BringsItsModel(task->name))
        return absl::StrCat("is for tasks that read data sets; ", task->name, " does not");
      const bool fits = formats.empty() || std::find(formats.begin(), formats.end(),
                                                     spec.training.data.format) != formats.end();
      return fits ? "" : absl::StrCat("is for data.format: ", names);
    };
  };
  const auto any = of_format({}, "");
  const auto csv = of_format({DataFormat::kCsv}, "csv");
  const auto arrays =
      of_format({DataFormat::kNumpy, DataFormat::kSafetensors, DataFormat::kPt, DataFormat::kHdf5},
                "numpy, safetensors, pt, hdf5");
  const auto typed = of_format({DataFormat::kCsv, DataFormat::kNumpy, DataFormat::kSafetensors,
                                DataFormat::kPt, DataFormat::kHdf5},
                               "csv, numpy, safetensors, pt, hdf5");
  const auto labelled = of_format({DataFormat::kCsv, DataFormat::kNumpy, DataFormat::kSafetensors,
                                   DataFormat::kPt, DataFormat::kHdf5, DataFormat::kStream},
                                  "csv, numpy, safetensors, pt, hdf5, stream");
  const auto shaped =
      of_format({DataFormat::kText, DataFormat::kCsv, DataFormat::kNumpy, DataFormat::kSafetensors,
                 DataFormat::kPt, DataFormat::kHdf5, DataFormat::kIdx, DataFormat::kStream},
                "text, csv, numpy, safetensors, pt, hdf5, idx, stream");
  const auto decoded =
      of_format({DataFormat::kImages, DataFormat::kWebDataset}, "images, webdataset");
  const auto set =
      of_format({DataFormat::kCsv, DataFormat::kNumpy, DataFormat::kSafetensors, DataFormat::kPt,
                 DataFormat::kHdf5, DataFormat::kIdx, DataFormat::kCifar10, DataFormat::kCifar100,
                 DataFormat::kImages, DataFormat::kWebDataset, DataFormat::kStream},
                "csv, numpy, safetensors, pt, hdf5, idx, cifar10, cifar100, images, webdataset, "
                "stream");
  constexpr size_t kMostDimensions = 8;
  return {
      OnlyFor(Later(Choice("data.format", kTraining, MUSTER_MEMBER(training.data.format),
                           {"text", "csv", "numpy", "safetensors", "idx", "cifar10", "cifar100",
                            "images", "webdataset", "pt", "hdf5", "stream"})),
              any),
      OnlyFor(Later(Texts("data.columns", kTraining, MUSTER_MEMBER(training.data.columns), false)),
              csv),
      OnlyFor(Later(Texts("data.keys", kTraining, MUSTER_MEMBER(training.data.keys), false)),
              arrays),
      OnlyFor(Later(Text("data.label", kTraining, MUSTER_MEMBER(training.data.label),
                         "at most 256 bytes", 256)),
              labelled),
      OnlyFor(Later(Texts("data.classes", kTraining, MUSTER_MEMBER(training.data.classes), false)),
              csv),
      OnlyFor(Later(DeclaredTypes()), typed),
      OnlyFor(Later(DeclaredShapes()), arrays),
      OnlyFor(Later(Switch("data.header", kTraining, MUSTER_MEMBER(training.data.header))), csv),
      OnlyFor(Later(Text("data.delimiter", kTraining, MUSTER_MEMBER(training.data.delimiter),
                         "one character of ASCII", 1)),
              csv),
      OnlyFor(Later(Wholes("data.shape", kTraining, MUSTER_MEMBER(training.data.shape),
                           kMostDimensions, 1, int64_t{1} << 31)),
              shaped),
      OnlyFor(Later(Wholes("data.image_size", kTraining, MUSTER_MEMBER(training.data.image_size), 2,
                           1, 8192)),
              decoded),
      OnlyFor(Later(Choice("data.fit", kTraining, MUSTER_MEMBER(training.data.fit),
                           {"crop", "stretch"})),
              decoded),
      OnlyFor(Later(Channels()), decoded),
      OnlyFor(Later(Reals("data.mean", kTraining, MUSTER_MEMBER(training.data.mean), kMaxListItems,
                          {-1e30, 1e30})),
              set),
      OnlyFor(Later(Reals("data.deviation", kTraining, MUSTER_MEMBER(training.data.deviation),
                          kMaxListItems, {.min = 1e-30, .max = 1e30})),
              set),
      OnlyFor(Later(Whole("data.crop", kTraining, MUSTER_MEMBER(training.data.crop), 0, 8192)),
              set),
      OnlyFor(Later(Switch("data.flip", kTraining, MUSTER_MEMBER(training.data.flip))), set),
      OnlyFor(Later(Choice("data.on_bad_sample", kTraining,
                           MUSTER_MEMBER(training.data.on_bad_sample), {"stop", "skip"})),
              any),
      OnlyFor(Later(Real("data.validation_share", kTraining,
                         MUSTER_MEMBER(training.data.validation_share),
                         {.min = 0, .max = 1, .below_max = true})),
              any),
      OnlyFor(Later(Whole("data.split_seed", kTraining, MUSTER_MEMBER(training.data.split_seed), 0,
                          std::numeric_limits<uint64_t>::max())),
              any),
  };
}

// What is computed.
std::vector<FieldRule> TaskRules() {
  return {
      Name(),
      TaskName(),
      Parameters(),
      OnlyFor(Texts("data.paths", kTraining, MUSTER_MEMBER(training.data.paths), false),
              NeedsPaths),
      OnlyFor(Texts("data.suffixes", kTraining, MUSTER_MEMBER(training.data.suffixes), true),
              NeedsFiles),
      OnlyFor(
          Whole("data.max_bytes", kTraining, MUSTER_MEMBER(training.data.max_bytes), 0, kMaxSteps),
          NeedsText),
      OnlyFor(Later(Choice("data.unreadable", kTraining, MUSTER_MEMBER(training.data.unreadable),
                           {"fail", "skip"})),
              NeedsFiles),
      OnlyFor(Later(Choice("data.verify", kRuntime, MUSTER_MEMBER(training.data.verify),
                           {"full", "quick"})),
              NeedsFiles),
      OnlyFor(Whole("data.samples", kTraining, MUSTER_MEMBER(training.data.samples), 0, kMaxSteps),
              MakesData),
      Lanes(),
      Whole("batch", kTraining, MUSTER_MEMBER(training.batch), 1, kMostSamplesPerStep),
      Accumulate(),
      Whole("steps", kTraining, MUSTER_MEMBER(training.steps), 0, kMaxSteps),
      Whole("epochs", kTraining, MUSTER_MEMBER(training.epochs), 0, int64_t{1} << 20),
  };
}

std::vector<FieldRule> OptimizerRules() {
  const NumberRange beta = {.min = 0, .max = 1, .below_max = true};
  const auto no_decay = [](const JobSpec& spec) {
    return spec.training.optimizer.weight_decay > 0 ? "" : "is for a weight_decay above 0";
  };
  auto moments_only = [](FieldRule field) {
    return ForOptimizers(std::move(field), "adam, adamw, lamb", OptimizerKind::kAdam,
                         OptimizerKind::kAdamW, OptimizerKind::kLamb);
  };
  return {
      Choice("optimizer.kind", kTraining, MUSTER_MEMBER(training.optimizer.kind),
             {"sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad", "lamb", "lars"}),
      LearningRateField(),
      ForOptimizers(
          Real("optimizer.momentum", kTraining, MUSTER_MEMBER(training.optimizer.momentum), beta),
          "momentum, lars", OptimizerKind::kMomentum, OptimizerKind::kLars),
      ForOptimizers(Later(Switch("optimizer.nesterov", kTraining,
                                 MUSTER_MEMBER(training.optimizer.nesterov))),
                    "momentum", OptimizerKind::kMomentum),
      moments_only(
          Real("optimizer.beta1", kTraining, MUSTER_MEMBER(training.optimizer.beta1), beta)),
      moments_only(
          Real("optimizer.beta2", kTraining, MUSTER_MEMBER(training.optimizer.beta2), beta)),
      ForOptimizers(
          Later(Real("optimizer.alpha", kTraining, MUSTER_MEMBER(training.optimizer.alpha), beta)),
          "rmsprop", OptimizerKind::kRmsprop),
      ForOptimizers(Real("optimizer.epsilon", kTraining, MUSTER_MEMBER(training.optimizer.epsilon),
                         {.min = 0, .max = 1, .above_min = true}),
                    "adam, adamw, rmsprop, adagrad, lamb, lars", OptimizerKind::kAdam,
                    OptimizerKind::kAdamW, OptimizerKind::kRmsprop, OptimizerKind::kAdagrad,
                    OptimizerKind::kLamb, OptimizerKind::kLars),
      ForOptimizers(
          Later(Real("optimizer.trust", kTraining, MUSTER_MEMBER(training.optimizer.trust),
                     {.min = 0, .max = 1000, .above_min = true})),
          "lars", OptimizerKind::kLars),
      Real("optimizer.weight_decay", kTraining, MUSTER_MEMBER(training.optimizer.weight_decay),
           {0, 1000}),
      OnlyFor(Later(Choice("optimizer.weight_decay_on", kTraining,
                           MUSTER_MEMBER(training.optimizer.weight_decay_on), {"all", "matrices"})),
              no_decay),
  };
}

std::vector<FieldRule> ScheduleRules() {
  const NumberRange divisor = {.min = 0, .max = 1e12, .above_min = true};
  const auto one_cycle = [](const JobSpec& spec) {
    return spec.training.schedule.kind == ScheduleKind::kOneCycle
               ? "is for every schedule.kind but one_cycle, which has schedule.pct_start"
               : "";
  };
  auto one_cycle_only = [](FieldRule field) {
    return ForSchedules(Later(std::move(field)), "one_cycle", ScheduleKind::kOneCycle);
  };
  return {
      Choice("schedule.kind", kTraining, MUSTER_MEMBER(training.schedule.kind),
             {"constant", "linear", "cosine", "step", "milestones", "polynomial", "one_cycle",
              "plateau"}),
      OnlyFor(Whole("schedule.warmup_steps", kTraining,
                    MUSTER_MEMBER(training.schedule.warmup_steps), 0, kMaxSteps),
              one_cycle),
      ForSchedules(Real("schedule.final_ratio", kTraining,
                        MUSTER_MEMBER(training.schedule.final_ratio), {0, 1}),
                   "linear, cosine, polynomial, plateau", ScheduleKind::kLinear,
                   ScheduleKind::kCosine, ScheduleKind::kPolynomial, ScheduleKind::kPlateau),
      ForSchedules(Later(Real("schedule.power", kTraining, MUSTER_MEMBER(training.schedule.power),
                              {.min = 0, .max = 100, .above_min = true})),
                   "polynomial", ScheduleKind::kPolynomial),
      ForSchedules(Later(Whole("schedule.step_size", kTraining,
                               MUSTER_MEMBER(training.schedule.step_size), 0, kMaxSteps)),
                   "step", ScheduleKind::kStep),
      ForSchedules(Later(Milestones()), "milestones", ScheduleKind::kMilestones),
      ForSchedules(
          Later(Real("schedule.gamma", kTraining, MUSTER_MEMBER(training.schedule.gamma), {0, 1})),
          "step, milestones, plateau", ScheduleKind::kStep, ScheduleKind::kMilestones,
          ScheduleKind::kPlateau),
      ForSchedules(Later(Whole("schedule.patience", kTraining,
                               MUSTER_MEMBER(training.schedule.patience), 0, kMaxSteps)),
                   "plateau", ScheduleKind::kPlateau),
      one_cycle_only(Real("schedule.pct_start", kTraining,
                          MUSTER_MEMBER(training.schedule.pct_start), {0, 1})),
      one_cycle_only(Real("schedule.div_factor", kTraining,
                          MUSTER_MEMBER(training.schedule.div_factor), divisor)),
      one_cycle_only(Real("schedule.final_div_factor", kTraining,
                          MUSTER_MEMBER(training.schedule.final_div_factor), divisor)),
  };
}

// How good the model is while it trains, and what follows from it.
std::vector<FieldRule> ValidationRules() {
  constexpr size_t kLongestMetric = 64;
  const auto wanted = [](const JobSpec& spec) {
    return spec.training.validation.wanted()
               ? ""
               : "is for jobs with validation.every_steps or validation.every_epochs";
  };
  const auto judged = [wanted](const JobSpec& spec) -> std::string {
    const TrainingSpec& training = spec.training;
    if (!training.validation.wanted()) return wanted(spec);
    const bool is_used = training.validation.patience > 0 ||
                         training.schedule.kind == ScheduleKind::kPlateau ||
                         !spec.runtime.checkpoint.keep_best.empty();
    return is_used ? ""
                   : "is for validation.patience, schedule.kind: plateau, or checkpoint.keep.best";
  };
  return {
      Later(Whole("validation.every_steps", kTraining,
                  MUSTER_MEMBER(training.validation.every_steps), 0, kMaxSteps)),
      Later(Whole("validation.every_epochs", kTraining,
                  MUSTER_MEMBER(training.validation.every_epochs), 0, int64_t{1} << 20)),
      OnlyFor(Later(Texts("validation.paths", kTraining, MUSTER_MEMBER(training.validation.paths),
                          false)),
              wanted),
      OnlyFor(Later(Whole("validation.batch", kTraining, MUSTER_MEMBER(training.validation.batch),
                          0, kMostSamplesPerStep)),
              wanted),
      OnlyFor(Later(Text("validation.metric", kTraining, MUSTER_MEMBER(training.validation.metric),
                         "at most 64 bytes", kLongestMetric)),
              judged),
      OnlyFor(Later(Choice("validation.mode", kTraining, MUSTER_MEMBER(training.validation.mode),
                           {"min", "max"})),
              judged),
      OnlyFor(Later(Real("validation.min_delta", kTraining,
                         MUSTER_MEMBER(training.validation.min_delta), {0, 1e30})),
              judged),
      OnlyFor(Later(Whole("validation.patience", kTraining,
                          MUSTER_MEMBER(training.validation.patience), 0, kMaxSteps)),
              wanted),
      OnlyFor(Later(Choice("validation.on", kTraining, MUSTER_MEMBER(training.validation.on),
                           {"workers", "follower"})),
              wanted),
      OnlyFor(Later(Whole("validation.delay", kTraining, MUSTER_MEMBER(training.validation.delay),
                          1, kMaxSteps)),
              [wanted](const JobSpec& spec) -> std::string {
                const ValidationSpec& validation = spec.training.validation;
                if (!validation.wanted()) return wanted(spec);
                return validation.by_follower() ? "" : "is for validation.on: follower";
              }),
  };
}

// What else the training depends on, how it runs, and what the queue needs.
std::vector<FieldRule> OtherRules() {
  const NumberRange decay = {.min = 0, .max = 1, .below_max = true};
  const auto no_file = [](const JobSpec& spec) {
    return spec.training.initial.file.empty() ? "is for jobs with initial.file" : "";
  };
  return {
      Later(Text("initial.file", kTraining, MUSTER_MEMBER(training.initial.file),
                 "at most 4096 bytes", 4096)),
      OnlyFor(Later(PrefixChanges()), no_file),
      OnlyFor(Later(Switch("initial.strict", kTraining, MUSTER_MEMBER(training.initial.strict))),
              no_file),
      Parent(),
      Later(GroupsField()),
      Later(Real("ema.decay", kTraining, MUSTER_MEMBER(training.ema_decay), decay)),
      Real("clip_norm", kTraining, MUSTER_MEMBER(training.clip_norm), {0, 1e9}),
      Later(Choice("on_nan", kTraining, MUSTER_MEMBER(training.on_nan),
                   {"stop", "skip", "continue"})),
      Choice("reduction", kTraining, MUSTER_MEMBER(training.reduction), {"mean", "sum"}),
      Whole("seed", kTraining, MUSTER_MEMBER(training.seed), 0,
            std::numeric_limits<uint64_t>::max()),
      Choice("order", kTraining, MUSTER_MEMBER(training.order), {"canonical", "free"}),
      Choice("sync", kTraining, MUSTER_MEMBER(training.sync), {"allreduce", "server"}),
      Later(Switch("sync_batch_norm", kTraining, MUSTER_MEMBER(training.sync_batch_norm))),
      Choice("precision", kTraining, MUSTER_MEMBER(training.precision), {"fp32"}),
      Whole("threads", kTraining, MUSTER_MEMBER(training.threads), 1, 1024),
      ChunkBytes(),
      Workers(),
      Servers(),
      Whole("devices", kRuntime, MUSTER_MEMBER(runtime.devices), 0, kMostDevices),
      Whole("restarts", kRuntime, MUSTER_MEMBER(runtime.restarts), 0, kMostRestarts),
      Whole("checkpoint.every_steps", kRuntime, MUSTER_MEMBER(runtime.checkpoint.every_steps), 0,
            kMaxSteps),
      Whole("checkpoint.every_epochs", kRuntime, MUSTER_MEMBER(runtime.checkpoint.every_epochs), 0,
            kMaxSteps),
      Real("checkpoint.every_seconds", kRuntime, MUSTER_MEMBER(runtime.checkpoint.every_seconds),
           {0, 1e9}),
      Keep(),
      Switch("checkpoint.at_end", kRuntime, MUSTER_MEMBER(runtime.checkpoint.at_end)),
      ResumeField(),
      Whole("bucket_bytes", kRuntime, MUSTER_MEMBER(runtime.bucket_bytes), 64, int64_t{1} << 31),
      Whole("first_bucket_bytes", kRuntime, MUSTER_MEMBER(runtime.first_bucket_bytes), 64,
            int64_t{1} << 31),
      Whole("fingerprint_every", kRuntime, MUSTER_MEMBER(runtime.fingerprint_every), 0, kMaxSteps),
      SecondsOrZero("lease", MUSTER_MEMBER(runtime.lease), kShortestLease, kLongestLease),
      SecondsOrZero("thread_patience", MUSTER_MEMBER(runtime.thread_patience),
                    kShortestThreadPatience, kLongestThreadPatience),
      Namespace(),
      Whole("priority", kQueue, MUSTER_MEMBER(queue.priority), -kMostPriority, kMostPriority),
      Real("deadline", kQueue, MUSTER_MEMBER(queue.deadline), {0, kMostQueueSeconds}),
      Real("time_to_live", kQueue, MUSTER_MEMBER(queue.time_to_live), {0, kMostQueueSeconds}),
      Whole("retries", kQueue, MUSTER_MEMBER(queue.retries), 0, kMostRetries),
      Labels(),
  };
}

std::vector<FieldRule> MakeFieldRules() {
  std::vector<FieldRule> all;
  for (auto* part : {TaskRules, OptimizerRules, ScheduleRules, ValidationRules, OtherRules})
    for (FieldRule& rule : part()) all.push_back(std::move(rule));
  return all;
}

#undef MUSTER_MEMBER

std::vector<FieldRule> AllRules() {
  std::vector<FieldRule> rules = MakeFieldRules();
  std::vector<FieldRule> of_data_set = DataSetRules();
  const auto last_of_data = std::find_if(rules.begin(), rules.end(), [](const FieldRule& rule) {
    return rule.name == "data.samples";
  });
  rules.insert(last_of_data + 1, std::make_move_iterator(of_data_set.begin()),
               std::make_move_iterator(of_data_set.end()));
  // What is to be said of a stream stands behind what is to be said of files.
  std::vector<FieldRule> of_stream = StreamRules();
  const auto last = std::find_if(rules.begin(), rules.end(), [](const FieldRule& rule) {
    return rule.name == "data.split_seed";
  });
  rules.insert(last + 1, std::make_move_iterator(of_stream.begin()),
               std::make_move_iterator(of_stream.end()));
  return rules;
}

}  // namespace

std::vector<std::string> TaskNames() {
  std::vector<std::string> names;
  for (const TaskInfo& task : Tasks()) names.push_back(task.name);
  return names;
}

const std::vector<FieldRule>& FieldRules() {
  static const auto& fields = *new std::vector<FieldRule>(AllRules());
  return fields;
}

}  // namespace muster
