// Memory for copies of checkpoint parts, kept from round to round. Training stands still for the
// copy, and a copy into memory that was touched before takes a fraction of one into fresh memory,
// which the kernel first has to find and clear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace muster {

// Thread-safe. What is borrowed may outlive it.
class PartMemory {
 public:
  PartMemory();
  // Content unspecified. It comes back when the last holder lets go.
  std::shared_ptr<float[]> Borrow(size_t elements);
  int64_t made() const;  // how often fresh memory had to be taken

 private:
  struct Kept;
  const std::shared_ptr<Kept> kept_;
};

}  // namespace muster
