#include "coordinator/service/grpc/late_writes.h"

#include <chrono>
#include <utility>

namespace muster {
namespace {

constexpr Duration kLookEvery = std::chrono::milliseconds(250);

}  // namespace

uint64_t WritesUnderWay::Begin(Time now, Cut cut) {
  const MutexLock lock(mutex_);
  writes_.emplace(++last_, Write{now, std::move(cut)});
  return last_;
}

void WritesUnderWay::End(uint64_t write) {
  const MutexLock lock(mutex_);
  writes_.erase(write);
}

std::vector<WritesUnderWay::Cut> WritesUnderWay::TakeLate(Time now) {
  std::vector<Cut> late;
  const MutexLock lock(mutex_);
  while (!writes_.empty() && now - writes_.begin()->second.begun >= kMostWriteTime) {
    late.push_back(std::move(writes_.begin()->second.cut));
    writes_.erase(writes_.begin());
  }
  return late;
}

bool WritesUnderWay::empty() const {
  const MutexLock lock(mutex_);
  return writes_.empty();
}

LateWrites::LateWrites(const Clock& clock, std::shared_ptr<WritesUnderWay> writes)
    : clock_(clock), writes_(std::move(writes)), thread_([this] { Run(); }) {}

LateWrites::~LateWrites() {
  stop_.Stop();
  thread_.join();
}

std::unique_ptr<LateWrites::Write> LateWrites::Begin(WritesUnderWay::Cut cut) {
  return std::make_unique<Write>(writes_, writes_->Begin(clock_.Now(), std::move(cut)));
}

void LateWrites::Run() {
  while (!stop_.WaitFor(kLookEvery))
    for (const WritesUnderWay::Cut& cut : writes_->TakeLate(clock_.Now())) cut();
}

}  // namespace muster
