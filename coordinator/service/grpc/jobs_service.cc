#include "coordinator/service/grpc/jobs_service.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/byte_room.h"
#include "lib/base/mutex.h"
#include "lib/base/printable.h"
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
  *to.mutable_spec() = ToProto(from.spec);
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

// absl's codes are gRPC's.
grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), Cut(PrintableLines(status.message()))};
}

// One call with one answer. gRPC is done with it when the answer has been taken, or the client is
// gone.
class Call final : public grpc::ServerUnaryReactor {
 public:
  explicit Call(ByteCount answers) : answers_(std::move(answers)) {}
  void OnDone() override { delete this; }

  // False: the answers that are on their way leave it no room.
  bool HasRoomFor(size_t bytes) {
    if (bytes <= kSmallAnswerBytes) return true;
    room_ = ByteRoom::Take(answers_, bytes, kMostAnswerBytes);
    return room_ != nullptr;
  }

 private:
  const ByteCount answers_;
  std::unique_ptr<ByteRoom> room_;
};

// One answer of the api becomes the end of one call.
template <class T, class Response>
JobApi::Reply<T> Finishing(grpc::CallbackServerContext* context, Call* call, Response* response) {
  return [context, call, response](absl::StatusOr<T> answer) {
    if (answer.ok()) {
      Fill(*answer, *response);
      if (!call->HasRoomFor(response->ByteSizeLong())) {
        response->Clear();
        answer = absl::UnavailableError(
            "too many large answers are on their way to others; ask again in a second, or for "
            "less at once");
      }
    } else if (const std::string field = FieldOf(answer.status()); !field.empty()) {
      context->AddTrailingMetadata(kFieldMetadata, AsciiText(field));
    }
    call->Finish(ToGrpc(answer.status()));
  };
}

// One client that watches. Lives until gRPC is done with it and nobody has events for it.
class Watcher final : public grpc::ServerWriteReactor<v1::JobEvent> {
 public:
  static std::shared_ptr<Watcher> Make(ByteCount events) {
    std::shared_ptr<Watcher> watcher(new Watcher(std::move(events)));
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
        end_ =
            grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                         "the events are read too slowly; come again with the id of the last one");
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

  // The job is there: its events follow.
  void Begin() {
    MutexLock lock(mutex_);
    begun_ = true;
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

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      busy_ = false;
    }
    if (!ok) End(grpc::Status(grpc::StatusCode::CANCELLED, "the client is gone"));
    Advance();
  }
  void OnCancel() override { End(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled")); }
  void OnDone() override { const std::shared_ptr<Watcher> last = std::move(self_); }

 private:
  explicit Watcher(ByteCount events) : events_(std::move(events)) {}

  // Starts what is next, if nothing is under way: a write, or the end.
  void Advance() {
    std::optional<grpc::Status> end;
    {
      MutexLock lock(mutex_);
      if (busy_ || finished_ || (queue_.empty() && !end_)) return;
      if (queue_.empty()) {
        finished_ = true;
        end = end_;
      } else {
        busy_ = true;
        writing_ = std::move(queue_.front().event);
        queued_bytes_ -= queue_.front().bytes;
        queue_.pop_front();
      }
    }
    if (end) return Finish(*end);
    StartWrite(&writing_);
  }

  std::shared_ptr<Watcher> self_;  // until OnDone
  v1::JobEvent writing_;           // gRPC's while busy_
  const ByteCount events_;         // that wait, of all watchers
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
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;  // a write is under way
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

class JobsService final : public v1::Jobs::CallbackService {
 public:
  explicit JobsService(JobApi& api) : api_(api) {}

 private:
  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;

  Unary* Submit(Context* context, const v1::SubmitRequest* request,
                v1::SubmitResponse* response) override {
    Call* call = new Call(answers_);
    const auto reply = Finishing<SubmittedJob>(context, call, response);
    absl::StatusOr<JobSpec> spec = FromProto(request->spec());
    if (spec.ok()) {
      api_.Submit(request->id(), *std::move(spec), reply);
    } else {
      reply(spec.status());
    }
    return call;
  }
  Unary* Get(Context* context, const v1::JobRequest* request, v1::Job* response) override {
    return Ask<JobInfo>(context, request, response, &JobApi::Get);
  }
  Unary* List(Context* context, const v1::ListRequest* request,
              v1::ListResponse* response) override {
    Call* call = new Call(answers_);
    api_.List({request->limit(), request->page_token(), request->state()},
              Finishing<JobPage>(context, call, response));
    return call;
  }
  Unary* Cancel(Context* context, const v1::JobRequest* request, v1::Job* response) override {
    return Ask<JobInfo>(context, request, response, &JobApi::Cancel);
  }
  Unary* Delete(Context* context, const v1::JobRequest* request, v1::Job* response) override {
    return Ask<JobInfo>(context, request, response, &JobApi::Delete);
  }
  Unary* Stop(Context* context, const v1::JobRequest* request, v1::Job* response) override {
    return Ask<JobInfo>(context, request, response, &JobApi::Stop);
  }
  Unary* Fingerprints(Context* context, const v1::FingerprintsRequest* request,
                      v1::FingerprintsResponse* response) override {
    Call* call = new Call(answers_);
    api_.Fingerprints(request->id(), request->from(),
                      Finishing<JobFingerprints>(context, call, response));
    return call;
  }
  Unary* Audit(Context* context, const v1::JobRequest* request,
               v1::AuditResponse* response) override {
    return Ask<JobAudit>(context, request, response, &JobApi::Audit);
  }
  Unary* Digest(Context* context, const v1::DigestRequest* request,
                v1::DigestResponse* response) override {
    Call* call = new Call(answers_);
    const std::optional<int64_t> step =
        request->has_step() ? std::optional(request->step()) : std::nullopt;
    api_.Digest(request->id(), step, Finishing<JobDigest>(context, call, response));
    return call;
  }
  grpc::ServerWriteReactor<v1::JobEvent>* Watch(Context* context,
                                                const v1::WatchRequest* request) override {
    const std::shared_ptr<Watcher> watcher = Watcher::Make(events_);
    const std::optional<EventPlace> after = ParseEventPlace(request->after());
    if (!after && !request->after().empty()) {
      context->AddTrailingMetadata(kFieldMetadata, "after");
      watcher->End(ToGrpc(FieldError("", "after", kEventPlaceForm)));
      return watcher.get();
    }
    api_.Watch(
        request->id(), after,
        [watcher](const absl::StatusOr<bool>& found) {
          if (!found.ok()) return watcher->End(ToGrpc(found.status()));
          watcher->Begin();
        },
        std::make_shared<WatcherEnd>(watcher));
    return watcher.get();
  }

  template <class T, class Response>
  Unary* Ask(Context* context, const v1::JobRequest* request, Response* response,
             void (JobApi::*ask)(const std::string&, JobApi::Reply<T>)) {
    Call* call = new Call(answers_);
    (api_.*ask)(request->id(), Finishing<T>(context, call, response));
    return call;
  }

  JobApi& api_;
  const ByteCount answers_ = std::make_shared<std::atomic<size_t>>(0);
  const ByteCount events_ = std::make_shared<std::atomic<size_t>>(0);
};

}  // namespace

std::shared_ptr<grpc::Service> MakeJobsService(JobApi& api) {
  return std::make_shared<JobsService>(api);
}

}  // namespace muster
