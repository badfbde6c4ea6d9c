#include "coordinator/service/rest.h"

#include <cmath>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "coordinator/runtime/once.h"
#include "coordinator/service/answer_size.h"
#include "lib/base/byte_room.h"
#include "lib/base/digits.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/config/document.h"
#include "lib/wire/job_document.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(const Json& json) {
  return PrintableJson(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json NumberOrNull(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json ToJson(const JobMember& m) {
  return {{"name", m.name},
          {"role", m.role},
          {"rank", m.rank},
          {"local_rank", m.local_rank},
          {"node", m.node},
          {"address", m.address},
          {"incarnation", m.incarnation},
          {"lanes", m.lanes},
          {"state", m.state},
          {"phase", m.phase},
          {"step", m.step}};
}

Json ToJson(const JobInfo& job) {
  Json members = Json::array();
  for (const JobMember& m : job.members) members.push_back(ToJson(m));
  Json checkpoints = Json::array();
  for (const CheckpointRef& c : job.checkpoints)
    checkpoints.push_back({{"lineage", c.lineage}, {"step", c.step}});
  Json json = {{"id", job.id},
               {"name", job.name},
               {"state", job.state},
               {"reason", job.reason},
               {"waits_for", job.waits_for},
               {"deleting", job.deleting},
               {"first_start", job.first_start},
               {"step", job.step},
               {"steps", job.steps},
               {"epoch", job.epoch},
               {"epochs", job.epochs},
               {"samples", job.samples},
               {"loss", NumberOrNull(job.loss)},
               {"digest", job.digest.empty() ? Json(nullptr) : Json(job.digest)},
               {"digest_step", job.digest_step},
               {"sample", job.sample},
               {"fingerprint", job.fingerprint},
               {"fingerprint_step", job.fingerprint_step},
               {"view", job.view},
               {"lineage", job.lineage},
               {"workers", job.workers},
               {"members", std::move(members)},
               {"views", job.views},
               {"recoveries", job.recoveries},
               {"rewinds", job.rewinds},
               {"lanes_recomputed", job.lanes_recomputed},
               {"seconds", job.seconds},
               {"seconds_left", NumberOrNull(job.seconds_left)},
               {"checkpoints", std::move(checkpoints)},
               {"spec", Json(ToDocument(*job.spec))}};
  json["exit_code"] = job.exit_code ? Json(*job.exit_code) : Json(nullptr);
  json["checkpoint_step"] = job.checkpoint_step ? Json(*job.checkpoint_step) : Json(nullptr);
  return json;
}

Json ToJson(const SubmittedJob& submitted) { return ToJson(submitted.job); }

Json ToJson(const JobAudit& audit) {
  Json lineages = Json::array();
  for (const JobAudit::Fork& f : audit.lineages)
    lineages.push_back(
        {{"number", f.number}, {"parent", f.parent}, {"fork", f.fork}, {"cause", f.cause}});
  return {{"ok", audit.ok},
          {"conclusion", audit.conclusion},
          {"steps", audit.steps},
          {"full_epochs", audit.full_epochs},
          {"samples", audit.samples},
          {"skipped_steps", audit.skipped_steps},
          {"skipped_samples", audit.skipped_samples},
          {"lanes", audit.lanes},
          {"lineages", std::move(lineages)}};
}

Json ToJson(const LedgerLane& lane) {
  return {{"lane", lane.lane},
          {"worker", lane.worker},
          {"incarnation", lane.incarnation},
          {"count", lane.count},
          {"samples", lane.samples ? Json(*lane.samples) : Json(nullptr)}};
}

Json ToJson(const LedgerStep& step) {
  Json lanes = Json::array();
  for (const LedgerLane& lane : step.lanes) lanes.push_back(ToJson(lane));
  return {{"step", step.step},
          {"epoch", step.epoch},
          {"lineage", step.lineage},
          {"view", step.view},
          {"loss", NumberOrNull(step.loss)},
          {"weight", step.weight},
          {"skipped", step.skipped},
          {"lanes", std::move(lanes)}};
}

Json ToJson(const JobLedger& ledger) {
  Json steps = Json::array();
  for (const LedgerStep& step : ledger.steps) steps.push_back(ToJson(step));
  return {{"steps", std::move(steps)},
          {"next", ledger.next ? Json(*ledger.next) : Json(nullptr)},
          {"data_left_out", ledger.data_left_out}};
}

Json ToJson(const HistoryStep& step) {
  return {{"step", step.step},
          {"lineage", step.lineage},
          {"epoch", step.epoch},
          {"time", step.unix_ms == 0 ? Json(nullptr) : Json(UtcTime(step.unix_ms))},
          {"loss", NumberOrNull(step.loss)},
          {"learning_rate", NumberOrNull(step.learning_rate)},
          {"gradient_norm", NumberOrNull(step.gradient_norm)},
          {"samples_per_second", NumberOrNull(step.samples_per_second)}};
}

Json ToJson(const HistoryPage& page) {
  Json steps = Json::array();
  for (const HistoryStep& step : page.steps) steps.push_back(ToJson(step));
  return {{"steps", std::move(steps)}, {"next", page.next ? Json(*page.next) : Json(nullptr)}};
}

Json ToJson(const JobDigest& digest) {
  return {{"lineage", digest.lineage}, {"step", digest.step}, {"digest", digest.digest}};
}

Json ToJson(const JobFingerprints& part) {
  Json list = Json::array();
  for (const JobFingerprint& f : part.fingerprints)
    list.push_back({{"step", f.step}, {"lineage", f.lineage}, {"value", f.value}});
  return {{"fingerprints", std::move(list)},
          {"next", part.next ? Json(*part.next) : Json(nullptr)}};
}

Json ToJson(const JobPage& page) {
  Json list = Json::array();
  for (const JobInfo& job : page.jobs) list.push_back(ToJson(job));
  return {{"jobs", std::move(list)}, {"next_page_token", page.next_page_token}};
}

Json ToJson(const HostInfo& host) {
  Json members = Json::array();
  for (const HostMember& m : host.members)
    members.push_back({{"job", m.job},
                       {"member", m.member},
                       {"role", m.role},
                       {"placement", m.placement},
                       {"state", m.state}});
  return {{"name", host.name},
          {"node", host.node},
          {"slots", host.slots},
          {"used", host.used},
          {"free", host.free},
          {"up", host.up},
          {"away_for_seconds", host.up ? Json(nullptr) : Json(host.away_for_seconds)},
          {"draining", host.draining},
          {"left_out_by", host.left_out_by},
          {"left_out", host.left_out},
          {"members", std::move(members)}};
}

Json ToJson(const HostPage& page) {
  Json list = Json::array();
  for (const HostInfo& host : page.hosts) list.push_back(ToJson(host));
  return {{"hosts", std::move(list)}, {"next_page_token", page.next_page_token}};
}

// Fields of events are text; those that are numbers become numbers.
Json FieldValue(const std::string& name, const std::string& text) {
  int64_t whole = 0;
  double number = 0;
  const bool counts = name == "step" || name == "epoch" || name == "samples" || name == "view" ||
                      name == "lineage" || name == "lanes" || name == "recomputed";
  if (counts && absl::SimpleAtoi(text, &whole)) return whole;
  const bool measures = name == "loss" || name == "gradient_norm";
  if (measures && absl::SimpleAtod(text, &number)) return NumberOrNull(number);
  if (text == "true" || text == "false") return text == "true";
  return text;
}

Json ToJson(const JobEvent& event) {
  Json json = {{"seq", event.seq},
               {"time", UtcTime(event.unix_ms)},
               {"event", event.event},
               {"text", event.text}};
  for (const auto& [name, text] : event.fields) json[name] = FieldValue(name, text);
  return json;
}

template <class T>
int HttpStatusOf(const T&) {
  return 200;
}
int HttpStatusOf(const SubmittedJob& submitted) { return submitted.created ? 201 : 200; }

template <class T>
void SendAsJson(const http::Responder& respond, const absl::StatusOr<T>& answer) {
  if (!answer.ok()) return respond.Send(answer.status(), FieldOf(answer.status()));
  http::Response response;
  response.status = HttpStatusOf(*answer);
  response.body = Text(ToJson(*answer)) + "\n";
  respond.Send(std::move(response));
}

// The reply that sends what it is given as JSON. The caller's thread may be that of all
// connections, or the one that decides, so a large answer is not made on it; and it has its room
// before, so that one which is refused costs nothing. What waits for the thread is bounded by that
// room.
template <class T>
JobApi::Reply<T> Answering(http::Responder respond, Background* large_answers = nullptr) {
  return [respond = std::move(respond), large_answers](absl::StatusOr<T> answer) {
    const size_t bytes = answer.ok() ? AboutBytesOf(*answer) : 0;
    if (large_answers == nullptr || bytes <= kSmallAnswerBytes) return SendAsJson(respond, answer);
    if (!respond.Reserve(bytes)) return respond.Send(http::NoRoomForAnswer());
    const auto send = Once<T>([respond](const absl::StatusOr<T>& a) { SendAsJson(respond, a); });
    large_answers->Run(
        [send, answer = std::move(answer)](const std::stop_token&) { send(answer); });
  };
}

struct Submission {
  std::string id;
  JobSpec spec;
};

absl::StatusOr<Submission> ParseSubmission(const std::string& body) {
  if (body.empty())
    return absl::InvalidArgumentError("the body is empty; send the job as a JSON object");
  MUSTER_ASSIGN_OR_RETURN(Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, {"id", "spec"}));
  Submission submission;
  if (const auto id = document.root.find("id"); id != document.root.end()) {
    MUSTER_ASSIGN_OR_RETURN(submission.id, ReadText(document, "id", *id));
    if (submission.id.empty())
      return ErrorAt(document, "id", "is empty; leave it out to have one made");
  }
  const auto spec = document.root.find("spec");
  if (spec == document.root.end())
    return ErrorAt(document, "spec", "is missing: the job's specification");
  const Document spec_document{.root = std::move(*spec), .source = "", .places = {}};
  MUSTER_ASSIGN_OR_RETURN(submission.spec, FromDocument(spec_document));
  return submission;
}

void Submit(JobApi& api, Background* large_answers, const http::Request& request,
            const http::Responder& respond) {
  absl::StatusOr<Submission> submission = ParseSubmission(request.body);
  if (!submission.ok()) return respond.Send(submission.status(), FieldOf(submission.status()));
  api.Submit(submission->id, std::move(submission->spec),
             Answering<SubmittedJob>(respond, large_answers));
}

// As a specification says it; nothing else of what is answered is set.
absl::StatusOr<JobSpec> ParseScaling(const std::string& body) {
  if (body.empty())
    return absl::InvalidArgumentError(
        "the body is empty; send a JSON object such as {\"workers\": 4}");
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(body, ""));
  if (document.root.is_object() && document.root.contains("servers"))
    return ErrorAt(document, "servers",
                   "cannot be scaled, as they hold the state of the job; stop the job and submit "
                   "it again with other servers");
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, {"workers"}));
  const auto workers = document.root.find("workers");
  if (workers == document.root.end() || workers->is_null())
    return ErrorAt(document, "workers", "is missing: a number, or {min, max}");
  JobSpec spec;
  MUSTER_RETURN_IF_ERROR(ReadWorkers(document, *workers, spec));
  return spec;
}

void Scale(JobApi& api, Background* large_answers, const http::Request& request,
           const http::Responder& respond) {
  const absl::StatusOr<JobSpec> spec = ParseScaling(request.body);
  if (!spec.ok()) return respond.Send(spec.status(), FieldOf(spec.status()));
  api.Scale(request.params.at("id"), spec->runtime.workers_min, spec->runtime.workers_max,
            Answering<JobInfo>(respond, large_answers));
}

// Where the client goes on. A client that has had no event yet may say so with an empty header.
absl::StatusOr<std::optional<EventPlace>> PlaceIn(const http::Request& request) {
  std::string key = "Last-Event-ID";
  std::string id;
  if (const auto header = request.headers.find("last-event-id"); header != request.headers.end())
    id = header->second;
  if (id.empty()) {
    key = "from";
    const auto query = request.query.find(key);
    if (query == request.query.end()) return std::nullopt;
    id = query->second;
  }
  const std::optional<EventPlace> place = ParseEventPlace(id);
  if (!place) return FieldError("", key, kEventPlaceForm);
  return place;
}

// One client's stream of events; it ends with this object.
class StreamWatcher final : public JobWatcher {
 public:
  ~StreamWatcher() override {
    if (stream_) stream_->Close();
  }
  void Begin(const http::Responder& respond) { stream_ = respond.Stream(); }
  bool OnEvent(const JobEvent& event) override {
    return stream_->Send(event.id, event.event, Text(ToJson(event)));
  }
  bool closed() const override { return stream_->closed(); }

 private:
  std::shared_ptr<http::EventStream> stream_;  // once the job is found, before the first event
};

void Watch(JobApi& api, const http::Request& request, const http::Responder& respond) {
  const auto place = PlaceIn(request);
  if (!place.ok()) return respond.Send(place.status(), FieldOf(place.status()));
  const auto watcher = std::make_shared<StreamWatcher>();
  api.Watch(
      request.params.at("id"), *place,
      [respond, watcher](const absl::StatusOr<bool>& found) {
        if (!found.ok()) return respond.Send(found.status());
        watcher->Begin(respond);
      },
      watcher);
}

// The step that the query names; nothing where it names none.
absl::StatusOr<std::optional<int64_t>> StepIn(const http::Request& request, const char* key) {
  const auto query = request.query.find(key);
  if (query == request.query.end()) return std::nullopt;
  int64_t number = 0;
  if (ParseDigits(query->second, &number)) return number;
  return absl::InvalidArgumentError(absl::StrCat(key, ": must be the number of a step"));
}

void Digest(JobApi& api, const http::Request& request, const http::Responder& respond) {
  const auto step = StepIn(request, "step");
  if (!step.ok()) return respond.Send(step.status(), "step");
  api.Digest(request.params.at("id"), *step, Answering<JobDigest>(respond));
}

void Fingerprints(JobApi& api, const http::Request& request, const http::Responder& respond) {
  const auto from = StepIn(request, "from");
  if (!from.ok()) return respond.Send(from.status(), "from");
  api.Fingerprints(request.params.at("id"), from->value_or(0), Answering<JobFingerprints>(respond));
}

absl::StatusOr<HistoryQuery> HistoryQueryIn(const http::Request& request) {
  HistoryQuery query;
  for (const auto& [key, value] : request.query) {
    int64_t number = 0;
    if (!ParseDigits(value, &number) || (key == "limit" && number < 1))
      return FieldError("", key,
                        key == "limit" ? absl::StrCat("must be 1 to ", kMostHistorySteps)
                                       : absl::StrCat("must be the number of a ",
                                                      key == "from" ? "step" : "lineage"));
    if (key == "from") query.from = number;
    if (key == "lineage") query.lineage = number;
    if (key == "limit") query.limit = number;
  }
  return query;
}

void History(JobApi& api, const http::Request& request, const http::Responder& respond) {
  const absl::StatusOr<HistoryQuery> query = HistoryQueryIn(request);
  if (!query.ok()) return respond.Send(query.status(), FieldOf(query.status()));
  api.History(request.params.at("id"), *query, Answering<HistoryPage>(respond));
}

absl::StatusOr<LedgerQuery> LedgerQueryIn(const http::Request& request) {
  LedgerQuery query;
  for (const auto& [key, value] : request.query) {
    int64_t number = 0;
    if (!ParseDigits(value, &number) || (key == "limit" && number < 1))
      return FieldError("", key,
                        key == "limit" ? absl::StrCat("must be 1 to ", kMostLedgerSteps)
                                       : absl::StrCat("must be the number of a ",
                                                      key == "from" ? "step" : "sample"));
    if (key == "from") query.from = number;
    if (key == "limit") query.limit = number;
    if (key == "sample") query.sample = static_cast<uint64_t>(number);
  }
  return query;
}

void Ledger(JobApi& api, const http::Request& request, const http::Responder& respond) {
  const absl::StatusOr<LedgerQuery> query = LedgerQueryIn(request);
  if (!query.ok()) return respond.Send(query.status(), FieldOf(query.status()));
  api.Ledger(request.params.at("id"), *query, Answering<JobLedger>(respond));
}

absl::StatusOr<LogQuery> LogQueryIn(const http::Request& request) {
  LogQuery query;
  for (const auto& [key, value] : request.query) {
    if (key == "member") {
      if (value.empty()) return FieldError("", key, "is empty; leave it out for all members");
      query.member = value;
    } else if (!ParseDigits(value, &query.tail) || query.tail < 1) {
      return FieldError("", "tail", absl::StrCat("must be 1 to ", kMostLogLines));
    }
  }
  return query;
}

void Logs(JobApi& api, const http::Request& request, const http::Responder& respond) {
  const absl::StatusOr<LogQuery> query = LogQueryIn(request);
  if (!query.ok()) return respond.Send(query.status(), FieldOf(query.status()));
  api.Logs(request.params.at("id"), *query, [respond](absl::StatusOr<LogTail> tail) {
    if (!tail.ok()) return respond.Send(tail.status(), FieldOf(tail.status()));
    respond.Send({.content_type = "text/plain; charset=utf-8", .body = std::move(tail->text)});
  });
}

absl::StatusOr<JobQuery> QueryIn(const http::Request& request) {
  JobQuery query;
  for (const auto& [key, value] : request.query) {
    if (key == "state") {
      if (value.empty()) return FieldError("", key, "is empty; leave it out for jobs in any state");
      query.state = value;
    } else if (key == "page_token") {
      if (value.empty()) return FieldError("", key, "is empty; leave it out for the first page");
      query.page_token = value;
    } else if (!ParseDigits(value, &query.limit) || query.limit < 1) {
      return FieldError("", "limit", absl::StrCat("must be 1 to ", kMostJobsPerPage));
    }
  }
  return query;
}

void List(JobApi& api, Background* large_answers, const http::Request& request,
          const http::Responder& respond) {
  const absl::StatusOr<JobQuery> query = QueryIn(request);
  if (!query.ok()) return respond.Send(query.status(), FieldOf(query.status()));
  api.List(*query, Answering<JobPage>(respond, large_answers));
}

absl::StatusOr<HostQuery> HostQueryIn(const http::Request& request) {
  HostQuery query;
  for (const auto& [key, value] : request.query) {
    if (key == "page_token") {
      if (value.empty()) return FieldError("", key, "is empty; leave it out for the first page");
      query.page_token = value;
    } else if (!ParseDigits(value, &query.limit) || query.limit < 1) {
      return FieldError("", "limit", absl::StrCat("must be 1 to ", kMostJobsPerPage));
    }
  }
  return query;
}

template <class T>
using Asking = void (JobApi::*)(const std::string& id, JobApi::Reply<T> reply);

// A route that asks one thing about one job.
template <class T>
http::Route JobRoute(JobApi& api, Background* large_answers, const char* method,
                     const char* pattern, Asking<T> ask) {
  return {method, pattern,
          [&api, large_answers, ask](const http::Request& request, http::Responder respond) {
            (api.*ask)(request.params.at("id"), Answering<T>(std::move(respond), large_answers));
          }};
}

}  // namespace

std::vector<http::Route> RestRoutes(JobApi& api, std::function<std::string()> metrics,
                                    std::function<absl::Status()> healthy,
                                    std::function<absl::Status()> ready,
                                    Background* large_answers) {
  using Handle = void (*)(JobApi&, const http::Request&, const http::Responder&);
  const auto with_api = [&api](Handle handle) -> http::Handler {
    return [&api, handle](const http::Request& request, const http::Responder& respond) {
      handle(api, request, respond);
    };
  };
  using HandleLarge = void (*)(JobApi&, Background*, const http::Request&, const http::Responder&);
  const auto with_both = [&api, large_answers](HandleLarge handle) -> http::Handler {
    return [&api, large_answers, handle](const http::Request& request,
                                         const http::Responder& respond) {
      handle(api, large_answers, request, respond);
    };
  };
  return {{"POST", "/v1/jobs", with_both(Submit)},
          {"GET", "/v1/jobs", with_both(List), {"limit", "page_token", "state"}},
          JobRoute<JobInfo>(api, large_answers, "GET", "/v1/jobs/{id}", &JobApi::Get),
          JobRoute<JobInfo>(api, large_answers, "DELETE", "/v1/jobs/{id}", &JobApi::Delete),
          JobRoute<JobInfo>(api, large_answers, "POST", "/v1/jobs/{id}:cancel", &JobApi::Cancel),
          JobRoute<JobInfo>(api, large_answers, "POST", "/v1/jobs/{id}:stop", &JobApi::Stop),
          {"POST", "/v1/jobs/{id}:scale", with_both(Scale)},
          {"GET", "/v1/jobs/{id}/events", with_api(Watch), {"from"}, /*streams=*/true},
          {"GET", "/v1/jobs/{id}/fingerprints", with_api(Fingerprints), {"from"}},
          JobRoute<JobAudit>(api, large_answers, "GET", "/v1/jobs/{id}/audit", &JobApi::Audit),
          {"GET", "/v1/jobs/{id}/history", with_api(History), {"from", "lineage", "limit"}},
          {"GET", "/v1/jobs/{id}/ledger", with_api(Ledger), {"from", "limit", "sample"}},
          {"GET", "/v1/jobs/{id}/logs", with_api(Logs), {"member", "tail"}},
          {"GET", "/v1/jobs/{id}/digest", with_api(Digest), {"step"}},
          http::MetricsRoute(std::move(metrics)),
          http::HealthRoute(std::move(healthy)),
          http::ReadyRoute(std::move(ready))};
}

std::vector<http::Route> HostRoutes(HostApi& api, Background* large_answers) {
  const auto list = [&api, large_answers](const http::Request& request,
                                          const http::Responder& respond) {
    const absl::StatusOr<HostQuery> query = HostQueryIn(request);
    if (!query.ok()) return respond.Send(query.status(), FieldOf(query.status()));
    api.List(*query, Answering<HostPage>(respond, large_answers));
  };
  const auto get = [&api, large_answers](const http::Request& request,
                                         const http::Responder& respond) {
    api.Get(request.params.at("name"), Answering<HostInfo>(respond, large_answers));
  };
  const auto drain = [&api, large_answers](bool on) -> http::Handler {
    return [&api, large_answers, on](const http::Request& request, const http::Responder& respond) {
      api.Drain(request.params.at("name"), on, Answering<HostInfo>(respond, large_answers));
    };
  };
  return {{"GET", "/v1/hosts", list, {"limit", "page_token"}},
          {"GET", "/v1/hosts/{name}", get},
          {"POST", "/v1/hosts/{name}:drain", drain(true)},
          {"POST", "/v1/hosts/{name}:undrain", drain(false)}};
}

}  // namespace muster::coordinator
