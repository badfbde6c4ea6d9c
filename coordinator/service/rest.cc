#include "coordinator/service/rest.h"

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/runtime/once.h"
#include "coordinator/service/answer_size.h"
#include "coordinator/service/new_job_id.h"
#include "lib/base/byte_room.h"
#include "lib/base/check.h"
#include "lib/base/digits.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/config/document.h"
#include "lib/wire/job_codec.h"
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
  return {{"name", m.name},       {"role", m.role},
          {"rank", m.rank},       {"local_rank", m.local_rank},
          {"node", m.node},       {"host", m.host},
          {"address", m.address}, {"incarnation", m.incarnation},
          {"lanes", m.lanes},     {"state", m.state},
          {"phase", m.phase},     {"step", m.step}};
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
               {"owner", job.owner},
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

// As the body of an answer that is an error says it.
Json ErrorOf(const absl::Status& error) {
  if (error.ok()) return nullptr;
  const http::Response response = http::ErrorResponse(error, FieldOf(error));
  return Json::parse(response.body).at("error");
}

Json ToJson(const AdoptionInfo& adoption) {
  return {{"adoption", adoption.adoption},
          {"folder", adoption.folder},
          {"job", adoption.job.empty() ? Json(nullptr) : Json(adoption.job)},
          {"state", adoption.state},
          {"step", adoption.state == kAdoptionDone ? Json(adoption.step) : Json(nullptr)},
          {"bytes", adoption.bytes},
          {"of_bytes", adoption.of_bytes == 0 ? Json(nullptr) : Json(adoption.of_bytes)},
          {"seconds", adoption.seconds},
          {"bytes_per_second", adoption.bytes_per_second},
          {"seconds_left", NumberOrNull(adoption.seconds_left)},
          {"passed_over", adoption.passed_over},
          {"error", ErrorOf(adoption.error)}};
}

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

Json ToJson(const LogPage& page) {
  Json lines = Json::array();
  for (const LogLine& line : page.lines)
    lines.push_back({{"member", line.member}, {"line", line.line}});
  return {{"lines", std::move(lines)}, {"next", page.next}, {"over", page.over}};
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
                       {"devices", m.devices},
                       {"state", m.state}});
  return {{"name", host.name},
          {"node", host.node},
          {"slots", host.slots},
          {"used", host.used},
          {"free", host.free},
          {"devices", host.devices},
          {"devices_used", host.devices_used},
          {"up", host.up},
          {"away_for_seconds", host.up ? Json(nullptr) : Json(host.away_for_seconds)},
          {"draining", host.draining},
          {"left_out_by", host.left_out_by},
          {"left_out", host.left_out},
          {"namespace", host.name_space.empty() ? Json(nullptr) : Json(host.name_space)},
          {"members", std::move(members)}};
}

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json ToJson(const NamespaceInfo& info) {
  return {{"name", info.name},
          {"slots", OrNull(info.slots)},
          {"queued", OrNull(info.queued)},
          {"priority", info.priority},
          {"slots_held", info.slots_held},
          {"jobs_running", info.jobs_running},
          {"jobs_queued", info.jobs_queued}};
}

Json ToJson(const NamespaceList& all) {
  Json list = Json::array();
  for (const NamespaceInfo& info : all.namespaces) list.push_back(ToJson(info));
  return {{"namespaces", std::move(list)}};
}

Json ToJson(const HostPage& page) {
  Json list = Json::array();
  for (const HostInfo& host : page.hosts) list.push_back(ToJson(host));
  return {{"hosts", std::move(list)},
          {"next_page_token", page.next_page_token},
          {"revoked", page.revoked}};
}

Json ToJson(const TokenInfo& token) {
  return {{"id", token.id},
          {"user", token.user},
          {"role", token.role},
          {"namespace", token.name_space},
          {"made", UtcTime(token.made_unix_ms)},
          {"expires",
           token.expires_unix_ms == 0 ? Json(nullptr) : Json(UtcTime(token.expires_unix_ms))}};
}

Json ToJson(const MadeToken& made) {
  Json json = ToJson(made.info);
  json["token"] = made.token;
  return json;
}

Json ToJson(const TokenList& list) {
  Json tokens = Json::array();
  for (const TokenInfo& token : list.tokens) tokens.push_back(ToJson(token));
  return {{"tokens", std::move(tokens)}};
}

Json ToJson(const AdmittedHost& host) {
  return {{"host", host.host},
          {"namespace", host.name_space.empty() ? Json(nullptr) : Json(host.name_space)},
          {"certified", host.certified},
          {"revoked", host.revoked},
          {"token", host.token.empty() ? Json(nullptr) : Json(host.token)}};
}

Json ToJson(const SignedCertificate& made) {
  return {{"cluster", made.cluster},
          {"certificate", made.certificate_pem},
          {"authority", made.authority_pem},
          {"now", UtcTime(made.now_unix_ms)}};
}

Json ToJson(const CertificateOfAuthority& one) {
  return {{"sha256", one.hash},
          {"begins", UtcTime(one.begins_unix_ms)},
          {"ends", UtcTime(one.ends_unix_ms)},
          {"certificate", one.pem}};
}

Json ToJson(const AuthorityInfo& info) {
  Json trusted_on = Json::array(), hosts = Json::array();
  for (const CertificateOfAuthority& one : info.trusted_on) trusted_on.push_back(ToJson(one));
  for (const HostTrust& host : info.hosts)
    hosts.push_back({{"name", host.name}, {"state", host.state}});
  return {{"signs", ToJson(info.signs)},
          {"trusted_on", std::move(trusted_on)},
          {"change_ends",
           info.change_ends_unix_ms ? Json(UtcTime(*info.change_ends_unix_ms)) : Json(nullptr)},
          {"hosts", std::move(hosts)}};
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
int HttpStatusOf(const AdoptionInfo& adoption) {
  return adoption.state == kAdoptionWaits || adoption.state == kAdoptionCopies ? 202 : 200;
}
int HttpStatusOf(const MadeToken&) { return 201; }
int HttpStatusOf(const SignedCertificate&) { return 201; }

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

// ---- who may come in

using Handle = std::function<void(const Caller&, http::Request, const http::Responder&)>;

CallOrigin OriginOf(const MethodRights& rights, const http::Request& request) {
  const auto header = request.headers.find("authorization");
  return {header == request.headers.end() ? "" : header->second, request.peer,
          absl::StrCat(std::string(rights.verb), " ", std::string(rights.pattern))};
}

std::string ObjectOf(const http::Request& request) {
  return request.params.empty() ? "" : request.params.begin()->second;
}

http::Response RefusalOf(const absl::Status& why) {
  http::Response response = http::ErrorResponse(why);
  if (absl::IsUnauthenticated(why)) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

// Looked at before the body is read, and again when it is there, as that may take its time. What is
// made is named in the body: then `handle` enters with its name.
http::Route Guarded(Gate* gate, http::Route route, Handle handle) {
  if (gate == nullptr) {
    route.handler = [handle = std::move(handle)](http::Request request,
                                                 const http::Responder& respond) {
      handle(Anybody(), std::move(request), respond);
    };
    return route;
  }
  const MethodRights* rights = RightsOfRoute(route.method, route.pattern);
  MUSTER_CHECK(rights != nullptr, "(a route has rights)");
  const auto look = [gate, rights](const http::Request& request) {
    return gate->Look(*rights, OriginOf(*rights, request), ObjectOf(request));
  };
  route.admit = [look](const http::Request& head) -> std::optional<http::Response> {
    const absl::StatusOr<Caller> caller = look(head);
    if (caller.ok()) return std::nullopt;
    return RefusalOf(caller.status());
  };
  const bool enters = rights->pattern.find('{') != std::string_view::npos;
  route.handler = [=, handle = std::move(handle)](http::Request request,
                                                  const http::Responder& respond) {
    const absl::StatusOr<Caller> caller =
        enters ? gate->Enter(*rights, OriginOf(*rights, request), ObjectOf(request))
               : look(request);
    if (!caller.ok()) return respond.Send(RefusalOf(caller.status()));
    handle(*caller, std::move(request), respond);
  };
  return route;
}

// One whose handler does not ask who calls.
http::Route Guarded(Gate* gate, http::Route route) {
  http::Handler handler = std::move(route.handler);
  return Guarded(gate, std::move(route),
                 [handler = std::move(handler)](const Caller&, http::Request request,
                                                const http::Responder& respond) {
                   handler(std::move(request), respond);
                 });
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

void Submit(JobApi& api, Background* large_answers, Gate* gate, const http::Request& request,
            const http::Responder& respond) {
  absl::StatusOr<Submission> submission = ParseSubmission(request.body);
  if (!submission.ok()) return respond.Send(submission.status(), FieldOf(submission.status()));
  absl::StatusOr<Caller> caller = Anybody();
  if (gate != nullptr) {
    if (submission->id.empty()) submission->id = MakeJobId(submission->spec.runtime.name);
    caller = gate->EnterToSubmit(OriginOf(*RightsOfRoute("POST", "/v1/jobs"), request),
                                 submission->id, submission->spec);
  }
  if (!caller.ok()) return respond.Send(RefusalOf(caller.status()));
  api.Submit(submission->id, std::move(submission->spec), *caller,
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

void Scale(JobApi& api, Background* large_answers, const Caller& caller,
           const http::Request& request, const http::Responder& respond) {
  const absl::StatusOr<JobSpec> spec = ParseScaling(request.body);
  if (!spec.ok()) return respond.Send(spec.status(), FieldOf(spec.status()));
  api.Scale(request.params.at("id"), spec->runtime.workers_min, spec->runtime.workers_max, caller,
            Answering<JobInfo>(respond, large_answers));
}

struct Adoption {
  std::string folder;
  std::string id;
};

absl::StatusOr<Adoption> ParseAdoption(const std::string& body) {
  if (body.empty())
    return absl::InvalidArgumentError("the body is empty; send {\"folder\": …} as JSON");
  MUSTER_ASSIGN_OR_RETURN(Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, {"folder", "id"}));
  Adoption adoption;
  const auto folder = document.root.find("folder");
  if (folder == document.root.end())
    return ErrorAt(document, "folder", "is missing: a job's folder of checkpoints");
  MUSTER_ASSIGN_OR_RETURN(adoption.folder, ReadText(document, "folder", *folder));
  if (const auto id = document.root.find("id"); id != document.root.end()) {
    MUSTER_ASSIGN_OR_RETURN(adoption.id, ReadText(document, "id", *id));
    if (adoption.id.empty())
      return ErrorAt(document, "id", "is empty; leave it out to keep the job's own");
  }
  return adoption;
}

void Adopt(JobApi& api, Gate* gate, const http::Request& request, const http::Responder& respond) {
  absl::StatusOr<Adoption> adoption = ParseAdoption(request.body);
  if (!adoption.ok()) return respond.Send(adoption.status(), FieldOf(adoption.status()));
  absl::StatusOr<Caller> caller = Anybody();
  if (gate != nullptr) {
    const MethodRights& rights = *RightsOfRoute("POST", "/v1/adoptions");
    caller = gate->Enter(rights, OriginOf(rights, request), adoption->folder);
  }
  if (!caller.ok()) return respond.Send(RefusalOf(caller.status()));
  api.Adopt(std::move(adoption->folder), std::move(adoption->id), *caller,
            Answering<AdoptionInfo>(respond));
}

void FindAdoption(JobApi& api, const http::Request& request, const http::Responder& respond) {
  api.FindAdoption(request.params.at("adoption"), Answering<AdoptionInfo>(respond));
}

void SetQueue(JobApi& api, Background* large_answers, const Caller& caller,
              const http::Request& request, const http::Responder& respond) {
  if (request.body.empty())
    return respond.Send(absl::InvalidArgumentError(
        "the body is empty; send a JSON object such as {\"priority\": 5}"));
  const absl::StatusOr<QueueChange> change = ParseQueueChange(request.body);
  if (!change.ok()) return respond.Send(change.status(), FieldOf(change.status()));
  api.SetQueue(request.params.at("id"), *change, caller,
               Answering<JobInfo>(respond, large_answers));
}

// All of it is replaced: what is left out is without a bound, and the priority is 0.
absl::StatusOr<Quota> ParseQuota(const std::string& body) {
  constexpr int32_t kMost = 1'000'000;
  if (body.empty())
    return absl::InvalidArgumentError(
        "the body is empty; send a JSON object such as {\"slots\": 8, \"queued\": 100}");
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, {"slots", "queued", "priority"}));
  Quota asked;
  for (const auto& [name, most] :
       {std::pair("slots", &asked.slots), std::pair("queued", &asked.queued)}) {
    const auto value = document.root.find(name);
    if (value == document.root.end() || value->is_null()) continue;
    MUSTER_ASSIGN_OR_RETURN(const absl::int128 number, ReadWhole(document, name, *value, 0, kMost));
    *most = static_cast<int32_t>(number);
  }
  const auto priority = document.root.find("priority");
  if (priority == document.root.end() || priority->is_null()) return asked;
  MUSTER_ASSIGN_OR_RETURN(const absl::int128 number, ReadWhole(document, "priority", *priority,
                                                               -kMostPriority, kMostPriority));
  asked.priority = static_cast<int32_t>(number);
  return asked;
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
  // `stays_in`: false once its token is taken away; empty: nobody is asked who he is.
  explicit StreamWatcher(std::function<bool()> stays_in) : stays_in_(std::move(stays_in)) {}
  ~StreamWatcher() override {
    if (stream_) stream_->Close();
  }
  void Begin(const http::Responder& respond) { stream_ = respond.Stream(); }
  bool OnEvent(const JobEvent& event) override {
    return stream_->Send(event.id, event.event, Text(ToJson(event)));
  }
  bool closed() const override { return stream_->closed() || (stays_in_ && !stays_in_()); }

 private:
  const std::function<bool()> stays_in_;
  std::shared_ptr<http::EventStream> stream_;  // once the job is found, before the first event
};

void Watch(JobApi& api, const Gate* gate, const Caller& caller, const http::Request& request,
           const http::Responder& respond) {
  const auto place = PlaceIn(request);
  if (!place.ok()) return respond.Send(place.status(), FieldOf(place.status()));
  const MethodRights& rights = *RightsOfRoute("GET", "/v1/jobs/{id}/events");
  const auto watcher = std::make_shared<StreamWatcher>(
      gate == nullptr ? nullptr : gate->StaysIn(OriginOf(rights, request)));
  api.Watch(
      request.params.at("id"), *place, caller,
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

absl::StatusOr<FollowQuery> FollowQueryIn(const http::Request& request) {
  FollowQuery query;
  for (const auto& [key, value] : request.query) {
    if (key == "after") {
      if (value.empty()) return FieldError("", key, "is empty; leave it out to begin anew");
      query.after = value;
    } else if (key == "member") {
      if (value.empty()) return FieldError("", key, "is empty; leave it out for all members");
      query.member = value;
    } else if (!ParseDigits(value, &query.tail) || query.tail < 1) {
      return FieldError("", "tail", absl::StrCat("must be 1 to ", kMostLogLines));
    }
  }
  return query;
}

void FollowLogs(JobApi& api, const Caller& caller, const http::Request& request,
                const http::Responder& respond) {
  const absl::StatusOr<FollowQuery> query = FollowQueryIn(request);
  if (!query.ok()) return respond.Send(query.status(), FieldOf(query.status()));
  api.FollowLogs(request.params.at("id"), *query, caller, Answering<LogPage>(respond));
}

// "team=see,stage=one": neither keys nor values have a comma.
absl::StatusOr<std::map<std::string, std::string>> LabelsIn(const std::string& text) {
  std::map<std::string, std::string> labels;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const size_t equals = part.find('=');
    if (equals == absl::string_view::npos)
      return FieldError("", "label", "must be KEY=VALUE, several with commas between them");
    const std::string key(part.substr(0, equals));
    if (!labels.emplace(key, std::string(part.substr(equals + 1))).second)
      return FieldError("", "label", absl::StrCat(Cut(Printable(key)), " stands twice"));
  }
  return labels;
}

absl::StatusOr<JobQuery> QueryIn(const http::Request& request) {
  JobQuery query;
  for (const auto& [key, value] : request.query) {
    if (key == "state") {
      if (value.empty()) return FieldError("", key, "is empty; leave it out for jobs in any state");
      query.state = value;
    } else if (key == "namespace") {
      if (value.empty()) return FieldError("", key, "is empty; leave it out for all namespaces");
      query.name_space = value;
    } else if (key == "label") {
      MUSTER_ASSIGN_OR_RETURN(query.labels, LabelsIn(value));
    } else if (key == "page_token") {
      if (value.empty()) return FieldError("", key, "is empty; leave it out for the first page");
      query.page_token = value;
    } else if (!ParseDigits(value, &query.limit) || query.limit < 1) {
      return FieldError("", "limit", absl::StrCat("must be 1 to ", kMostJobsPerPage));
    }
  }
  return query;
}

void List(JobApi& api, Background* large_answers, const Caller& caller,
          const http::Request& request, const http::Responder& respond) {
  absl::StatusOr<JobQuery> query = QueryIn(request);
  if (!query.ok()) return respond.Send(query.status(), FieldOf(query.status()));
  query->scope = caller.scope;
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

// One that changes it.
Handle ChangeJob(JobApi& api, Background* large_answers,
                 void (JobApi::*change)(const std::string& id, const Caller& caller,
                                        JobApi::Reply<JobInfo> reply)) {
  return [&api, large_answers, change](const Caller& caller, const http::Request& request,
                                       const http::Responder& respond) {
    (api.*change)(request.params.at("id"), caller, Answering<JobInfo>(respond, large_answers));
  };
}

}  // namespace

std::vector<http::Route> RestRoutes(JobApi& api, std::function<std::string()> metrics,
                                    std::function<absl::Status()> healthy,
                                    std::function<absl::Status()> ready, Background* large_answers,
                                    Gate* gate) {
  using HandleJob = void (*)(JobApi&, const http::Request&, const http::Responder&);
  const auto with_api = [&api](HandleJob handle) -> http::Handler {
    return [&api, handle](const http::Request& request, const http::Responder& respond) {
      handle(api, request, respond);
    };
  };
  const auto submit = [&api, large_answers, gate](const http::Request& request,
                                                  const http::Responder& respond) {
    Submit(api, large_answers, gate, request, respond);
  };
  const auto list = [&api, large_answers](const Caller& caller, const http::Request& request,
                                          const http::Responder& respond) {
    List(api, large_answers, caller, request, respond);
  };
  const auto adopt = [&api, gate](const http::Request& request, const http::Responder& respond) {
    Adopt(api, gate, request, respond);
  };
  const auto watch = [&api, gate](const Caller& caller, const http::Request& request,
                                  const http::Responder& respond) {
    Watch(api, gate, caller, request, respond);
  };
  const auto follow = [&api](const Caller& caller, const http::Request& request,
                             const http::Responder& respond) {
    FollowLogs(api, caller, request, respond);
  };
  const auto scale = [&api, large_answers](const Caller& caller, const http::Request& request,
                                           const http::Responder& respond) {
    Scale(api, large_answers, caller, request, respond);
  };
  const auto set_queue = [&api, large_answers](const Caller& caller, const http::Request& request,
                                               const http::Responder& respond) {
    SetQueue(api, large_answers, caller, request, respond);
  };
  std::vector<http::Route> routes = {
      {"POST", "/v1/jobs", submit},
      {"POST", "/v1/adoptions", adopt},
      {"GET", "/v1/adoptions/{adoption}", with_api(FindAdoption)},
      JobRoute<JobInfo>(api, large_answers, "GET", "/v1/jobs/{id}", &JobApi::Get),
      {"GET", "/v1/jobs/{id}/fingerprints", with_api(Fingerprints), {"from"}},
      JobRoute<JobAudit>(api, large_answers, "GET", "/v1/jobs/{id}/audit", &JobApi::Audit),
      {"GET", "/v1/jobs/{id}/history", with_api(History), {"from", "lineage", "limit"}},
      {"GET", "/v1/jobs/{id}/ledger", with_api(Ledger), {"from", "limit", "sample"}},
      {"GET", "/v1/jobs/{id}/logs", with_api(Logs), {"member", "tail"}},
      {"GET", "/v1/jobs/{id}/digest", with_api(Digest), {"step"}},
      http::MetricsRoute(std::move(metrics)),
      http::HealthRoute(std::move(healthy)),
      http::ReadyRoute(std::move(ready))};
  for (http::Route& route : routes) route = Guarded(gate, std::move(route));
  // What asks who calls.
  const auto add = [&](http::Route route, Handle handle) {
    routes.push_back(Guarded(gate, std::move(route), std::move(handle)));
  };
  add({"GET", "/v1/jobs", nullptr, {"label", "limit", "namespace", "page_token", "state"}}, list);
  add({"DELETE", "/v1/jobs/{id}", nullptr}, ChangeJob(api, large_answers, &JobApi::Delete));
  add({"POST", "/v1/jobs/{id}:cancel", nullptr}, ChangeJob(api, large_answers, &JobApi::Cancel));
  add({"POST", "/v1/jobs/{id}:stop", nullptr}, ChangeJob(api, large_answers, &JobApi::Stop));
  add({"POST", "/v1/jobs/{id}:scale", nullptr}, scale);
  add({"PATCH", "/v1/jobs/{id}", nullptr}, set_queue);
  add({"GET", "/v1/jobs/{id}/events", nullptr, {"from"}, /*streams=*/true}, watch);
  add({"GET", "/v1/jobs/{id}/logs:follow", nullptr, {"after", "member", "tail"}}, follow);
  return routes;
}

std::vector<http::Route> NamespaceRoutes(NamespaceApi& api, Background* large_answers, Gate* gate) {
  const auto list = [&api, large_answers](const Caller& caller, const http::Request&,
                                          const http::Responder& respond) {
    api.List(caller.scope, Answering<NamespaceList>(respond, large_answers));
  };
  const auto get = [&api](const http::Request& request, const http::Responder& respond) {
    api.Get(request.params.at("name"), Answering<NamespaceInfo>(respond));
  };
  const auto put = [&api](const http::Request& request, const http::Responder& respond) {
    const absl::StatusOr<Quota> asked = ParseQuota(request.body);
    if (!asked.ok()) return respond.Send(asked.status(), FieldOf(asked.status()));
    api.SetQuota(request.params.at("name"), *asked, Answering<NamespaceInfo>(respond));
  };
  return {Guarded(gate, {"GET", "/v1/namespaces", nullptr}, list),
          Guarded(gate, {"GET", "/v1/namespaces/{name}", get}),
          Guarded(gate, {"PUT", "/v1/namespaces/{name}", put})};
}

std::vector<http::Route> HostRoutes(HostApi& api, Background* large_answers, Gate* gate) {
  const auto list = [&api, large_answers](const Caller& caller, const http::Request& request,
                                          const http::Responder& respond) {
    absl::StatusOr<HostQuery> query = HostQueryIn(request);
    if (!query.ok()) return respond.Send(query.status(), FieldOf(query.status()));
    query->scope = caller.scope;
    api.List(*query, Answering<HostPage>(respond, large_answers));
  };
  const auto get = [&api, large_answers](const Caller& caller, const http::Request& request,
                                         const http::Responder& respond) {
    api.Get(request.params.at("name"), caller.scope, Answering<HostInfo>(respond, large_answers));
  };
  const auto drain = [&api, large_answers](bool on) -> http::Handler {
    return [&api, large_answers, on](const http::Request& request, const http::Responder& respond) {
      api.Drain(request.params.at("name"), on, Answering<HostInfo>(respond, large_answers));
    };
  };
  return {Guarded(gate, {"GET", "/v1/hosts", nullptr, {"limit", "page_token"}}, list),
          Guarded(gate, {"GET", "/v1/hosts/{name}", nullptr}, get),
          Guarded(gate, {"POST", "/v1/hosts/{name}:drain", drain(true)}),
          Guarded(gate, {"POST", "/v1/hosts/{name}:undrain", drain(false)})};
}

namespace {

absl::StatusOr<TokenRequest> ParseTokenRequest(const std::string& body) {
  if (body.empty())
    return absl::InvalidArgumentError(
        "the body is empty; send a JSON object such as {\"user\": \"ada\", \"role\": "
        "\"viewer\", \"namespace\": \"default\"}");
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(
      CheckKeys(document, "", document.root, {"expires_in", "namespace", "role", "user"}));
  std::map<std::string, std::string> fields;
  for (const char* key : {"namespace", "role", "user"}) {
    const auto value = document.root.find(key);
    if (value == document.root.end()) return ErrorAt(document, key, "is missing");
    MUSTER_ASSIGN_OR_RETURN(fields[key], ReadText(document, key, *value));
  }
  const std::optional<UserRole> role = RoleNamed(fields["role"]);
  if (!role) return ErrorAt(document, "role", "must be viewer, submitter, operator or admin");
  TokenRequest asked{{fields["user"], *role, fields["namespace"]}};
  if (const std::string why = WhyNoGrant(asked.grant); !why.empty())
    return absl::InvalidArgumentError(why);
  const auto expires = document.root.find("expires_in");
  if (expires == document.root.end()) return asked;
  MUSTER_ASSIGN_OR_RETURN(const absl::int128 seconds,
                          ReadWhole(document, "expires_in", *expires, 1, kLongestTokenSeconds));
  asked.expires_in_seconds = static_cast<int64_t>(seconds);
  return asked;
}

}  // namespace

std::vector<http::Route> TokenRoutes(TokenApi& api, Background* large_answers, Gate& gate) {
  const auto make = [&api, &gate](const http::Request& request, const http::Responder& respond) {
    const absl::StatusOr<TokenRequest> asked = ParseTokenRequest(request.body);
    if (!asked.ok()) return respond.Send(asked.status(), FieldOf(asked.status()));
    const Caller& grant = asked->grant;
    const MethodRights& rights = *RightsOfRoute("POST", "/v1/tokens");
    const std::string object = absl::StrCat(
        grant.user, " ", std::string(RoleName(grant.role)), " ", grant.scope,
        asked->expires_in_seconds == 0 ? ""
                                       : absl::StrCat(" for ", asked->expires_in_seconds, " s"));
    const absl::StatusOr<Caller> caller = gate.Enter(rights, OriginOf(rights, request), object);
    if (!caller.ok()) return respond.Send(RefusalOf(caller.status()));
    api.Make(*asked, Answering<MadeToken>(respond));
  };
  const auto list = [&api, large_answers](const http::Request&, const http::Responder& respond) {
    api.List(Answering<TokenList>(respond, large_answers));
  };
  const auto revoke = [&api](const http::Request& request, const http::Responder& respond) {
    api.Revoke(request.params.at("id"), Answering<TokenInfo>(respond));
  };
  return {Guarded(&gate, {"POST", "/v1/tokens", make}), Guarded(&gate, {"GET", "/v1/tokens", list}),
          Guarded(&gate, {"DELETE", "/v1/tokens/{id}", revoke})};
}

namespace {

struct AdmissionAsked {
  std::string name_space{kFirstNamespace};
  bool certified = false;
};

absl::StatusOr<AdmissionAsked> ParseAdmission(const std::string& body) {
  AdmissionAsked asked;
  if (body.empty()) return asked;
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, {"certified", "namespace"}));
  if (const auto value = document.root.find("namespace"); value != document.root.end()) {
    MUSTER_ASSIGN_OR_RETURN(asked.name_space, ReadText(document, "namespace", *value));
  }
  if (const auto value = document.root.find("certified"); value != document.root.end()) {
    if (!value->is_boolean()) return ErrorAt(document, "certified", "must be true or false");
    asked.certified = value->get<bool>();
  }
  return asked;
}

struct ChangeAsked {
  bool force = false;
  std::optional<absl::Time> now;
};

absl::StatusOr<ChangeAsked> ParseChange(const std::string& body) {
  ChangeAsked asked;
  if (body.empty()) return asked;
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, {"force", "now"}));
  if (const auto force = document.root.find("force"); force != document.root.end()) {
    if (!force->is_boolean()) return ErrorAt(document, "force", "must be true or false");
    asked.force = force->get<bool>();
  }
  if (const auto now = document.root.find("now"); now != document.root.end()) {
    MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadText(document, "now", *now));
    asked.now.emplace();
    if (std::string why; !absl::ParseTime(absl::RFC3339_full, text, &*asked.now, &why))
      return ErrorAt(document, "now", "must be a time such as 2027-01-15T08:00:00Z");
  }
  return asked;
}

absl::StatusOr<std::string> ParsePublicKey(const std::string& body) {
  if (body.empty())
    return absl::InvalidArgumentError(
        "the body is empty; send a JSON object such as {\"public_key\": \"BASE64\"}");
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, {"public_key"}));
  const auto value = document.root.find("public_key");
  if (value == document.root.end()) return ErrorAt(document, "public_key", "is missing");
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadText(document, "public_key", *value));
  std::string key;
  if (!absl::Base64Unescape(text, &key)) return ErrorAt(document, "public_key", "is no base64");
  return key;
}

}  // namespace

std::vector<http::Route> JoiningRoutes(HostTokenApi& hosts, CertificateApi& certificates,
                                       Gate* gate) {
  const auto admit = [&hosts](const http::Request& request, const http::Responder& respond) {
    const absl::StatusOr<AdmissionAsked> asked = ParseAdmission(request.body);
    if (!asked.ok()) return respond.Send(asked.status(), FieldOf(asked.status()));
    hosts.Admit(request.params.at("name"), asked->name_space, asked->certified,
                Answering<AdmittedHost>(respond));
  };
  const auto revoke = [&hosts](const http::Request& request, const http::Responder& respond) {
    hosts.Revoke(request.params.at("name"), Answering<AdmittedHost>(respond));
  };
  const auto sign = [&certificates, gate](const http::Request& request,
                                          const http::Responder& respond) {
    const absl::StatusOr<std::string> key = ParsePublicKey(request.body);
    if (!key.ok()) return respond.Send(key.status(), FieldOf(key.status()));
    std::string user, token_id;
    if (gate != nullptr) {
      const MethodRights& rights = *RightsOfRoute("POST", "/v1/certificates");
      const CallOrigin origin = OriginOf(rights, request);
      const absl::StatusOr<Caller> caller = gate->Enter(rights, origin, "");
      if (!caller.ok()) return respond.Send(RefusalOf(caller.status()));
      user = caller->user;
      token_id = TokenIdIn(origin);
    }
    certificates.SignUser(user, token_id, *key, Answering<SignedCertificate>(respond));
  };
  return {Guarded(gate, {"POST", "/v1/hosts/{name}:admit", admit}),
          Guarded(gate, {"POST", "/v1/hosts/{name}:revoke", revoke}),
          Guarded(gate, {"POST", "/v1/certificates", sign})};
}

std::vector<http::Route> AuthorityRoutes(AuthorityApi& api, Gate* gate) {
  const auto get = [&api](const http::Request&, const http::Responder& respond) {
    api.Get(Answering<AuthorityInfo>(respond));
  };
  const auto change = [&api](const http::Request& request, const http::Responder& respond) {
    const absl::StatusOr<ChangeAsked> asked = ParseChange(request.body);
    if (!asked.ok()) return respond.Send(asked.status(), FieldOf(asked.status()));
    api.Change(asked->now, Answering<AuthorityInfo>(respond));
  };
  const auto finish = [&api](const http::Request& request, const http::Responder& respond) {
    const absl::StatusOr<ChangeAsked> asked = ParseChange(request.body);
    if (!asked.ok()) return respond.Send(asked.status(), FieldOf(asked.status()));
    api.Finish(asked->force, asked->now, Answering<AuthorityInfo>(respond));
  };
  return {Guarded(gate, {"GET", "/v1/authority", get}),
          Guarded(gate, {"POST", "/v1/authority:change", change}),
          Guarded(gate, {"POST", "/v1/authority:finish", finish})};
}

}  // namespace muster::coordinator
