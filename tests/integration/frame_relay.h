// A wire between two TAP devices that has weather: a thread of its own reads whole Ethernet frames
// of each and gives them to the other. It stands in for netem, which kernels may lack.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "lib/base/descriptor.h"
#include "lib/base/mutex.h"
#include "tests/integration/frame_queue.h"

namespace muster::integration {

class FrameRelay {
 public:
  FrameRelay(Descriptor one, Descriptor other, uint64_t seed);
  FrameRelay(const FrameRelay&) = delete;
  FrameRelay& operator=(const FrameRelay&) = delete;
  ~FrameRelay();

  void SetWeather(const Weather& weather);
  Fates fates() const;  // of both directions

 private:
  void Run(uint64_t seed);
  Weather weather() const;

  const Descriptor one_, other_, stop_;
  mutable Mutex mutex_;
  Weather weather_ ABSL_GUARDED_BY(mutex_);
  Fates fates_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses what is above
};

}  // namespace muster::integration
