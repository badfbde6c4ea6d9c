#include "coordinator/service/grpc/jobs_service.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/runtime/once.h"
#include "coordinator/service/answer_size.h"
#include "coordinator/service/grpc/refusal.h"
#include "lib/base/byte_room.h"
#include "lib/base/check.h"
#include "lib/base/mutex.h"
#include "lib/config/field_error.h"
#include "lib/wire/job_codec_proto.h"
#include "muster/v1/control.grpc.pb.h"

namespace muster {
namespace {

// Events that a client has not taken yet, more than are kept of a job; more, and it is dropped.
constexpr size_t kMostQueuedEvents = 20'000;
constexpr size_t kMostQueuedBytes = size_t{16} << 20;
// Of all clients that do not read, beyond what is small: answers, and events.
constexpr size_t kMostAnswerBytes = size_t{64} << 20;
constexpr size_t kMostEventBytes = size_t{64} << 20;

void Fill(const JobMember& from, v1::JobMember& to) {
  to.set_name(from.name);
  to.set_role(from.role);
  to.set_rank(from.rank);
  to.set_local_rank(from.local_rank);
  to.set_node(from.node);
  to.set_address(from.address);
  to.set_incarnation(from.incarnation);
  to.mutable_lanes()->Add(from.lanes.begin(), from.lanes.end());
  to.set_state(from.state);
  to.set_phase(from.phase);
  to.set_step(from.step);
}

void FillCounts(const JobInfo& from, v1::Job& to) {
  to.set_step(from.step);
  to.set_steps(from.steps);
  to.set_epoch(from.epoch);
  to.set_epochs(from.epochs);
  to.set_samples(from.samples);
  if (from.loss) to.set_loss(*from.loss);
  to.set_view(from.view);
  to.set_lineage(from.lineage);
  to.set_workers(from.workers);
  to.set_views(from.views);
  to.set_recoveries(from.recoveries);
  to.set_rewinds(from.rewinds);
  to.set_lanes_recomputed(from.lanes_recomputed);
  to.set_seconds(from.seconds);
}

void Fill(const JobInfo& from, v1::Job& to) {
  to.set_id(from.id);
  to.set_name(from.name);
  to.set_state(from.state);
  to.set_reason(from.reason);
  to.set_waits_for(from.waits_for);
  to.set_deleting(from.deleting);
  to.set_first_start(from.first_start);
  to.set_digest(from.digest);
  to.set_digest_step(from.digest_step);
  to.set_sample(from.sample);
  if (from.exit_code) to.set_exit_code(*from.exit_code);
  to.set_fingerprint(from.fingerprint);
  to.set_fingerprint_step(from.fingerprint_step);
  FillCounts(from, to);
  for (const JobMember& member : from.members) Fill(member, *to.add_members());
  if (from.checkpoint_step) to.set_checkpoint_step(*from.checkpoint_step);
  for (const CheckpointRef& checkpoint : from.checkpoints) {
    v1::CheckpointRef& added = *to.add_checkpoints();
    added.set_lineage(checkpoint.lineage);
    added.set_step(checkpoint.step);
  }
  *to.mutable_spec() = ToProto(*from.spec);
}

void Fill(const SubmittedJob& from, v1::SubmitResponse& to) {
  Fill(from.job, *to.mutable_job());
  to.set_created(from.created);
}

void Fill(const JobPage& from, v1::ListResponse& to) {
  for (const JobInfo& job : from.jobs) Fill(job, *to.add_jobs());
  to.set_next_page_token(from.next_page_token);
}

void Fill(const JobFingerprints& from, v1::FingerprintsResponse& to) {
  if (from.next) to.set_next(*from.next);
  for (const JobFingerprint& fingerprint : from.fingerprints) {
    v1::JobFingerprint& added = *to.add_fingerprints();
    added.set_step(fingerprint.step);
    added.set_lineage(fingerprint.lineage);
    added.set_value(fingerprint.value);
  }
}

void Fill(const JobAudit& from, v1::AuditResponse& to) {
  to.set_ok(from.ok);
  to.set_conclusion(from.conclusion);
  to.set_steps(from.steps);
  to.set_full_epochs(from.full_epochs);
  to.set_samples(from.samples);
  to.set_skipped_steps(from.skipped_steps);
  to.set_skipped_samples(from.skipped_samples);
  to.set_lanes(from.lanes);
  for (const JobAudit::Fork& fork : from.lineages) {
    v1::AuditResponse::Fork& added = *to.add_lineages();
    added.set_number(fork.number);
    added.set_parent(fork.parent);
    added.set_fork(fork.fork);
    added.set_cause(fork.cause);
  }
}

void Fill(const JobDigest& from, v1::DigestResponse& to) {
  to.set_lineage(from.lineage);
  to.set_step(from.step);
  to.set_digest(from.digest);
}

void Fill(const HostInfo& from, v1::Host& to) {
  to.set_name(from.name);
  to.set_node(from.node);
  to.set_slots(from.slots);
  to.set_used(from.used);
  to.set_free(from.free);
  to.set_up(from.up);
  to.set_away_for_seconds(from.away_for_seconds);
  to.set_draining(from.draining);
  for (const std::string& job : from.left_out_by) to.add_left_out_by(job);
  to.set_left_out(from.left_out);
  for (const HostMember& member : from.members) {
    v1::HostMember& added = *to.add_members();
    added.set_job(member.job);
    added.set_member(member.member);
    added.set_role(member.role);
    added.set_placement(member.placement);
    added.set_state(member.state);
  }
}

void Fill(const HostPage& from, v1::ListHostsResponse& to) {
  for (const HostInfo& host : from.hosts) Fill(host, *to.add_hosts());
  to.set_next_page_token(from.next_page_token);
}
void Fill(const LogTail& from, v1::LogsResponse& to) { to.set_text(from.text); }

v1::JobEvent ToProto(const JobEvent& from) {
  v1::JobEvent to;
  to.set_id(from.id);
  to.set_seq(from.seq);
  to.set_unix_ms(from.unix_ms);
  to.set_event(from.event);
  to.set_text(from.text);
  to.mutable_fields()->insert(from.fields.begin(), from.fields.end());
  return to;
}

// A request as it came. kResourceExhausted: it is too large, and is not parsed, as that may take
// many times its bytes.
template <class Request>
absl::StatusOr<Request> Read(const grpc::ByteBuffer& bytes) {
  if (bytes.Length() > kMostRequestBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the request has ", bytes.Length(), " bytes, and ", kMostRequestBytes,
                     " are all that it may have; name directories instead of many files"));
  }
  Request request;
  grpc::ByteBuffer taken = bytes;
  if (!grpc::SerializationTraits<Request>::Deserialize(&taken, &request).ok())
    return absl::InvalidArgumentError(absl::StrCat("the request is no ", request.GetTypeName()));
  return request;
}

template <class Message>
grpc::ByteBuffer Written(const Message& message) {
  grpc::ByteBuffer bytes;
  bool own = false;
  const grpc::Status status = grpc::SerializationTraits<Message>::Serialize(message, &bytes, &own);
  MUSTER_CHECK(status.ok(), "(a message of our own can be written)");
  return bytes;
}

// A call that another thread may cancel while gRPC has it.
class CallInGrpc {
 public:
  explicit CallInGrpc(grpc::CallbackServerContext* context) : context_(context) {}

  // gRPC calls nobody back on this thread, so none of its calls meets our lock.
  void Cancel() {
    const MutexLock lock(mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  void Done() {
    const MutexLock lock(mutex_);
    context_ = nullptr;
  }

 private:
  Mutex mutex_;
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);
};

// One call with one answer. gRPC is done with it when the answer has been taken, or the client is
// gone, or it has not taken the answer for too long.
class Call final : public grpc::ServerUnaryReactor {
 public:
  Call(grpc::CallbackServerContext* context, grpc::ByteBuffer* response, ByteCount answers,
       coordinator::Background& large_answers, LateWrites& late_writes)
      : context_(context),
        response_(response),
        answers_(std::move(answers)),
        large_answers_(large_answers),
        late_writes_(late_writes),
        in_grpc_(std::make_shared<CallInGrpc>(context)) {}

  // Takes room for an answer of about so many bytes, before it is made. False: there is none.
  bool Reserve(size_t bytes) {
    const MutexLock lock(mutex_);
    return FitAnswer(room_, answers_, bytes, kMostAnswerBytes);
  }
  coordinator::Background& large_answers() { return large_answers_; }

  // One of both, once.
  template <class Response>
  void Answer(const Response& response) {
    if (!Reserve(response.ByteSizeLong())) return Refuse(absl::UnavailableError(kNoRoomForAnswer));
    *response_ = Written(response);
    End(grpc::Status::OK);
  }
  void Refuse(const absl::Status& why) {
    {
      const MutexLock lock(mutex_);
      room_.reset();
    }
    const Refusal refusal = RefusalOf(why);
    if (!refusal.field.empty()) context_->AddTrailingMetadata(kFieldMetadata, refusal.field);
    End(refusal.status);
  }

  void OnDone() override {
    in_grpc_->Done();
    {
      const MutexLock lock(mutex_);  // as it may have been answered on another thread
      write_.reset();
      room_.reset();
    }
    delete this;
  }

 private:
  void End(const grpc::Status& status) {
    {
      const MutexLock lock(mutex_);
      write_ = late_writes_.Begin([call = in_grpc_] { call->Cancel(); });
    }
    Finish(status);
  }

  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  const ByteCount answers_;
  coordinator::Background& large_answers_;
  LateWrites& late_writes_;
  const std::shared_ptr<CallInGrpc> in_grpc_;
  Mutex mutex_;
  // Null: none is needed, or none was reserved.
  std::unique_ptr<ByteRoom> room_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<LateWrites::Write> write_ ABSL_GUARDED_BY(mutex_);  // null until it is answered
};

// One answer of the api becomes the end of one call. A large one has its room before it is made,
// and is made on another thread, as gRPC has few; what waits for that is bounded by the room.
template <class Response, class T>
JobApi::Reply<T> AnswerOf(Call* call) {
  const auto make = [call](const absl::StatusOr<T>& answer) {
    if (!answer.ok()) return call->Refuse(answer.status());
    Response response;
    Fill(*answer, response);
    call->Answer(response);
  };
  return [call, make](absl::StatusOr<T> answer) {
    const size_t bytes = answer.ok() ? coordinator::AboutBytesOf(*answer) : 0;
    if (bytes <= kSmallAnswerBytes) return make(answer);
    if (!call->Reserve(bytes)) return call->Refuse(absl::UnavailableError(kNoRoomForAnswer));
    const auto once = coordinator::Once<T>(make);
    call->large_answers().Run(
        [once, answer = std::move(answer)](const std::stop_token&) { once(answer); });
  };
}

// `ask` is given the request, and the call, which it answers once.
template <class Request, class Asking>
Call* Begin(Call* call, const grpc::ByteBuffer& request, const Asking& ask) {
  const absl::StatusOr<Request> asked = Read<Request>(request);
  if (asked.ok()) {
    ask(*asked, call);
  } else {
    call->Refuse(asked.status());
  }
  return call;
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
  explicit WatcherEnd(std::shared_ptr<Watcher> watcher) : watcher_(std::move(watcher)) {}
  ~WatcherEnd() override { watcher_->Close(); }
  bool OnEvent(const JobEvent& event) override { return watcher_->Add(event); }
  bool closed() const override { return watcher_->ended(); }

 private:
  const std::shared_ptr<Watcher> watcher_;
};

// All methods take the bytes as they came, and look at their number first.
template <class Base, template <class> class... Methods>
struct Stacked {
  using Type = Base;
};
template <class Base, template <class> class First, template <class> class... Others>
struct Stacked<Base, First, Others...> {
  using Type = First<typename Stacked<Base, Others...>::Type>;
};
using J = v1::Jobs;
using RawJobs = Stacked<J::Service, J::WithRawCallbackMethod_Submit, J::WithRawCallbackMethod_Get,
                        J::WithRawCallbackMethod_List, J::WithRawCallbackMethod_Cancel,
                        J::WithRawCallbackMethod_Stop, J::WithRawCallbackMethod_Delete,
                        J::WithRawCallbackMethod_Watch, J::WithRawCallbackMethod_Fingerprints,
                        J::WithRawCallbackMethod_Audit, J::WithRawCallbackMethod_Digest,
                        J::WithRawCallbackMethod_Scale, J::WithRawCallbackMethod_Logs>::Type;

class JobsService final : public RawJobs {
 public:
  JobsService(JobApi& api, const Clock& clock, coordinator::Background& large_answers,
              JobsWaiting waiting)
      : api_(api),
        large_answers_(large_answers),
        waiting_(std::move(waiting)),
        late_writes_(clock, waiting_.writes) {}

 private:
  using Bytes = grpc::ByteBuffer;
  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;

  Unary* Submit(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::SubmitRequest& asked, Call* call) {
      absl::StatusOr<JobSpec> spec = FromProto(asked.spec());
      if (!spec.ok()) return call->Refuse(spec.status());
      api_.Submit(asked.id(), *std::move(spec), AnswerOf<v1::SubmitResponse, SubmittedJob>(call));
    };
    return Ask<v1::SubmitRequest>(context, request, response, ask);
  }
  Unary* Get(Context* context, const Bytes* request, Bytes* response) override {
    return AskOfJob<v1::Job>(context, request, response, &JobApi::Get);
  }
  Unary* List(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::ListRequest& asked, Call* call) {
      api_.List({asked.limit(), asked.page_token(), asked.state()},
                AnswerOf<v1::ListResponse, JobPage>(call));
    };
    return Ask<v1::ListRequest>(context, request, response, ask);
  }
  Unary* Cancel(Context* context, const Bytes* request, Bytes* response) override {
    return AskOfJob<v1::Job>(context, request, response, &JobApi::Cancel);
  }
  Unary* Delete(Context* context, const Bytes* request, Bytes* response) override {
    return AskOfJob<v1::Job>(context, request, response, &JobApi::Delete);
  }
  Unary* Stop(Context* context, const Bytes* request, Bytes* response) override {
    return AskOfJob<v1::Job>(context, request, response, &JobApi::Stop);
  }
  Unary* Scale(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::ScaleRequest& asked, Call* call) {
      api_.Scale(asked.id(), asked.workers_min(), asked.workers_max(),
                 AnswerOf<v1::Job, JobInfo>(call));
    };
    return Ask<v1::ScaleRequest>(context, request, response, ask);
  }
  Unary* Fingerprints(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::FingerprintsRequest& asked, Call* call) {
      api_.Fingerprints(asked.id(), asked.from(),
                        AnswerOf<v1::FingerprintsResponse, JobFingerprints>(call));
    };
    return Ask<v1::FingerprintsRequest>(context, request, response, ask);
  }
  Unary* Audit(Context* context, const Bytes* request, Bytes* response) override {
    return AskOfJob<v1::AuditResponse>(context, request, response, &JobApi::Audit);
  }
  Unary* Digest(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::DigestRequest& asked, Call* call) {
      const std::optional<int64_t> step =
          asked.has_step() ? std::optional(asked.step()) : std::nullopt;
      api_.Digest(asked.id(), step, AnswerOf<v1::DigestResponse, JobDigest>(call));
    };
    return Ask<v1::DigestRequest>(context, request, response, ask);
  }
  Unary* Logs(Context* context, const Bytes* request, Bytes* response) override {
    const auto ask = [this](const v1::LogsRequest& asked, Call* call) {
      api_.Logs(asked.id(), {asked.member(), asked.tail()},
                AnswerOf<v1::LogsResponse, LogTail>(call));
    };
    return Ask<v1::LogsRequest>(context, request, response, ask);
  }
  grpc::ServerWriteReactor<Bytes>* Watch(Context* context, const Bytes* request) override {
    const std::shared_ptr<Watcher> watcher = Watcher::Make(context, waiting_.events, late_writes_);
    const absl::StatusOr<v1::WatchRequest> asked = Read<v1::WatchRequest>(*request);
    if (!asked.ok()) {
      watcher->End(RefusalOf(asked.status()).status);
      return watcher.get();
    }
    const std::optional<EventPlace> after = ParseEventPlace(asked->after());
    if (!after && !asked->after().empty()) {
      const Refusal refusal = RefusalOf(FieldError("", "after", kEventPlaceForm));
      context->AddTrailingMetadata(kFieldMetadata, refusal.field);
      watcher->End(refusal.status);
      return watcher.get();
    }
    api_.Watch(
        asked->id(), after,
        [watcher](const absl::StatusOr<bool>& found) {
          if (!found.ok()) return watcher->End(RefusalOf(found.status()).status);
          watcher->Begin();
        },
        std::make_shared<WatcherEnd>(watcher));
    return watcher.get();
  }

  template <class Request, class Asking>
  Unary* Ask(Context* context, const Bytes* request, Bytes* response, const Asking& ask) {
    return Begin<Request>(
        new Call(context, response, waiting_.answers, large_answers_, late_writes_), *request, ask);
  }
  template <class Response, class T>
  Unary* AskOfJob(Context* context, const Bytes* request, Bytes* response,
                  void (JobApi::*ask)(const std::string&, JobApi::Reply<T>)) {
    const auto ask_job = [this, ask](const v1::JobRequest& asked, Call* call) {
      (api_.*ask)(asked.id(), AnswerOf<Response, T>(call));
    };
    return Ask<v1::JobRequest>(context, request, response, ask_job);
  }

  JobApi& api_;
  coordinator::Background& large_answers_;
  const JobsWaiting waiting_;
  LateWrites late_writes_;
};

using H = v1::Hosts;
using RawHosts = Stacked<H::Service, H::WithRawCallbackMethod_List, H::WithRawCallbackMethod_Get,
                         H::WithRawCallbackMethod_Drain, H::WithRawCallbackMethod_Undrain>::Type;

class HostsService final : public RawHosts {
 public:
  HostsService(HostApi& api, const Clock& clock, coordinator::Background& large_answers,
               JobsWaiting waiting)
      : api_(api),
        large_answers_(large_answers),
        waiting_(std::move(waiting)),
        late_writes_(clock, waiting_.writes) {}

 private:
  using Bytes = grpc::ByteBuffer;
  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;

  Unary* List(Context* context, const Bytes* request, Bytes* response) override {
    return Ask<v1::ListHostsRequest>(context, request, response,
                                     [this](const v1::ListHostsRequest& asked, Call* call) {
                                       api_.List({asked.limit(), asked.page_token()},
                                                 AnswerOf<v1::ListHostsResponse, HostPage>(call));
                                     });
  }
  Unary* Get(Context* context, const Bytes* request, Bytes* response) override {
    return Ask<v1::HostRequest>(context, request, response,
                                [this](const v1::HostRequest& asked, Call* call) {
                                  api_.Get(asked.name(), AnswerOf<v1::Host, HostInfo>(call));
                                });
  }
  Unary* Drain(Context* context, const Bytes* request, Bytes* response) override {
    return Drain(context, request, response, true);
  }
  Unary* Undrain(Context* context, const Bytes* request, Bytes* response) override {
    return Drain(context, request, response, false);
  }

  Unary* Drain(Context* context, const Bytes* request, Bytes* response, bool on) {
    return Ask<v1::HostRequest>(context, request, response,
                                [this, on](const v1::HostRequest& asked, Call* call) {
                                  api_.Drain(asked.name(), on, AnswerOf<v1::Host, HostInfo>(call));
                                });
  }
  template <class Request, class Asking>
  Unary* Ask(Context* context, const Bytes* request, Bytes* response, const Asking& ask) {
    return Begin<Request>(
        new Call(context, response, waiting_.answers, large_answers_, late_writes_), *request, ask);
  }

  HostApi& api_;
  coordinator::Background& large_answers_;
  const JobsWaiting waiting_;
  LateWrites late_writes_;
};

}  // namespace

std::shared_ptr<grpc::Service> MakeHostsService(HostApi& api, const Clock& clock,
                                                coordinator::Background& large_answers,
                                                const JobsWaiting& waiting) {
  return std::make_shared<HostsService>(api, clock, large_answers, waiting);
}

std::shared_ptr<grpc::Service> MakeJobsService(JobApi& api, const Clock& clock,
                                               coordinator::Background& large_answers,
                                               const JobsWaiting& waiting) {
  return std::make_shared<JobsService>(api, clock, large_answers, waiting);
}

}  // namespace muster
