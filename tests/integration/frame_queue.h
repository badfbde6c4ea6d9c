// What bad weather does to the Ethernet frames of one direction: they are late, overtake each
// other, come twice, or come with another byte. Pure: time comes in, and chance from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "lib/base/time.h"

namespace muster::integration {

// Probabilities are for each frame.
struct Weather {
  Duration delay{0};
  Duration jitter{0};    // so much more or less than the delay; frames keep their order
  double overtake = 0;   // it does not wait, and passes those that do
  double duplicate = 0;  // it comes twice
  double corrupt = 0;    // one byte of a TCP packet is another
};

struct Fates {
  int64_t admitted = 0;
  int64_t overtook = 0;
  int64_t duplicated = 0;
  int64_t corrupted = 0;
  int64_t dropped = 0;  // there was no room
};

class FrameQueue {
 public:
  static constexpr size_t kMostBytes = 4 << 20;

  explicit FrameQueue(uint64_t seed) : random_(seed) {}

  void Admit(std::string frame, const Weather& weather, Time now);
  // The next frame that may go on; none: it is not time yet.
  std::optional<std::string> Take(Time now);
  std::optional<Time> NextDue() const;
  const Fates& fates() const { return fates_; }

 private:
  bool Happens(double probability);
  void Keep(std::string frame, Time due);

  std::mt19937_64 random_;
  std::multimap<Time, std::string> waiting_;  // equal times: in the order in which they came
  size_t bytes_ = 0;
  Time last_due_{};
  Fates fates_;
};

}  // namespace muster::integration
