#include "tests/integration/frame_queue.h"

#include <algorithm>
#include <utility>

namespace muster::integration {
namespace {

constexpr size_t kEthernetHeader = 14;

bool CarriesTcp(const std::string& frame) {
  constexpr size_t kProtocol = kEthernetHeader + 9;
  return frame.size() > kProtocol && frame[12] == 0x08 && frame[13] == 0x00 &&
         frame[kProtocol] == 6;
}

}  // namespace

bool FrameQueue::Happens(double probability) {
  return probability > 0 && std::uniform_real_distribution<double>(0, 1)(random_) < probability;
}

void FrameQueue::Keep(std::string frame, Time due) {
  bytes_ += frame.size();
  waiting_.emplace(due, std::move(frame));
}

void FrameQueue::Admit(std::string frame, const Weather& weather, Time now) {
  if (bytes_ + 2 * frame.size() > kMostBytes) {  // as a switch does
    ++fates_.dropped;
    return;
  }
  ++fates_.admitted;
  // Another byte anywhere behind the Ethernet header makes the checksum of IP or TCP wrong for
  // certain, because both are sums of 16 bits. So the kernel drops the packet, and it is sent
  // again. What a checksum overlooks is two changes that cancel each other: what is above TCP is
  // tested with those in its own rooms. ARP has no checksum, so a wrong byte would send a host's
  // packets astray for a minute, which is another fault.
  if (CarriesTcp(frame) && Happens(weather.corrupt)) {
    const size_t at =
        std::uniform_int_distribution<size_t>(kEthernetHeader, frame.size() - 1)(random_);
    frame[at] = static_cast<char>(frame[at] ^ std::uniform_int_distribution<int>(1, 255)(random_));
    ++fates_.corrupted;
  }
  Time due = now;
  if (!waiting_.empty() && Happens(weather.overtake)) {
    ++fates_.overtook;
  } else {
    const auto jitter = weather.jitter.count();
    due += weather.delay +
           Duration(std::uniform_int_distribution<Duration::rep>(-jitter, jitter)(random_));
    due = last_due_ = std::max({due, now, last_due_});
  }
  if (Happens(weather.duplicate)) {
    ++fates_.duplicated;
    Keep(frame, due);
  }
  Keep(std::move(frame), due);
}

std::optional<Time> FrameQueue::NextDue() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->first;
}

std::optional<std::string> FrameQueue::Take(Time now) {
  if (waiting_.empty() || waiting_.begin()->first > now) return std::nullopt;
  std::string frame = std::move(waiting_.begin()->second);
  waiting_.erase(waiting_.begin());
  bytes_ -= frame.size();
  return frame;
}

}  // namespace muster::integration
