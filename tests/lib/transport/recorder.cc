#include "tests/lib/transport/recorder.h"

#include <utility>

namespace muster {

SessionHandler Recorder::Handler(InboundLimits inbound) {
  auto self = shared_from_this();
  return {[self](Frame frame) { self->OnFrame(std::move(frame)); },
          [self](absl::Status why) { self->OnBroken(std::move(why)); }, inbound};
}

void Recorder::HoldReceipts() {
  MutexLock lock(mutex_);
  holds_ = true;
}

size_t Recorder::frame_count() const {
  MutexLock lock(mutex_);
  return frame_count_;
}

void Recorder::OnFrame(Frame frame) {
  MutexLock lock(mutex_);
  if (broken_calls_ > 0) ++calls_after_broken_;
  if (!holds_) frame.receipt.reset();
  frames_.push_back(std::move(frame));
  ++frame_count_;
  changed_.NotifyAll();
}

void Recorder::OnBroken(absl::Status why) {
  MutexLock lock(mutex_);
  ++broken_calls_;
  broken_ = std::move(why);
  changed_.NotifyAll();
}

bool Recorder::AwaitFrames(size_t count) {
  MutexLock lock(mutex_);
  const Time until = PatienceEnds();
  while (frame_count_ < count && broken_calls_ == 0 && changed_.WaitUntil(mutex_, until)) {
  }
  return frame_count_ >= count;
}

bool Recorder::AwaitBroken() {
  MutexLock lock(mutex_);
  const Time until = PatienceEnds();
  while (broken_calls_ == 0 && changed_.WaitUntil(mutex_, until)) {
  }
  return broken_calls_ > 0;
}

std::vector<Frame> Recorder::TakeFrames() {
  MutexLock lock(mutex_);
  return std::exchange(frames_, {});
}

absl::Status Recorder::broken() const {
  MutexLock lock(mutex_);
  return broken_;
}

int Recorder::broken_calls() const {
  MutexLock lock(mutex_);
  return broken_calls_;
}

int Recorder::calls_after_broken() const {
  MutexLock lock(mutex_);
  return calls_after_broken_;
}

Acceptor Lobby::acceptor() {
  return [this](std::shared_ptr<Session> session) {
    auto recorder = std::make_shared<Recorder>();
    MutexLock lock(mutex_);
    accepted_.push_back({std::move(session), recorder});
    changed_.NotifyAll();
    return recorder->Handler();
  };
}

std::optional<Accepted> Lobby::Await(size_t index) {
  MutexLock lock(mutex_);
  const Time until = PatienceEnds();
  while (accepted_.size() <= index && changed_.WaitUntil(mutex_, until)) {
  }
  if (accepted_.size() <= index) return std::nullopt;
  return accepted_[index];
}

size_t Lobby::size() {
  const MutexLock lock(mutex_);
  return accepted_.size();
}

Frame HeaderFrame(const std::string& header) { return {header, {}}; }

std::string Pattern(uint32_t seed, size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<char>(seed >> 24);
  }
  return bytes;
}

Frame PatternFrame(const std::string& header, uint32_t seed, size_t size, size_t cut) {
  auto bytes = std::make_shared<const std::string>(Pattern(seed, size));
  const absl::Span<const std::byte> all(reinterpret_cast<const std::byte*>(bytes->data()), size);
  Frame frame{header, {}};
  for (size_t at = 0; at < size; at += cut) {
    frame.payload.slices.push_back(all.subspan(at, cut));
    frame.payload.slices.push_back({});
  }
  frame.payload.keep = std::move(bytes);
  return frame;
}

std::string Flatten(const Payload& payload) {
  std::string bytes;
  for (const auto& slice : payload.slices) {
    bytes.append(reinterpret_cast<const char*>(slice.data()), slice.size());
  }
  return bytes;
}

Frame WatchedFrame(const std::shared_ptr<Signal>& released, size_t size) {
  auto* bytes = new std::string(size, 'x');
  std::shared_ptr<const void> keep(bytes, [released](const std::string* held) {
    delete held;
    released->Raise();
  });
  Frame frame{"watched", {}};
  frame.payload.slices.push_back({reinterpret_cast<const std::byte*>(bytes->data()), size});
  frame.payload.keep = std::move(keep);
  return frame;
}

}  // namespace muster
