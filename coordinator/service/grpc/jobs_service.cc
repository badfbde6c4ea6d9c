#include "coordinator/service/grpc/jobs_service.h"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "coordinator/service/grpc/call.h"
#include "coordinator/service/new_job_id.h"
#include "lib/base/printable.h"
#include "lib/config/field_error.h"
#include "lib/wire/job_codec_proto.h"
#include "muster/v1/control.grpc.pb.h"

namespace muster {
namespace {

// Events that a client has not taken yet, more than are kept of a job; more, and it is dropped.
constexpr size_t kMostQueuedEvents = 20'000;
constexpr size_t kMostQueuedBytes = size_t{16} << 20;
// Of all clients that do not read, beyond what is small.
constexpr size_t kMostEventBytes = size_t{64} << 20;

QueueChange ChangeIn(const v1::SetQueueRequest& asked) {
  QueueChange change;
  if (asked.has_priority()) change.priority = asked.priority();
  if (asked.has_deadline()) change.deadline = asked.deadline();
  if (asked.has_time_to_live()) change.time_to_live = asked.time_to_live();
  if (asked.has_retries()) change.retries = asked.retries();
  for (const auto& [key, value] : asked.labels()) change.labels[key] = value;
  for (const std::string& key : asked.without_labels()) change.labels[key] = std::nullopt;
  return change;
}

// One client that watches. Lives until gRPC is done with it and nobody has events for it.
class Watcher final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                      public std::enable_shared_from_this<Watcher> {
 public:
  static std::shared_ptr<Watcher> Make(grpc::CallbackServerContext* context, ByteCount events,
                                       LateWrites& late_writes) {
    std::shared_ptr<Watcher> watcher(new Watcher(context, std::move(events), late_writes));
    watcher->self_ = watcher;
    return watcher;
  }

  // False: it wants no more.
  bool Add(const JobEvent& event) {
    {
      MutexLock lock(mutex_);
      if (end_) return false;
      const size_t bytes = BytesOf(event);
      const bool is_little = queued_bytes_ + bytes <= kSmallAnswerBytes;
      auto room = is_little ? nullptr : ByteRoom::Take(events_, bytes, kMostEventBytes);
      const bool has_room = is_little || room != nullptr;
      if (has_room && queue_.size() < kMostQueuedEvents &&
          queued_bytes_ + bytes <= kMostQueuedBytes) {
        queue_.push_back({ToProto(event), bytes, std::move(room)});
        queued_bytes_ += bytes;
      } else {
        queue_.clear();
        end_ = TooSlow();
      }
    }
    Advance();
    return true;
  }

  void End(grpc::Status status) {
    {
      MutexLock lock(mutex_);
      queue_.clear();
      if (!end_) end_ = std::move(status);
    }
    Advance();
  }

  // The job is there: its events follow. The client is told so, also where there are none yet.
  void Begin() {
    {
      MutexLock lock(mutex_);
      begun_ = true;
      if (end_ || busy_) return;
      StartOperation();
    }
    StartSendInitialMetadata();
  }

  // After what was added has been written. Where nothing has begun, the question itself was
  // dropped.
  void Close() {
    {
      MutexLock lock(mutex_);
      if (end_) return;
      end_ = begun_ ? grpc::Status::OK
                    : grpc::Status(grpc::StatusCode::UNAVAILABLE, "the coordinator is ending");
    }
    Advance();
  }

  bool ended() const {
    MutexLock lock(mutex_);
    return end_.has_value();
  }

  void OnSendInitialMetadataDone(bool ok) override { OperationDone(ok); }
  void OnWriteDone(bool ok) override { OperationDone(ok); }
  void OnCancel() override { End(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled")); }
  void OnDone() override {
    in_grpc_.Done();
    const std::shared_ptr<Watcher> last = std::move(self_);
  }

 private:
  Watcher(grpc::CallbackServerContext* context, ByteCount events, LateWrites& late_writes)
      : events_(std::move(events)), late_writes_(late_writes), in_grpc_(context) {}

  static grpc::Status TooSlow() {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED,
            "the events are read too slowly; come again with the id of the last one"};
  }

  void StartOperation() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    busy_ = true;
    operation_ = late_writes_.Begin([weak = weak_from_this()] {
      if (const auto watcher = weak.lock()) watcher->CutOff();
    });
  }
  void OperationDone(bool ok) {
    {
      MutexLock lock(mutex_);
      busy_ = false;
      operation_.reset();
    }
    if (!ok) End(grpc::Status(grpc::StatusCode::CANCELLED, "the client is gone"));
    Advance();
  }
  // Its operation stands still, and no other can end the call before that.
  void CutOff() {
    End(TooSlow());
    in_grpc_.Cancel();
  }

  // Starts what is next, if nothing is under way: a write, or the end.
  void Advance() {
    std::optional<grpc::Status> end;
    v1::JobEvent event;
    {
      MutexLock lock(mutex_);
      if (busy_ || finished_ || (queue_.empty() && !end_)) return;
      if (queue_.empty()) {
        finished_ = true;
        end = end_;
      } else {
        StartOperation();
        event = std::move(queue_.front().event);
        queued_bytes_ -= queue_.front().bytes;
        queue_.pop_front();
      }
    }
    if (end) return Finish(*end);
    writing_ = Written(event);
    StartWrite(&writing_);
  }

  std::shared_ptr<Watcher> self_;  // until OnDone
  grpc::ByteBuffer writing_;       // of the operation that is under way
  const ByteCount events_;         // that wait, of all watchers
  LateWrites& late_writes_;
  CallInGrpc in_grpc_;
  mutable Mutex mutex_;
  struct Queued {
    v1::JobEvent event;
    size_t bytes = 0;
    std::unique_ptr<ByteRoom> room;  // null: little waits
  };
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of queue_; not counted any more at the end
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);  // no more events are taken
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;  // an operation is under way
  std::unique_ptr<LateWrites::Write> operation_ ABSL_GUARDED_BY(mutex_);  // set while busy_
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

// The end of the events is the end of the call.
class WatcherEnd final : public JobWatcher {
 public:
  // `stays_in`: false once its token is taken away; empty: nobody is asked who he is.
  WatcherEnd(std::shared_ptr<Watcher> watcher, std::function<bool()> stays_in)
      : watcher_(std::move(watcher)), stays_in_(std::move(stays_in)) {}
  ~WatcherEnd() override { watcher_->Close(); }
  bool OnEvent(const JobEvent& event) override { return watcher_->Add(event); }
  bool closed() const override {
    if (stays_in_ && !stays_in_())
      watcher_->End(grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                                 "the token of this call is of no use any more"));
    return watcher_->ended();
  }

 private:
  const std::shared_ptr<Watcher> watcher_;
  const std::function<bool()> stays_in_;
};

absl::StatusOr<Accepts> AcceptsOf(const google::protobuf::RepeatedPtrField<std::string>& words) {
  Accepts accepts;
  for (const std::string& word : words) {
    if (word != kAcceptsPlugin)
      return FieldError(
          "", "accept",
          absl::StrCat("'", Cut(Printable(word)), "' is unknown; allowed: ", kAcceptsPlugin));
    accepts.plugin = true;
  }
  return accepts;
}

using J = v1::Jobs;
using RawJobs =
    Stacked<J::Service, J::WithRawCallbackMethod_Submit, J::WithRawCallbackMethod_Adopt,
            J::WithRawCallbackMethod_FindAdoption, J::WithRawCallbackMethod_Get,
            J::WithRawCallbackMethod_List, J::WithRawCallbackMethod_Cancel,
            J::WithRawCallbackMethod_Stop, J::WithRawCallbackMethod_Delete,
            J::WithRawCallbackMethod_Watch, J::WithRawCallbackMethod_Fingerprints,
            J::WithRawCallbackMethod_Audit, J::WithRawCallbackMethod_Digest,
            J::WithRawCallbackMethod_Scale, J::WithRawCallbackMethod_Logs,
            J::WithRawCallbackMethod_SetQueue, J::WithRawCallbackMethod_FollowLogs>::Type;

class JobsService final : public CallsTo<RawJobs, JobApi> {
 public:
  using CallsTo::CallsTo;

 private:
  Unary* Submit(Context* context, const Bytes* request, Bytes* response) override {
    static constexpr char kMethod[] = "muster.v1.Jobs.Submit";
    const auto ask = [this, context](const v1::SubmitRequest& asked, const Caller& looked_at,
                                     Call* call) {
      absl::StatusOr<JobSpec> spec = FromProto(asked.spec());
      if (!spec.ok()) return call->Refuse(spec.status());
      const absl::StatusOr<Accepts> accepts = AcceptsOf(asked.accept());
      if (!accepts.ok()) return call->Refuse(accepts.status());
      std::string id = asked.id();
      absl::StatusOr<Caller> caller = looked_at;
      if (gate() != nullptr) {
        if (id.empty()) id = coordinator::MakeJobId(spec->runtime.name);
        caller = gate()->EnterToSubmit(OriginOf(kMethod, *context), id, *spec);
      }
      if (!caller.ok()) return call->Refuse(caller.status());
      api().Submit(id, *std::move(spec), *accepts, *caller,
                   AnswerOf<v1::SubmitResponse, SubmittedJob>(call));
    };
    return Ask<v1::SubmitRequest>(kMethod, context, request, response, ask);
  }
  Unary* Adopt(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::AdoptRequest& asked, const Caller& caller, Call* call) {
      const absl::StatusOr<Accepts> accepts = AcceptsOf(asked.accept());
      if (!accepts.ok()) return call->Refuse(accepts.status());
      api().Adopt(asked.folder(), asked.id(), *accepts, caller,
                  AnswerOf<v1::Adoption, AdoptionInfo>(call));
    };
    return Ask<v1::AdoptRequest>("muster.v1.Jobs.Adopt", context, request, response, ask);
  }
  Unary* FindAdoption(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::FindAdoptionRequest& asked, const Caller&, Call* call) {
      api().FindAdoption(asked.adoption(), AnswerOf<v1::Adoption, AdoptionInfo>(call));
    };
    return Ask<v1::FindAdoptionRequest>("muster.v1.Jobs.FindAdoption", context, request, response,
                                        ask);
  }
  Unary* Get(Context* context, const Bytes* request, Bytes* response) override {
    return AskOfJob<v1::Job>("muster.v1.Jobs.Get", context, request, response, &JobApi::Get);
  }
  Unary* List(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::ListRequest& asked, const Caller& caller, Call* call) {
      JobQuery query{asked.limit(), asked.page_token(), asked.state()};
      query.name_space = asked.namespace_();
      query.labels = {asked.labels().begin(), asked.labels().end()};
      query.scope = caller.scope;
      api().List(query, AnswerOf<v1::ListResponse, JobPage>(call));
    };
    return Ask<v1::ListRequest>("muster.v1.Jobs.List", context, request, response, ask);
  }
  Unary* Cancel(Context* context, const Bytes* request, Bytes* response) override {
    return ChangeJob("muster.v1.Jobs.Cancel", context, request, response, &JobApi::Cancel);
  }
  Unary* Delete(Context* context, const Bytes* request, Bytes* response) override {
    return ChangeJob("muster.v1.Jobs.Delete", context, request, response, &JobApi::Delete);
  }
  Unary* Stop(Context* context, const Bytes* request, Bytes* response) override {
    return ChangeJob("muster.v1.Jobs.Stop", context, request, response, &JobApi::Stop);
  }
  Unary* Scale(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::ScaleRequest& asked, const Caller& caller, Call* call) {
      api().Scale(asked.id(), asked.workers_min(), asked.workers_max(), caller,
                  AnswerOf<v1::Job, JobInfo>(call));
    };
    return Ask<v1::ScaleRequest>("muster.v1.Jobs.Scale", context, request, response, ask);
  }
  Unary* SetQueue(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::SetQueueRequest& asked, const Caller& caller, Call* call) {
      api().SetQueue(asked.id(), ChangeIn(asked), caller, AnswerOf<v1::Job, JobInfo>(call));
    };
    return Ask<v1::SetQueueRequest>("muster.v1.Jobs.SetQueue", context, request, response, ask);
  }
  Unary* Fingerprints(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::FingerprintsRequest& asked, const Caller&, Call* call) {
      api().Fingerprints(asked.id(), asked.from(),
                         AnswerOf<v1::FingerprintsResponse, JobFingerprints>(call));
    };
    return Ask<v1::FingerprintsRequest>("muster.v1.Jobs.Fingerprints", context, request, response,
                                        ask);
  }
  Unary* Audit(Context* context, const Bytes* request, Bytes* response) override {
    return AskOfJob<v1::AuditResponse>("muster.v1.Jobs.Audit", context, request, response,
                                       &JobApi::Audit);
  }
  Unary* Digest(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::DigestRequest& asked, const Caller&, Call* call) {
      const std::optional<int64_t> step =
          asked.has_step() ? std::optional(asked.step()) : std::nullopt;
      api().Digest(asked.id(), step, AnswerOf<v1::DigestResponse, JobDigest>(call));
    };
    return Ask<v1::DigestRequest>("muster.v1.Jobs.Digest", context, request, response, ask);
  }
  Unary* Logs(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::LogsRequest& asked, const Caller&, Call* call) {
      api().Logs(asked.id(), {asked.member(), asked.tail()},
                 AnswerOf<v1::LogsResponse, LogTail>(call));
    };
    return Ask<v1::LogsRequest>("muster.v1.Jobs.Logs", context, request, response, ask);
  }
  Unary* FollowLogs(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::FollowLogsRequest& asked, const Caller& caller, Call* call) {
      api().FollowLogs(asked.id(), {asked.member(), asked.tail(), asked.after()}, caller,
                       AnswerOf<v1::FollowLogsResponse, LogPage>(call));
    };
    return Ask<v1::FollowLogsRequest>("muster.v1.Jobs.FollowLogs", context, request, response, ask);
  }
  grpc::ServerWriteReactor<Bytes>* Watch(Context* context, const Bytes* request) override {
    static constexpr char kMethod[] = "muster.v1.Jobs.Watch";
    const std::shared_ptr<Watcher> watcher =
        Watcher::Make(context, waiting().events, late_writes());
    const auto let_in = LetIn<v1::WatchRequest>(kMethod, *context, *request);
    if (!let_in.ok()) {
      watcher->End(RefusalOf(let_in.status()).status);
      return watcher.get();
    }
    const v1::WatchRequest& asked = let_in->first;
    const std::optional<EventPlace> after = ParseEventPlace(asked.after());
    if (!after && !asked.after().empty()) {
      const Refusal refusal = RefusalOf(FieldError("", "after", kEventPlaceForm));
      context->AddTrailingMetadata(kFieldMetadata, refusal.field);
      watcher->End(refusal.status);
      return watcher.get();
    }
    api().Watch(
        asked.id(), after, let_in->second,
        [watcher](const absl::StatusOr<bool>& found) {
          if (!found.ok()) return watcher->End(RefusalOf(found.status()).status);
          watcher->Begin();
        },
        std::make_shared<WatcherEnd>(
            watcher, gate() == nullptr ? nullptr : gate()->StaysIn(OriginOf(kMethod, *context))));
    return watcher.get();
  }

  template <class Response, class T>
  Unary* AskOfJob(const char* method, Context* context, const Bytes* request, Bytes* response,
                  void (JobApi::*ask)(const std::string&, JobApi::Reply<T>)) {
    const auto ask_job = [this, ask](const v1::JobRequest& asked, const Caller&, Call* call) {
      (api().*ask)(asked.id(), AnswerOf<Response, T>(call));
    };
    return Ask<v1::JobRequest>(method, context, request, response, ask_job);
  }
  // The same for what changes it.
  Unary* ChangeJob(const char* method, Context* context, const Bytes* request, Bytes* response,
                   void (JobApi::*ask)(const std::string&, const Caller&, JobApi::Reply<JobInfo>)) {
    const auto ask_job = [this, ask](const v1::JobRequest& asked, const Caller& caller,
                                     Call* call) {
      (api().*ask)(asked.id(), caller, AnswerOf<v1::Job, JobInfo>(call));
    };
    return Ask<v1::JobRequest>(method, context, request, response, ask_job);
  }
};

}  // namespace

std::shared_ptr<grpc::Service> MakeJobsService(JobApi& api, const Clock& clock,
                                               coordinator::Background& large_answers,
                                               const JobsWaiting& waiting,
                                               coordinator::Gate* gate) {
  return std::make_shared<JobsService>(api, clock, large_answers, waiting, gate);
}

}  // namespace muster
