#include "cli/rest_client.h"

#include <limits>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "cli/json_text.h"
#include "lib/base/digits.h"
#include "lib/base/status.h"
#include "lib/http/client.h"

namespace muster::cli {
namespace {

using Json = nlohmann::json;

// What is absent or of another type keeps its default: a newer or older coordinator can still be
// read.
template <class T>
void Read(const Json& object, const char* name, T& value) {
  const auto it = object.find(name);
  if (it == object.end()) return;
  if constexpr (std::is_same_v<T, bool>) {
    if (it->is_boolean()) value = it->get<bool>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (it->is_string()) value = it->get<std::string>();
  } else if constexpr (std::is_integral_v<T>) {
    if (it->is_number_integer()) value = it->get<T>();
  } else if constexpr (std::is_same_v<T, std::optional<std::string>>) {
    if (it->is_string()) value = it->template get<std::string>();
  } else if constexpr (std::is_same_v<T, std::optional<int64_t>>) {
    if (it->is_number_integer()) value = it->template get<int64_t>();
  } else if constexpr (std::is_same_v<T, std::optional<double>>) {
    if (it->is_number()) value = it->template get<double>();
  } else {
    if (it->is_number()) value = it->get<T>();
  }
}

// 0: none is there.
int64_t UnixMillisIn(const Json& object, const char* name) {
  std::string text;
  Read(object, name, text);
  absl::Time time;
  const bool is_time = absl::ParseTime(absl::RFC3339_full, text, &time, nullptr);
  return is_time ? absl::ToUnixMillis(time) : 0;
}

std::string PathOf(const std::string& id) { return "/v1/jobs/" + http::EscapeUrlPart(id); }

absl::StatusOr<Json> ParseObject(const std::string& text) {
  Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    return absl::InternalError(absl::StrCat(
        "the coordinator answered with something else than an object: ", text.substr(0, 200)));
  return object;
}

// What is no list of objects is taken as an empty one.
std::vector<Json> ListIn(const Json& object, const char* name) {
  std::vector<Json> list;
  if (const auto it = object.find(name); it != object.end() && it->is_array())
    for (const Json& entry : *it)
      if (entry.is_object()) list.push_back(entry);
  return list;
}

int64_t LengthOf(const Json& object, const char* list) {
  const auto it = object.find(list);
  return it != object.end() && it->is_array() ? static_cast<int64_t>(it->size()) : 0;
}

std::vector<MetricValue> ValidationIn(const Json& object) {
  std::vector<MetricValue> metrics;
  for (const Json& entry : ListIn(object, "validation")) {
    MetricValue& metric = metrics.emplace_back();
    Read(entry, "metric", metric.metric);
    Read(entry, "value", metric.value);
  }
  return metrics;
}

MemberAnswer MemberFrom(const Json& object) {
  MemberAnswer member;
  Read(object, "name", member.name);
  Read(object, "role", member.role);
  Read(object, "rank", member.rank);
  Read(object, "node", member.node);
  Read(object, "host", member.host);
  Read(object, "state", member.state);
  Read(object, "phase", member.phase);
  if (const auto lanes = object.find("lanes"); lanes != object.end() && lanes->is_array())
    member.lanes = static_cast<int64_t>(lanes->size());
  else
    Read(object, "lanes", member.lanes);
  return member;
}

std::optional<StreamAnswer> StreamIn(const Json& object) {
  const auto found = object.find("stream");
  if (found == object.end() || !found->is_object()) return std::nullopt;
  StreamAnswer stream;
  Read(*found, "samples", stream.samples);
  Read(*found, "end", stream.end);
  Read(*found, "trimmed", stream.trimmed);
  Read(*found, "spool_bytes", stream.spool_bytes);
  Read(*found, "file", stream.file);
  return stream;
}

void ReadProcesses(const Json& spec, JobAnswer& job) {
  Read(spec, "servers", job.servers);
  if (const auto measured = spec.find("validation");
      measured != spec.end() && measured->is_object())
    job.has_follower = measured->value("on", Json()) == "follower";
  if (const auto data = spec.find("data"); data != spec.end() && data->is_object())
    job.has_reader = data->value("format", Json()) == "stream";
  if (const auto workers = spec.find("workers"); workers != spec.end() && workers->is_object())
    Read(*workers, "max", job.most_workers);
}

std::vector<PluginUse> PluginsIn(const Json& object) {
  std::vector<PluginUse> uses;
  for (const Json& entry : ListIn(object, "plugins")) {
    PluginUse& use = uses.emplace_back();
    Read(entry, "from", use.from);
    Read(entry, "file", use.file);
    Read(entry, "accepted_by", use.accepted_by);
  }
  return uses;
}

std::string ParentIn(const Json& object) {
  const auto parent = object.find("parent");
  if (parent == object.end() || !parent->is_object()) return "";
  std::string job, digest;
  int64_t step = 0;
  Read(*parent, "job", job);
  Read(*parent, "step", step);
  Read(*parent, "digest", digest);
  return absl::StrCat("job ", job, ", step ", step, ", digest ", digest);
}

JobAnswer StatusFrom(const Json& object) {
  JobAnswer job;
  job.loss = std::numeric_limits<double>::quiet_NaN();
  Read(object, "id", job.id);
  Read(object, "name", job.name);
  Read(object, "state", job.state);
  Read(object, "reason", job.reason);
  Read(object, "waits_for", job.waits_for);
  Read(object, "deleting", job.deleting);
  Read(object, "first_start", job.first_start);
  Read(object, "step", job.step);
  Read(object, "steps", job.steps);
  Read(object, "epoch", job.epoch);
  Read(object, "epochs", job.epochs);
  Read(object, "samples", job.samples);
  Read(object, "loss", job.loss);
  job.validation = ValidationIn(object);
  Read(object, "validation_step", job.validation_step);
  Read(object, "digest", job.digest);
  Read(object, "digest_step", job.digest_step);
  Read(object, "sample", job.sample);
  Read(object, "exit_code", job.exit_code);
  Read(object, "fingerprint", job.fingerprint);
  Read(object, "fingerprint_step", job.fingerprint_step);
  Read(object, "workers", job.workers);
  Read(object, "view", job.view);
  Read(object, "lineage", job.lineage);
  Read(object, "views", job.views);
  Read(object, "recoveries", job.recoveries);
  Read(object, "rewinds", job.rewinds);
  Read(object, "lanes_recomputed", job.lanes_recomputed);
  Read(object, "seconds", job.seconds);
  Read(object, "seconds_left", job.seconds_left);
  Read(object, "checkpoint_step", job.checkpoint_step);
  if (const auto members = object.find("members"); members != object.end() && members->is_array())
    for (const Json& member : *members)
      if (member.is_object()) job.members.push_back(MemberFrom(member));
  if (const auto list = object.find("checkpoints"); list != object.end() && list->is_array())
    job.checkpoints = static_cast<int64_t>(list->size());
  for (const Json& entry : ListIn(object, "checkpoints")) {
    CheckpointAnswer& saved = job.saved.emplace_back();
    Read(entry, "lineage", saved.lineage);
    Read(entry, "step", saved.step);
  }
  job.parent = ParentIn(object);
  job.stream = StreamIn(object);
  if (const auto spec = object.find("spec"); spec != object.end() && spec->is_object()) {
    ReadProcesses(*spec, job);
    job.spec = Text(*spec);
  }
  job.json = Text(object);
  return job;
}

}  // namespace

bool IsLog(const EventAnswer& event) { return absl::StrContains(event.text, '\n'); }

bool IsSaidAtOnce(const EventAnswer& event) {
  const bool is_for_people =
      !event.text.empty() && event.name != "step" && event.name != "fingerprint";
  return is_for_people && event.name != "done" && !IsLog(event);
}

bool IsOver(const JobAnswer& job) {
  return job.state == "done" || job.state == "stopped" || job.state == "failed" ||
         job.state == "cancelled";
}

std::string DigestOf(const JobAnswer& job) {
  const bool unsaved = job.digest.empty() && job.state == "done";
  return unsaved ? "none: the job made no checkpoint at its end" : job.digest;
}

bool IsPassing(const absl::Status& error) {
  return absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error);
}

absl::StatusOr<JobAnswer> ParseJobAnswer(const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  return StatusFrom(object);
}

absl::StatusOr<JobList> ParseJobList(const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  JobList page;
  const auto list = object.find("jobs");
  if (list == object.end() || !list->is_array())
    return absl::InternalError("no list of jobs in the answer");
  for (const Json& job : *list)
    if (job.is_object()) page.jobs.push_back(StatusFrom(job));
  Read(object, "next_page_token", page.next_page_token);
  return page;
}

absl::StatusOr<EventAnswer> ParseEventAnswer(const std::string& name, const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  EventAnswer event{.name = name, .json = json};
  Read(object, "text", event.text);
  Read(object, "step", event.step);
  Read(object, "epoch", event.epoch);
  Read(object, "samples", event.samples);
  Read(object, "time", event.time);
  event.loss = std::numeric_limits<double>::quiet_NaN();
  Read(object, "loss", event.loss);
  if (double norm = 0; object.contains("gradient_norm") && object["gradient_norm"].is_number()) {
    Read(object, "gradient_norm", norm);
    event.gradient_norm = norm;
  }
  Read(object, "validation.loss", event.validation_loss);
  if (const auto saves = object.find("saves"); saves != object.end() && saves->is_boolean())
    event.saves = saves->get<bool>();
  Read(object, "value", event.value);
  return event;
}

absl::StatusOr<FingerprintPage> ParseFingerprints(const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  FingerprintPage page;
  const auto list = object.find("fingerprints");
  if (list == object.end() || !list->is_array())
    return absl::InternalError("no list of fingerprints in the answer");
  for (const Json& entry : *list) {
    if (!entry.is_object()) continue;
    StepFingerprint fingerprint;
    Read(entry, "step", fingerprint.step);
    Read(entry, "value", fingerprint.value);
    page.fingerprints.push_back(std::move(fingerprint));
  }
  Read(object, "next", page.next);
  return page;
}

absl::StatusOr<LogPageAnswer> ParseLogPage(const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  LogPageAnswer page;
  for (const Json& entry : ListIn(object, "lines")) {
    auto& [member, line] = page.lines.emplace_back();
    Read(entry, "member", member);
    Read(entry, "line", line);
  }
  Read(object, "next", page.next);
  Read(object, "over", page.over);
  if (page.next.empty() && !page.over)
    return absl::InternalError("the answer does not say where the lines go on");
  return page;
}

absl::StatusOr<DigestAnswer> ParseDigest(const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  DigestAnswer digest{.json = Text(object)};
  Read(object, "lineage", digest.lineage);
  Read(object, "step", digest.step);
  Read(object, "digest", digest.digest);
  return digest;
}

absl::StatusOr<AuditAnswer> ParseAudit(const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  AuditAnswer audit{.json = Text(object)};
  Read(object, "ok", audit.ok);
  Read(object, "conclusion", audit.conclusion);
  Read(object, "steps", audit.steps);
  Read(object, "samples", audit.samples);
  Read(object, "lanes", audit.lanes);
  for (const Json& entry : ListIn(object, "lineages")) {
    LineageAnswer& lineage = audit.lineages.emplace_back();
    Read(entry, "number", lineage.number);
    Read(entry, "parent", lineage.parent);
    Read(entry, "fork", lineage.fork);
    Read(entry, "cause", lineage.cause);
  }
  return audit;
}

namespace {

HostAnswer HostFrom(const Json& object) {
  HostAnswer host;
  Read(object, "name", host.name);
  Read(object, "node", host.node);
  Read(object, "slots", host.slots);
  Read(object, "used", host.used);
  host.devices = LengthOf(object, "devices");
  host.devices_used = LengthOf(object, "devices_used");
  Read(object, "up", host.up);
  Read(object, "away_for_seconds", host.away_for_seconds);
  Read(object, "draining", host.draining);
  Read(object, "left_out", host.left_out);
  Read(object, "namespace", host.name_space);
  for (const Json& entry : ListIn(object, "members")) {
    HostMemberAnswer& member = host.members.emplace_back();
    Read(entry, "job", member.job);
    Read(entry, "member", member.member);
    Read(entry, "state", member.state);
  }
  host.json = Text(object);
  return host;
}

std::string PathOfHost(const std::string& name) { return "/v1/hosts/" + http::EscapeUrlPart(name); }
std::string PathOfNamespace(const std::string& name) {
  return "/v1/namespaces/" + http::EscapeUrlPart(name);
}

}  // namespace

absl::StatusOr<HostList> ParseHostList(const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  HostList list;
  for (const Json& entry : ListIn(object, "hosts")) list.hosts.push_back(HostFrom(entry));
  Read(object, "next_page_token", list.next_page_token);
  Read(object, "launch_namespace", list.launch_namespace);
  Read(object, "launch_trouble", list.launch_trouble);
  if (const auto names = object.find("revoked"); names != object.end() && names->is_array())
    for (const Json& name : *names)
      if (name.is_string()) list.revoked.push_back(name.get<std::string>());
  return list;
}

absl::StatusOr<HostAnswer> ParseHost(const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  return HostFrom(object);
}

namespace {

// Folders of more are none of checkpoints.
constexpr size_t kMostCheckpoints = 100'000;

SavedCheckpointAnswer SavedCheckpointFrom(const Json& object) {
  SavedCheckpointAnswer saved;
  Read(object, "checkpoint", saved.checkpoint);
  Read(object, "lineage", saved.lineage);
  Read(object, "step", saved.step);
  Read(object, "epoch", saved.epoch);
  Read(object, "bytes", saved.bytes);
  Read(object, "time", saved.time);
  Read(object, "complete", saved.complete);
  Read(object, "why", saved.why);
  Read(object, "finite", saved.finite);
  Read(object, "name", saved.name);
  Read(object, "measure", saved.measure);
  Read(object, "value", saved.value);
  Read(object, "best", saved.best);
  Read(object, "left_out", saved.left_out);
  Read(object, "deleting", saved.deleting);
  return saved;
}

}  // namespace

absl::StatusOr<SavedCheckpointPage> ParseSavedCheckpoints(const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  SavedCheckpointPage page;
  for (const Json& entry : ListIn(object, "checkpoints"))
    page.checkpoints.push_back(SavedCheckpointFrom(entry));
  Read(object, "next_page_token", page.next_page_token);
  return page;
}

absl::StatusOr<AdoptionAnswer> ParseAdoption(const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  AdoptionAnswer adoption;
  Read(object, "adoption", adoption.adoption);
  Read(object, "job", adoption.job);
  Read(object, "state", adoption.state);
  Read(object, "bytes", adoption.bytes);
  Read(object, "of_bytes", adoption.of_bytes);
  Read(object, "bytes_per_second", adoption.bytes_per_second);
  Read(object, "seconds_left", adoption.seconds_left);
  Read(object, "step", adoption.step);
  if (const auto list = object.find("passed_over"); list != object.end() && list->is_array())
    for (const Json& why : *list)
      if (why.is_string()) adoption.passed_over.push_back(why.get<std::string>());
  // It stands there as in the body of an answer that is an error.
  if (adoption.state == "failed")
    adoption.error = http::StatusFromResponse({.status = 500, .body = json});
  return adoption;
}

absl::StatusOr<HistoryPageAnswer> ParseHistory(const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  HistoryPageAnswer page;
  for (const Json& entry : ListIn(object, "steps")) {
    HistoryStep& step = page.steps.emplace_back();
    Read(entry, "step", step.step);
    Read(entry, "lineage", step.lineage);
    Read(entry, "epoch", step.epoch);
    step.unix_ms = UnixMillisIn(entry, "time");
    Read(entry, "loss", step.loss);
    Read(entry, "learning_rate", step.learning_rate);
    Read(entry, "gradient_norm", step.gradient_norm);
    Read(entry, "samples_per_second", step.samples_per_second);
    Read(entry, "samples", step.samples);
    Read(entry, "seconds", step.seconds);
    Read(entry, "last_state", step.last_state);
    step.validation = ValidationIn(entry);
  }
  Read(object, "next", page.next);
  page.plugins = PluginsIn(object);
  return page;
}

absl::StatusOr<LedgerPage> ParseLedger(const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  LedgerPage page;
  for (const Json& entry : ListIn(object, "steps")) {
    LedgerStepAnswer& step = page.steps.emplace_back();
    step.loss = std::numeric_limits<double>::quiet_NaN();
    Read(entry, "step", step.step);
    Read(entry, "epoch", step.epoch);
    Read(entry, "lineage", step.lineage);
    Read(entry, "view", step.view);
    Read(entry, "loss", step.loss);
    Read(entry, "skipped", step.skipped);
    if (const auto left_out = entry.find("left_out"); left_out != entry.end())
      for (const Json& sample : *left_out)
        if (sample.is_number_integer()) step.left_out.push_back(sample.get<int64_t>());
    for (const Json& of_lane : ListIn(entry, "lanes")) {
      LedgerLaneAnswer& lane = step.lanes.emplace_back();
      Read(of_lane, "lane", lane.lane);
      Read(of_lane, "worker", lane.worker);
      Read(of_lane, "count", lane.count);
      const auto samples = of_lane.find("samples");
      lane.names_samples = samples != of_lane.end() && samples->is_array();
      if (!lane.names_samples) continue;
      for (const Json& sample : *samples)
        if (sample.is_number_integer()) lane.samples.push_back(sample.get<int64_t>());
    }
    step.json = Text(entry);
  }
  Read(object, "next", page.next);
  Read(object, "data_left_out", page.data_left_out);
  page.parent = ParentIn(object);
  page.plugins = PluginsIn(object);
  return page;
}

absl::StatusOr<http::Response> RestClient::Ask(const std::string& method, const std::string& path,
                                               const std::string& body, Duration timeout) const {
  http::ClientOptions options{.timeout = timeout, .trust = trust_};
  if (!exchange_) {
    MUSTER_ASSIGN_OR_RETURN(options.token, token_());
  }
  return exchange_            ? exchange_(method, path, body)
         : method == "GET"    ? http::Get(url_ + path, options)
         : method == "DELETE" ? http::Delete(url_ + path, options)
         : method == "PUT"    ? http::Put(url_ + path, body, options)
         : method == "PATCH"  ? http::Patch(url_ + path, body, options)
                              : http::Post(url_ + path, body, options);
}

absl::StatusOr<std::string> RestClient::Send(const std::string& method, const std::string& path,
                                             const std::string& body) const {
  MUSTER_ASSIGN_OR_RETURN(http::Response response,
                          Ask(method, path, body, http::ClientOptions().timeout));
  MUSTER_RETURN_IF_ERROR(http::StatusFromResponse(response));
  return std::move(response.body);
}

absl::StatusOr<std::string> RestClient::Get(const std::string& path) const {
  return Send("GET", path, "");
}

absl::StatusOr<std::string> RestClient::Post(const std::string& path,
                                             const std::string& body) const {
  return Send("POST", path, body);
}

absl::StatusOr<JobAnswer> RestClient::Submit(const std::string& id, const std::string& spec_json,
                                             const std::vector<std::string>& accept) const {
  Json body = {{"id", id}, {"spec", Json::parse(spec_json)}};
  if (!accept.empty()) body["accept"] = accept;
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Post("/v1/jobs", Text(body)));
  return ParseJobAnswer(answer);
}

absl::StatusOr<AdoptionAnswer> RestClient::Adopt(const std::string& folder, const std::string& id,
                                                 const std::vector<std::string>& accept) const {
  Json body = {{"folder", folder}};
  if (!accept.empty()) body["accept"] = accept;
  if (!id.empty()) body["id"] = id;
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Post("/v1/adoptions", Text(body)));
  return ParseAdoption(answer);
}

absl::StatusOr<AdoptionAnswer> RestClient::Adoption(const std::string& adoption) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer,
                          Get("/v1/adoptions/" + http::EscapeUrlPart(adoption)));
  return ParseAdoption(answer);
}

absl::StatusOr<JobList> RestClient::List(const std::string& state, const std::string& page_token,
                                         const std::string& name_space,
                                         const std::string& labels) const {
  std::string query;
  if (!name_space.empty()) absl::StrAppend(&query, "&namespace=", http::EscapeUrlPart(name_space));
  if (!labels.empty()) absl::StrAppend(&query, "&label=", http::EscapeUrlPart(labels));
  if (!state.empty()) absl::StrAppend(&query, "&state=", http::EscapeUrlPart(state));
  if (!page_token.empty()) absl::StrAppend(&query, "&page_token=", http::EscapeUrlPart(page_token));
  if (!query.empty()) query[0] = '?';
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Get("/v1/jobs" + query));
  return ParseJobList(answer);
}

absl::StatusOr<JobAnswer> RestClient::Job(const std::string& id) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Get(PathOf(id)));
  return ParseJobAnswer(answer);
}

absl::StatusOr<JobAnswer> RestClient::Stop(const std::string& id) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Post(PathOf(id) + ":stop", "{}"));
  return ParseJobAnswer(answer);
}

absl::StatusOr<JobAnswer> RestClient::Delete(const std::string& id) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Send("DELETE", PathOf(id), ""));
  return ParseJobAnswer(answer);
}

absl::StatusOr<JobAnswer> RestClient::Cancel(const std::string& id) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Post(PathOf(id) + ":cancel", "{}"));
  return ParseJobAnswer(answer);
}

absl::StatusOr<JobAnswer> RestClient::Scale(const std::string& id, int64_t workers_min,
                                            int64_t workers_max) const {
  const Json body = {{"workers", {{"min", workers_min}, {"max", workers_max}}}};
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Post(PathOf(id) + ":scale", Text(body)));
  return ParseJobAnswer(answer);
}

absl::StatusOr<JobAnswer> RestClient::SetQueue(const std::string& id,
                                               const std::string& change_json) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Send("PATCH", PathOf(id), change_json));
  return ParseJobAnswer(answer);
}

namespace {

NamespaceAnswer NamespaceOf(const Json& object) {
  NamespaceAnswer answer;
  Read(object, "name", answer.name);
  Read(object, "slots", answer.slots);
  Read(object, "queued", answer.queued);
  Read(object, "priority", answer.priority);
  Read(object, "slots_held", answer.slots_held);
  Read(object, "jobs_running", answer.jobs_running);
  Read(object, "jobs_queued", answer.jobs_queued);
  answer.json = Text(object);
  return answer;
}

}  // namespace

absl::StatusOr<std::vector<NamespaceAnswer>> RestClient::Namespaces() const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Get("/v1/namespaces"));
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(answer));
  std::vector<NamespaceAnswer> all;
  for (const Json& entry : ListIn(object, "namespaces")) all.push_back(NamespaceOf(entry));
  return all;
}

absl::StatusOr<NamespaceAnswer> RestClient::Namespace(const std::string& name) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Get(PathOfNamespace(name)));
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(answer));
  return NamespaceOf(object);
}

absl::StatusOr<NamespaceAnswer> RestClient::SetQuota(const std::string& name, int64_t slots,
                                                     int64_t queued, int64_t priority) const {
  const auto bound = [](int64_t most) { return most < 0 ? Json(nullptr) : Json(most); };
  const Json body = {{"slots", bound(slots)}, {"queued", bound(queued)}, {"priority", priority}};
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Send("PUT", PathOfNamespace(name), Text(body)));
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(answer));
  return NamespaceOf(object);
}

absl::StatusOr<HostList> RestClient::Hosts(const std::string& page_token) const {
  const std::string query =
      page_token.empty() ? "" : "?page_token=" + http::EscapeUrlPart(page_token);
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Get("/v1/hosts" + query));
  return ParseHostList(answer);
}

absl::StatusOr<HostAnswer> RestClient::Host(const std::string& name) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Get(PathOfHost(name)));
  return ParseHost(answer);
}

absl::StatusOr<HostAnswer> RestClient::Drain(const std::string& name, bool on) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer,
                          Post(PathOfHost(name) + (on ? ":drain" : ":undrain"), "{}"));
  return ParseHost(answer);
}

namespace {

TokenAnswer TokenFrom(const Json& object) {
  TokenAnswer token;
  Read(object, "id", token.id);
  Read(object, "user", token.user);
  Read(object, "role", token.role);
  Read(object, "namespace", token.name_space);
  Read(object, "made", token.made);
  Read(object, "expires", token.expires);
  Read(object, "token", token.token);
  token.json = Text(object);
  return token;
}

// To a coordinator that has no tokens there is no such path, which tells nobody what to do.
absl::Status WithoutTokens(const absl::Status& failure) {
  if (!absl::IsNotFound(failure)) return failure;
  return absl::FailedPreconditionError(
      "this coordinator asks nobody for a token, and so makes none; start it with --tokens, as "
      "that of muster up is");
}

}  // namespace

absl::StatusOr<TokenAnswer> RestClient::MakeToken(const std::string& user, const std::string& role,
                                                  const std::string& name_space,
                                                  std::optional<int64_t> expires_in) const {
  Json grant = {{"user", user}, {"role", role}, {"namespace", name_space}};
  if (expires_in) grant["expires_in"] = *expires_in;
  const absl::StatusOr<std::string> json = Post("/v1/tokens", Text(grant));
  if (!json.ok()) return WithoutTokens(json.status());
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(*json));
  return TokenFrom(object);
}

absl::StatusOr<std::vector<TokenAnswer>> RestClient::Tokens() const {
  const absl::StatusOr<std::string> json = Get("/v1/tokens");
  if (!json.ok()) return WithoutTokens(json.status());
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(*json));
  std::vector<TokenAnswer> tokens;
  for (const Json& entry : ListIn(object, "tokens")) tokens.push_back(TokenFrom(entry));
  return tokens;
}

absl::StatusOr<TokenAnswer> RestClient::RevokeToken(const std::string& id) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string json,
                          Send("DELETE", "/v1/tokens/" + http::EscapeUrlPart(id), ""));
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  return TokenFrom(object);
}

namespace {

absl::StatusOr<HostTokenAnswer> HostTokenFrom(const std::string& json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  HostTokenAnswer answer;
  Read(object, "host", answer.host);
  Read(object, "token", answer.token);
  answer.json = Text(object);
  return answer;
}

}  // namespace

absl::StatusOr<HostTokenAnswer> RestClient::AdmitHost(const std::string& host,
                                                      const std::string& name_space,
                                                      bool certified) const {
  const Json body = {{"namespace", name_space}, {"certified", certified}};
  MUSTER_ASSIGN_OR_RETURN(const std::string json, Post(PathOfHost(host) + ":admit", Text(body)));
  return HostTokenFrom(json);
}

absl::StatusOr<HostTokenAnswer> RestClient::RevokeHost(const std::string& host) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string json, Post(PathOfHost(host) + ":revoke", "{}"));
  return HostTokenFrom(json);
}

absl::StatusOr<CertificateAnswer> RestClient::SignUser(const std::string& public_key) const {
  const Json body = {{"public_key", absl::Base64Escape(public_key)}};
  MUSTER_ASSIGN_OR_RETURN(const std::string json, Post("/v1/certificates", Text(body)));
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  CertificateAnswer answer;
  Read(object, "certificate", answer.certificate_pem);
  Read(object, "authority", answer.authority_pem);
  Read(object, "now", answer.now);
  return answer;
}

namespace {

AuthorityCertificateAnswer AuthorityCertificateFrom(const Json& object) {
  AuthorityCertificateAnswer one;
  Read(object, "sha256", one.sha256);
  Read(object, "begins", one.begins);
  Read(object, "ends", one.ends);
  return one;
}

std::string NowText() {
  return absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone());
}

absl::StatusOr<AuthorityAnswer> AuthorityFrom(const absl::StatusOr<std::string>& json) {
  // One without certificates has no such path.
  if (absl::IsNotFound(json.status()))
    return absl::FailedPreconditionError("this coordinator has no authority, and signs nothing");
  MUSTER_RETURN_IF_ERROR(json.status());
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(*json));
  AuthorityAnswer answer;
  if (const auto signs = object.find("signs"); signs != object.end() && signs->is_object())
    answer.signs = AuthorityCertificateFrom(*signs);
  for (const Json& one : ListIn(object, "trusted_on"))
    answer.trusted_on.push_back(AuthorityCertificateFrom(one));
  Read(object, "change_ends", answer.change_ends);
  for (const Json& host : ListIn(object, "hosts")) {
    HostTrustAnswer& trust = answer.hosts.emplace_back();
    Read(host, "name", trust.name);
    Read(host, "state", trust.state);
  }
  answer.json = Text(object);
  return answer;
}

}  // namespace

absl::StatusOr<AuthorityAnswer> RestClient::Authority() const {
  return AuthorityFrom(Get("/v1/authority"));
}

absl::StatusOr<AuthorityAnswer> RestClient::ChangeAuthority() const {
  return AuthorityFrom(Post("/v1/authority:change", Text(Json{{"now", NowText()}})));
}

absl::StatusOr<AuthorityAnswer> RestClient::FinishAuthority(bool force) const {
  const Json body = {{"force", force}, {"now", NowText()}};
  return AuthorityFrom(Post("/v1/authority:finish", Text(body)));
}

absl::StatusOr<FingerprintPage> RestClient::Fingerprints(const std::string& id,
                                                         int64_t from) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer,
                          Get(absl::StrCat(PathOf(id), "/fingerprints?from=", from)));
  return ParseFingerprints(answer);
}

absl::StatusOr<DigestAnswer> RestClient::Digest(const std::string& id) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Get(PathOf(id) + "/digest"));
  return ParseDigest(answer);
}

// As slow as the slowest client that a coordinator serves may take for one of its largest answers.
absl::StatusOr<FilePartAnswer> RestClient::ReadCheckpoint(const std::string& id,
                                                          const std::string& file, int64_t offset,
                                                          int64_t bytes) const {
  constexpr Duration kPatience = std::chrono::minutes(2);
  constexpr char kSize[] = "Muster-File-Bytes";
  MUSTER_ASSIGN_OR_RETURN(
      http::Response response,
      Ask("GET",
          absl::StrCat(PathOf(id), "/checkpoint?file=", http::EscapeUrlPart(file),
                       "&offset=", offset, "&bytes=", bytes),
          "", kPatience));
  MUSTER_RETURN_IF_ERROR(http::StatusFromResponse(response));
  FilePartAnswer part{std::move(response.body), -1};
  for (const auto& [name, value] : response.headers)
    if (absl::EqualsIgnoreCase(name, kSize) && !ParseDigits(value, &part.of)) part.of = -1;
  if (part.of >= 0) return part;
  return absl::InternalError("the coordinator's answer does not say how large the file is");
}

absl::StatusOr<std::vector<SavedCheckpointAnswer>> RestClient::Checkpoints(
    const std::string& id) const {
  std::vector<SavedCheckpointAnswer> all;
  std::string page_token;
  do {
    const std::string of_page =
        page_token.empty() ? "" : absl::StrCat("?page_token=", http::EscapeUrlPart(page_token));
    MUSTER_ASSIGN_OR_RETURN(const std::string answer,
                            Get(absl::StrCat(PathOf(id), "/checkpoints", of_page)));
    MUSTER_ASSIGN_OR_RETURN(SavedCheckpointPage page, ParseSavedCheckpoints(answer));
    // A page without any would be asked for without end.
    if (page.checkpoints.empty()) break;
    for (SavedCheckpointAnswer& saved : page.checkpoints) all.push_back(std::move(saved));
    page_token = std::move(page.next_page_token);
  } while (!page_token.empty() && all.size() < kMostCheckpoints);
  return all;
}

absl::StatusOr<SavedCheckpointAnswer> RestClient::KeepCheckpoint(const std::string& id,
                                                                 const std::string& checkpoint,
                                                                 const std::string& name) const {
  const Json body = {{"name", name.empty() ? Json() : Json(name)}};
  MUSTER_ASSIGN_OR_RETURN(
      const std::string answer,
      Send("PATCH", absl::StrCat(PathOf(id), "/checkpoints/", http::EscapeUrlPart(checkpoint)),
           Text(body)));
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(answer));
  return SavedCheckpointFrom(object);
}

// It waits for what the job writes before it.
absl::StatusOr<SavedCheckpointAnswer> RestClient::DeleteCheckpoint(const std::string& id,
                                                                   const std::string& checkpoint,
                                                                   bool force) const {
  constexpr Duration kPatience = std::chrono::minutes(2);
  MUSTER_ASSIGN_OR_RETURN(
      const http::Response response,
      Ask("DELETE",
          absl::StrCat(PathOf(id), "/checkpoints/", http::EscapeUrlPart(checkpoint),
                       force ? "?force=true" : ""),
          "", kPatience));
  MUSTER_RETURN_IF_ERROR(http::StatusFromResponse(response));
  MUSTER_ASSIGN_OR_RETURN(const Json object, ParseObject(response.body));
  return SavedCheckpointFrom(object);
}

absl::StatusOr<AuditAnswer> RestClient::Audit(const std::string& id) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Get(PathOf(id) + "/audit"));
  return ParseAudit(answer);
}

absl::StatusOr<HistoryPageAnswer> RestClient::History(const std::string& id, int64_t from,
                                                      int64_t lineage) const {
  MUSTER_ASSIGN_OR_RETURN(
      const std::string answer,
      Get(absl::StrCat(PathOf(id), "/history?from=", from, "&lineage=", lineage)));
  return ParseHistory(answer);
}

absl::StatusOr<LedgerPage> RestClient::Ledger(const std::string& id, int64_t from,
                                              std::optional<int64_t> sample, int64_t limit) const {
  std::string path = absl::StrCat(PathOf(id), "/ledger?from=", from);
  if (sample) absl::StrAppend(&path, "&sample=", *sample);
  if (limit > 0) absl::StrAppend(&path, "&limit=", limit);
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Get(path));
  return ParseLedger(answer);
}

absl::StatusOr<std::string> RestClient::Logs(const std::string& id, const std::string& member,
                                             int64_t tail) const {
  constexpr int64_t kMostLines = 10'000;
  std::string path = absl::StrCat(PathOf(id), "/logs?tail=", tail == 0 ? kMostLines : tail);
  if (!member.empty()) absl::StrAppend(&path, "&member=", http::EscapeUrlPart(member));
  return Get(path);
}

absl::StatusOr<LogPageAnswer> RestClient::FollowLogs(const std::string& id,
                                                     const std::string& member, int64_t tail,
                                                     const std::string& after) const {
  std::vector<std::string> query;
  if (!after.empty()) query.push_back(absl::StrCat("after=", http::EscapeUrlPart(after)));
  if (!member.empty()) query.push_back(absl::StrCat("member=", http::EscapeUrlPart(member)));
  if (tail > 0) query.push_back(absl::StrCat("tail=", tail));
  MUSTER_ASSIGN_OR_RETURN(const std::string answer,
                          Get(absl::StrCat(PathOf(id), "/logs:follow", query.empty() ? "" : "?",
                                           absl::StrJoin(query, "&"))));
  return ParseLogPage(answer);
}

absl::Status RestClient::Follow(const std::string& id, const std::string& last_id,
                                const std::function<bool(const EventAnswer&)>& on_event) const {
  if (exchange_) return absl::FailedPreconditionError("nothing runs there that has events");
  MUSTER_ASSIGN_OR_RETURN(std::string token, token_());
  return http::StreamEvents(url_ + PathOf(id) + "/events",
                            [&](const http::Event& raw) {
                              absl::StatusOr<EventAnswer> event =
                                  ParseEventAnswer(raw.name, raw.data);
                              if (!event.ok())
                                return true;  // a comment or a word of a later version
                              event->id = raw.id;
                              return on_event(*event);
                            },
                            {.last_event_id = last_id, .token = std::move(token), .trust = trust_});
}

}  // namespace muster::cli
