#include "tests/integration/frame_relay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string>
#include <utility>

#include "lib/base/clock.h"

namespace muster::integration {
namespace {

void ReadAll(int tap, FrameQueue& queue, const Weather& weather) {
  std::array<char, 1 << 16> frame;
  for (ssize_t n = 0; (n = read(tap, frame.data(), frame.size())) > 0;)
    queue.Admit(std::string(frame.data(), static_cast<size_t>(n)), weather, RealClock().Now());
}

// A device that is down takes nothing: that is what a network does.
void WriteDue(int tap, FrameQueue& queue) {
  while (const auto frame = queue.Take(RealClock().Now()))
    [[maybe_unused]] const ssize_t n = write(tap, frame->data(), frame->size());
}

Fates Sum(const Fates& a, const Fates& b) {
  return {a.admitted + b.admitted, a.overtook + b.overtook, a.duplicated + b.duplicated,
          a.corrupted + b.corrupted, a.dropped + b.dropped};
}

}  // namespace

FrameRelay::FrameRelay(Descriptor one, Descriptor other, uint64_t seed)
    : one_(std::move(one)),
      other_(std::move(other)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      thread_([this, seed] { Run(seed); }) {}

FrameRelay::~FrameRelay() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void FrameRelay::SetWeather(const Weather& weather) {
  MutexLock lock(mutex_);
  weather_ = weather;
}

Weather FrameRelay::weather() const {
  MutexLock lock(mutex_);
  return weather_;
}

Fates FrameRelay::fates() const {
  MutexLock lock(mutex_);
  return fates_;
}

void FrameRelay::Run(uint64_t seed) {
  FrameQueue there(2 * seed), back(2 * seed + 1);
  std::array<pollfd, 3> wait = {{{.fd = one_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = other_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = stop_.get(), .events = POLLIN, .revents = 0}}};
  while (wait[2].revents == 0) {
    const auto due =
        std::min(there.NextDue().value_or(Time::max()), back.NextDue().value_or(Time::max()));
    const auto left = std::max(Duration(0), due - RealClock().Now());
    const timespec until{.tv_sec = static_cast<time_t>(left / std::chrono::seconds(1)),
                         .tv_nsec = static_cast<long>((left % std::chrono::seconds(1)).count())};
    ppoll(wait.data(), wait.size(), due == Time::max() ? nullptr : &until, nullptr);
    const Weather now = weather();
    ReadAll(one_.get(), there, now);
    ReadAll(other_.get(), back, now);
    WriteDue(other_.get(), there);
    WriteDue(one_.get(), back);
    MutexLock lock(mutex_);
    fates_ = Sum(there.fates(), back.fates());
  }
}

}  // namespace muster::integration
