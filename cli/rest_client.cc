#include "cli/rest_client.h"

#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "cli/json_text.h"
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
  } else {
    if (it->is_number()) value = it->get<T>();
  }
}

std::string PathOf(const std::string& id) { return "/v1/jobs/" + http::EscapeUrlPart(id); }

absl::StatusOr<Json> ParseObject(const std::string& text) {
  Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    return absl::InternalError(absl::StrCat(
        "the coordinator answered with something else than an object: ", text.substr(0, 200)));
  return object;
}

MemberAnswer MemberFrom(const Json& object) {
  MemberAnswer member;
  Read(object, "name", member.name);
  Read(object, "role", member.role);
  Read(object, "rank", member.rank);
  Read(object, "node", member.node);
  Read(object, "state", member.state);
  Read(object, "phase", member.phase);
  if (const auto lanes = object.find("lanes"); lanes != object.end() && lanes->is_array())
    member.lanes = static_cast<int64_t>(lanes->size());
  else
    Read(object, "lanes", member.lanes);
  return member;
}

void ReadProcesses(const Json& spec, JobAnswer& job) {
  Read(spec, "servers", job.servers);
  if (const auto workers = spec.find("workers"); workers != spec.end() && workers->is_object())
    Read(*workers, "max", job.most_workers);
}

JobAnswer StatusFrom(const Json& object) {
  JobAnswer job;
  job.loss = std::numeric_limits<double>::quiet_NaN();
  Read(object, "id", job.id);
  Read(object, "name", job.name);
  Read(object, "state", job.state);
  Read(object, "reason", job.reason);
  Read(object, "deleting", job.deleting);
  Read(object, "first_start", job.first_start);
  Read(object, "step", job.step);
  Read(object, "steps", job.steps);
  Read(object, "epoch", job.epoch);
  Read(object, "epochs", job.epochs);
  Read(object, "samples", job.samples);
  Read(object, "loss", job.loss);
  Read(object, "digest", job.digest);
  Read(object, "digest_step", job.digest_step);
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
  if (const auto spec = object.find("spec"); spec != object.end() && spec->is_object()) {
    ReadProcesses(*spec, job);
    job.spec = Text(*spec);
  }
  job.json = Text(object);
  return job;
}

}  // namespace

bool IsOver(const JobAnswer& job) {
  return job.state == "done" || job.state == "stopped" || job.state == "failed" ||
         job.state == "cancelled";
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

absl::StatusOr<std::string> RestClient::Get(const std::string& path) const {
  MUSTER_ASSIGN_OR_RETURN(const http::Response response,
                          http::Get(url_ + path, {.credentials = credentials_}));
  MUSTER_RETURN_IF_ERROR(http::StatusFromResponse(response));
  return response.body;
}

absl::StatusOr<std::string> RestClient::Post(const std::string& path,
                                             const std::string& body) const {
  MUSTER_ASSIGN_OR_RETURN(const http::Response response,
                          http::Post(url_ + path, body, {.credentials = credentials_}));
  MUSTER_RETURN_IF_ERROR(http::StatusFromResponse(response));
  return response.body;
}

absl::StatusOr<JobAnswer> RestClient::Submit(const std::string& id,
                                             const std::string& spec_json) const {
  const Json body = {{"id", id}, {"spec", Json::parse(spec_json)}};
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Post("/v1/jobs", Text(body)));
  return ParseJobAnswer(answer);
}

absl::StatusOr<JobList> RestClient::List(const std::string& state,
                                         const std::string& page_token) const {
  std::string query;
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
  MUSTER_ASSIGN_OR_RETURN(const http::Response response,
                          http::Delete(url_ + PathOf(id), {.credentials = credentials_}));
  MUSTER_RETURN_IF_ERROR(http::StatusFromResponse(response));
  return ParseJobAnswer(response.body);
}

absl::StatusOr<JobAnswer> RestClient::Cancel(const std::string& id) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, Post(PathOf(id) + ":cancel", "{}"));
  return ParseJobAnswer(answer);
}

absl::StatusOr<FingerprintPage> RestClient::Fingerprints(const std::string& id,
                                                         int64_t from) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer,
                          Get(absl::StrCat(PathOf(id), "/fingerprints?from=", from)));
  return ParseFingerprints(answer);
}

absl::StatusOr<std::string> RestClient::Digest(const std::string& id) const {
  return Get(PathOf(id) + "/digest");
}

absl::StatusOr<std::string> RestClient::Audit(const std::string& id) const {
  return Get(PathOf(id) + "/audit");
}

absl::Status RestClient::Follow(const std::string& id, const std::string& last_id,
                                const std::function<bool(const EventAnswer&)>& on_event) const {
  return http::StreamEvents(url_ + PathOf(id) + "/events",
                            [&](const http::Event& raw) {
                              absl::StatusOr<EventAnswer> event =
                                  ParseEventAnswer(raw.name, raw.data);
                              if (!event.ok())
                                return true;  // a comment or a word of a later version
                              event->id = raw.id;
                              return on_event(*event);
                            },
                            {.last_event_id = last_id, .credentials = credentials_});
}

}  // namespace muster::cli
