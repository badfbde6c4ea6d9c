#include "coordinator/service/rest.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/service/new_job_id.h"
#include "coordinator/service/openapi.h"
#include "coordinator/service/rest_json.h"
#include "coordinator/service/rest_operations.h"
#include "coordinator/service/rest_route.h"
#include "lib/base/byte_room.h"
#include "lib/base/digits.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/config/document.h"
#include "lib/wire/job_codec.h"
#include "lib/wire/job_document.h"

namespace muster::coordinator {
namespace {

struct Submission {
  std::string id;
  JobSpec spec;
  Accepts accepts{};
};

absl::StatusOr<Accepts> ReadAccepts(const Document& document) {
  Accepts accepts;
  const auto words = document.root.find("accept");
  if (words == document.root.end()) return accepts;
  if (!words->is_array()) return ErrorAt(document, "accept", "must be a list of words");
  for (size_t i = 0; i < words->size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(const std::string word,
                            ReadText(document, FieldPath("accept", i), (*words)[i]));
    if (word != kAcceptsPlugin)
      return ErrorAt(
          document, FieldPath("accept", i),
          absl::StrCat("'", Cut(Printable(word)), "' is unknown; allowed: ", kAcceptsPlugin));
    accepts.plugin = true;
  }
  return accepts;
}

absl::StatusOr<Submission> ParseSubmission(const std::string& body) {
  if (body.empty())
    return absl::InvalidArgumentError("the body is empty; send the job as a JSON object");
  MUSTER_ASSIGN_OR_RETURN(Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, KeysOf(SubmissionBody())));
  Submission submission;
  if (const auto id = document.root.find("id"); id != document.root.end()) {
    MUSTER_ASSIGN_OR_RETURN(submission.id, ReadText(document, "id", *id));
    if (submission.id.empty())
      return ErrorAt(document, "id", "is empty; leave it out to have one made");
  }
  MUSTER_ASSIGN_OR_RETURN(submission.accepts, ReadAccepts(document));
  const auto spec = document.root.find("spec");
  if (spec == document.root.end())
    return ErrorAt(document, "spec", "is missing: the job's specification");
  if (!spec->is_object())
    return ErrorAt(document, "spec", "must be an object: the job's specification");
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
  api.Submit(submission->id, std::move(submission->spec), submission->accepts, *caller,
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
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, KeysOf(ScalingBody())));
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
  Accepts accepts{};
};

absl::StatusOr<Adoption> ParseAdoption(const std::string& body) {
  if (body.empty())
    return absl::InvalidArgumentError("the body is empty; send {\"folder\": …} as JSON");
  MUSTER_ASSIGN_OR_RETURN(Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, KeysOf(AdoptionBody())));
  Adoption adoption;
  const auto folder = document.root.find("folder");
  if (folder == document.root.end())
    return ErrorAt(document, "folder", "is missing: a job's folder of checkpoints");
  MUSTER_ASSIGN_OR_RETURN(adoption.folder, ReadText(document, "folder", *folder));
  MUSTER_ASSIGN_OR_RETURN(adoption.accepts, ReadAccepts(document));
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
  api.Adopt(std::move(adoption->folder), std::move(adoption->id), adoption->accepts, *caller,
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
  if (body.empty())
    return absl::InvalidArgumentError(
        "the body is empty; send a JSON object such as {\"slots\": 8, \"queued\": 100}");
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, KeysOf(QuotaBody())));
  Quota asked;
  for (const auto& [name, most] :
       {std::pair("slots", &asked.slots), std::pair("queued", &asked.queued)}) {
    const auto value = document.root.find(name);
    if (value == document.root.end() || value->is_null()) continue;
    MUSTER_ASSIGN_OR_RETURN(const absl::int128 number,
                            ReadWhole(document, name, *value, 0, kMostQuota));
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

absl::StatusOr<FileQuery> FileQueryIn(const http::Request& request) {
  FileQuery query;
  for (const auto& [key, value] : request.query) {
    if (key == "file") {
      query.file = value;
    } else if (key == "offset") {
      if (!ParseDigits(value, &query.offset))
        return FieldError("", key, "must be the number of a byte");
    } else if (!ParseDigits(value, &query.bytes) || query.bytes < 1 ||
               query.bytes > kMostFileBytes) {
      return FieldError("", "bytes", absl::StrCat("must be 1 to ", kMostFileBytes));
    }
  }
  return query;
}

// It has its room before it is read. For more than kMostFileBytes there might never be any, so that
// is refused first.
void ReadFile(JobApi& api, const http::Request& request, const http::Responder& respond) {
  const absl::StatusOr<FileQuery> query = FileQueryIn(request);
  if (!query.ok()) return respond.Send(query.status(), FieldOf(query.status()));
  if (!respond.Reserve(static_cast<size_t>(query->bytes == 0 ? kMostFileBytes : query->bytes)))
    return respond.Send(http::NoRoomForAnswer());
  api.ReadFile(request.params.at("id"), *query, [respond](absl::StatusOr<FilePart> part) {
    if (!part.ok()) return respond.Send(part.status(), FieldOf(part.status()));
    respond.Send({.content_type = "application/octet-stream",
                  .body = std::move(part->bytes),
                  .headers = {{kFileBytesHeader, absl::StrCat(part->of)}}});
  });
}

absl::StatusOr<std::string> PageTokenIn(const std::string& value) {
  if (value.empty())
    return FieldError("", "page_token", "is empty; leave it out for the first page");
  return value;
}

void ListCheckpoints(JobApi& api, const http::Request& request, const http::Responder& respond) {
  absl::StatusOr<std::string> page_token = "";
  if (const auto token = request.query.find("page_token"); token != request.query.end())
    page_token = PageTokenIn(token->second);
  if (!page_token.ok()) return respond.Send(page_token.status(), FieldOf(page_token.status()));
  api.Checkpoints(request.params.at("id"), *page_token, Answering<SavedCheckpoints>(respond));
}

// Empty: by none any more.
absl::StatusOr<std::string> ParseKeptName(const std::string& body) {
  if (body.empty())
    return absl::InvalidArgumentError("the body is empty; send {\"name\": …} as JSON");
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, KeysOf(CheckpointChangeBody())));
  const auto name = document.root.find("name");
  if (name == document.root.end())
    return ErrorAt(document, "name", "is missing: by which the checkpoint is kept, or null");
  if (name->is_null()) return std::string();
  MUSTER_ASSIGN_OR_RETURN(std::string text, ReadText(document, "name", *name));
  if (text.empty()) return ErrorAt(document, "name", "is empty; null keeps it by none");
  return text;
}

void KeepCheckpoint(JobApi& api, const Caller& caller, const http::Request& request,
                    const http::Responder& respond) {
  const absl::StatusOr<std::string> name = ParseKeptName(request.body);
  if (!name.ok()) return respond.Send(name.status(), FieldOf(name.status()));
  api.KeepCheckpoint(request.params.at("id"), request.params.at("checkpoint"), *name, caller,
                     Answering<SavedCheckpoint>(respond));
}

void DeleteCheckpoint(JobApi& api, const Caller& caller, const http::Request& request,
                      const http::Responder& respond) {
  bool force = false;
  if (const auto word = request.query.find("force"); word != request.query.end()) {
    force = word->second == "true";
    if (!force && word->second != "false")
      return respond.Send(FieldError("", "force", "must be true or false"), "force");
  }
  api.DeleteCheckpoint(request.params.at("id"), request.params.at("checkpoint"), force, caller,
                       Answering<SavedCheckpoint>(respond));
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
      MUSTER_ASSIGN_OR_RETURN(query.page_token, PageTokenIn(value));
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
      MUSTER_ASSIGN_OR_RETURN(query.page_token, PageTokenIn(value));
    } else if (!ParseDigits(value, &query.limit) || query.limit < 1) {
      return FieldError("", "limit", absl::StrCat("must be 1 to ", kMostJobsPerPage));
    }
  }
  return query;
}

void OpenApi(const http::Request&, const http::Responder& respond) {
  respond.Send({.body = OpenApiText()});
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
  using ChangeOfJob =
      void (*)(JobApi&, const Caller&, const http::Request&, const http::Responder&);
  const auto with_caller = [&api](ChangeOfJob handle) -> Handle {
    return
        [&api, handle](const Caller& caller, const http::Request& request,
                       const http::Responder& respond) { handle(api, caller, request, respond); };
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
      {"GET", "/v1/jobs/{id}/fingerprints", with_api(Fingerprints)},
      JobRoute<JobAudit>(api, large_answers, "GET", "/v1/jobs/{id}/audit", &JobApi::Audit),
      {"GET", "/v1/jobs/{id}/history", with_api(History)},
      {"GET", "/v1/jobs/{id}/ledger", with_api(Ledger)},
      {"GET", "/v1/jobs/{id}/logs", with_api(Logs)},
      {"GET", "/v1/jobs/{id}/digest", with_api(Digest)},
      {"GET", "/v1/jobs/{id}/checkpoint", with_api(ReadFile)},
      {"GET", "/v1/jobs/{id}/checkpoints", with_api(ListCheckpoints)},
      {"GET", "/v1/openapi.json", OpenApi},
      http::MetricsRoute(std::move(metrics)),
      http::HealthRoute(std::move(healthy)),
      http::ReadyRoute(std::move(ready))};
  for (http::Route& route : routes) route = Guarded(gate, std::move(route));
  // What asks who calls.
  const auto add = [&](http::Route route, Handle handle) {
    routes.push_back(Guarded(gate, std::move(route), std::move(handle)));
  };
  add({"GET", "/v1/jobs", nullptr}, list);
  add({"DELETE", "/v1/jobs/{id}", nullptr}, ChangeJob(api, large_answers, &JobApi::Delete));
  add({"POST", "/v1/jobs/{id}:cancel", nullptr}, ChangeJob(api, large_answers, &JobApi::Cancel));
  add({"POST", "/v1/jobs/{id}:stop", nullptr}, ChangeJob(api, large_answers, &JobApi::Stop));
  add({"POST", "/v1/jobs/{id}:scale", nullptr}, scale);
  add({"PATCH", "/v1/jobs/{id}", nullptr}, set_queue);
  add({"PATCH", "/v1/jobs/{id}/checkpoints/{checkpoint}", nullptr}, with_caller(KeepCheckpoint));
  add({"DELETE", "/v1/jobs/{id}/checkpoints/{checkpoint}", nullptr}, with_caller(DeleteCheckpoint));
  add({"GET", "/v1/jobs/{id}/events", nullptr}, watch);
  add({"GET", "/v1/jobs/{id}/logs:follow", nullptr}, follow);
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
  return {Guarded(gate, {"GET", "/v1/hosts", nullptr}, list),
          Guarded(gate, {"GET", "/v1/hosts/{name}", nullptr}, get),
          Guarded(gate, {"POST", "/v1/hosts/{name}:drain", drain(true)}),
          Guarded(gate, {"POST", "/v1/hosts/{name}:undrain", drain(false)})};
}

}  // namespace muster::coordinator
