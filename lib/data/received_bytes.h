// Bytes of messages as they come from a socket: as many at a time as there are, taken one message
// after the other. For one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

class ReceivedBytes {
 public:
  bool Has(size_t bytes) const { return filled_ - taken_ >= bytes; }

  // Where what comes next is to be written, while not Has(bytes); what was taken is gone.
  absl::Span<char> Room(size_t bytes) {
    if (taken_ == filled_ && memory_.size() > std::max(bytes, kMostKept)) memory_ = std::string();
    std::copy(memory_.data() + taken_, memory_.data() + filled_, memory_.data());
    filled_ -= taken_;
    taken_ = 0;
    if (memory_.size() < bytes) memory_.resize(std::max(bytes, kAtOnce));
    return absl::MakeSpan(memory_.data() + filled_, memory_.size() - filled_);
  }
  void Wrote(size_t bytes) { filled_ += bytes; }

  // The next ones, which it Has; until the next Room.
  absl::string_view Take(size_t bytes) {
    const absl::string_view taken(memory_.data() + taken_, bytes);
    taken_ += bytes;
    return taken;
  }

 private:
  static constexpr size_t kAtOnce = size_t{256} << 10;
  static constexpr size_t kMostKept = size_t{8} << 20;  // what was larger leaves no memory behind

  std::string memory_;
  size_t taken_ = 0;
  size_t filled_ = 0;
};

}  // namespace muster
