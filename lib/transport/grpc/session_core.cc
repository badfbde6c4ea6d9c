#include "lib/transport/grpc/session_core.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "lib/transport/grpc/frame_codec.h"

namespace muster {
namespace {

// How long telling the peer our reason may take when a caller waits for it.
constexpr std::chrono::seconds kPoliteEnd{1};

}  // namespace

bool SessionRegistry::Add(std::shared_ptr<SessionCore> core) {
  MutexLock lock(mutex_);
  if (!closed_) cores_.insert(std::move(core));
  return !closed_;
}

void SessionRegistry::Remove(const std::shared_ptr<SessionCore>& core) {
  MutexLock lock(mutex_);
  cores_.erase(core);
  if (cores_.empty()) empty_.NotifyAll();
}

size_t SessionRegistry::size() const {
  MutexLock lock(mutex_);
  return cores_.size();
}

void SessionRegistry::CloseAll(const absl::Status& why) {
  std::set<std::shared_ptr<SessionCore>> cores;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    cores = cores_;
  }
  for (const auto& core : cores) core->Abort(why);
}

void SessionRegistry::AwaitEmpty() {
  MutexLock lock(mutex_);
  while (!cores_.empty()) empty_.Wait(mutex_);
}

SessionCore::SessionCore(std::shared_ptr<SessionRegistry> registry, std::string peer)
    : registry_(std::move(registry)),
      peer_(std::move(peer)),
      read_operation_(this, [this](bool ok) { OnRead(ok); }),
      write_operation_(this, [this](bool ok) { OnWritten(ok); }),
      finish_operation_(this, [](bool) {}),
      room_(std::make_shared<InboundRoom>([this] {
        // A read that waits is outstanding, so this is still registered and alive.
        const std::shared_ptr<SessionCore> alive = shared_from_this();
        StartRead(&incoming_, &read_operation_);
      })) {}

void SessionCore::Operation::Done(bool ok) {
  const std::shared_ptr<SessionCore> alive = core_->shared_from_this();
  member_(ok);
  alive->OperationDone();
}

void SessionCore::Send(Frame frame) {
  frame.receipt.reset();
  const absl::Status fits = CheckFrameLimits(frame.HeaderToSend().size(), frame.payload.size());
  if (!fits.ok()) return Close(Prefix("Send", fits));
  {
    MutexLock lock(mutex_);
    if (phase_ == Phase::kBroken) return;
    queued_bytes_ += BytesOf(frame);
    queue_.push_back(std::move(frame));
  }
  WriteNext();
}

void SessionCore::BreakLocked(const absl::Status& why, std::deque<Frame>& dropped) {
  if (phase_ == Phase::kBroken) return;
  phase_ = Phase::kBroken;
  why_ = why;
  dropped.swap(queue_);
  queued_bytes_ = writing_bytes_;
}

void SessionCore::Close(const absl::Status& given) {
  const absl::Status why = given.ok() ? absl::CancelledError("closed") : given;
  std::deque<Frame> dropped;
  bool speak = false;
  {
    MutexLock lock(mutex_);
    if (phase_ == Phase::kBroken) return;
    speak = FinishSpeaks() && phase_ == Phase::kOpen && !writing_;
    if (speak) {
      finishing_ = true;
      ++pending_;
    }
    BreakLocked(why, dropped);
  }
  if (speak) {
    StartFinish(why, &finish_operation_);
  } else {
    Cancel();
  }
  room_->Close();
}

void SessionCore::Abort(const absl::Status& why) {
  std::deque<Frame> dropped;
  {
    MutexLock lock(mutex_);
    BreakLocked(why, dropped);
  }
  Cancel();
  room_->Close();
}

bool SessionCore::BreakUnopened(const absl::Status& why) {
  std::deque<Frame> dropped;
  MutexLock lock(mutex_);
  if (phase_ != Phase::kOpening) return false;
  BreakLocked(why, dropped);
  return true;
}

void SessionCore::CloseAndAwaitEnd(const absl::Status& why) {
  Close(why);
  if (CompletionThread::Inside()) return;
  MutexLock lock(mutex_);
  const Time patience = RealClock().Now() + kPoliteEnd;
  while (!end_reached_ && ended_.WaitUntil(mutex_, patience)) {
  }
  if (end_reached_) return;
  lock.Unlock();
  Abort(why);
  lock.Relock();
  while (!end_reached_) ended_.Wait(mutex_);
}

size_t SessionCore::QueuedBytes() const {
  MutexLock lock(mutex_);
  return queued_bytes_;
}

void SessionCore::CountOperation() {
  MutexLock lock(mutex_);
  ++pending_;
}

void SessionCore::Opened(bool ok) {
  if (!ok) return ReadsEnded();
  {
    MutexLock lock(mutex_);
    if (phase_ == Phase::kOpening) phase_ = Phase::kOpen;
  }
  ReadNext();
  WriteNext();
}

// A read that waits for room is outstanding like one in flight: the session does not end before it.
void SessionCore::ReadNext() {
  CountOperation();
  if (room_->MayReadOn()) StartRead(&incoming_, &read_operation_);
}

void SessionCore::OnRead(bool ok) {
  if (!ok) return ReadsEnded();
  Deliver(std::exchange(incoming_, grpc::ByteBuffer()));
  ReadNext();
}

void SessionCore::Deliver(const grpc::ByteBuffer& message) {
  {
    MutexLock lock(mutex_);
    if (phase_ == Phase::kBroken) return;
  }
  absl::StatusOr<Frame> frame = DecodeFrame(message);
  if (frame.ok()) {
    const absl::Status fits = room_->CheckFirst(BytesOf(*frame));
    if (!fits.ok()) frame = fits;
  }
  TransportCounters& counters = *registry_->counters;
  if (!frame.ok()) {
    const absl::Status why = Prefix(absl::StrCat("frame from ", peer_), frame.status());
    ++counters.frames_refused;
    if (registry_->refused) registry_->refused(why.ToString());
    return Close(why);
  }
  const size_t bytes = BytesOf(*frame);
  counters.bytes_received += bytes;
  frame->receipt = room_->Hold(bytes);
  handler_.on_frame(*std::move(frame));
}

void SessionCore::WriteNext() {
  Frame frame;
  {
    MutexLock lock(mutex_);
    if (phase_ != Phase::kOpen || writing_ || queue_.empty()) return;
    frame = std::move(queue_.front());
    queue_.pop_front();
    writing_bytes_ = BytesOf(frame);
    writing_ = true;
    ++pending_;
  }
  StartWrite(EncodeFrame(frame), &write_operation_);
}

void SessionCore::OnWritten(bool ok) {
  bool finish = false;
  TransportCounters& counters = *registry_->counters;
  {
    MutexLock lock(mutex_);
    if (ok) counters.bytes_sent += writing_bytes_;
    queued_bytes_ -= writing_bytes_;
    writing_bytes_ = 0;
    writing_ = false;
    finish = reads_ended_ && !finishing_;
    if (finish) {
      finishing_ = true;
      ++pending_;
    }
  }
  if (finish) return StartFinish(absl::OkStatus(), &finish_operation_);
  WriteNext();
}

void SessionCore::ReadsEnded() {
  std::deque<Frame> dropped;
  bool finish = false;
  bool cancel = false;
  {
    MutexLock lock(mutex_);
    BreakLocked(absl::OkStatus(), dropped);
    reads_ended_ = true;
    cancel = FinishSpeaks() && writing_;
    finish = !finishing_ && !cancel;
    if (finish) {
      finishing_ = true;
      ++pending_;
    }
  }
  if (finish) {
    StartFinish(absl::OkStatus(), &finish_operation_);
  } else if (cancel) {
    Cancel();  // so that the write in flight does not wait for a peer that left
  }
}

void SessionCore::OperationDone() {
  {
    MutexLock lock(mutex_);
    if (--pending_ > 0) return;
  }
  End();
}

void SessionCore::End() {
  absl::Status why;
  {
    MutexLock lock(mutex_);
    why = why_;
  }
  Release();
  handler_.on_broken(why.ok() ? PeerReason() : why);
  handler_ = {};
  {
    MutexLock lock(mutex_);
    end_reached_ = true;
  }
  ended_.NotifyAll();
  registry_->Remove(shared_from_this());
}

}  // namespace muster
