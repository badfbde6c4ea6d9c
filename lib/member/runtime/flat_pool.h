// Memory for whole flat spaces: parameters, receive buffers for results, partial sums of gradients.
// Whoever still reads a buffer (a frame on its way out, a lane that was given up) holds it; it
// comes back to the pool when the last holder lets go, so nobody ever writes what another still
// reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "lib/domain/layout.h"

namespace muster {

// 64-byte aligned. Written by its one owner while nobody else holds it; read by all holders after.
class FlatBuffer {
 public:
  explicit FlatBuffer(size_t elements);
  ~FlatBuffer();
  FlatBuffer(const FlatBuffer&) = delete;
  FlatBuffer& operator=(const FlatBuffer&) = delete;

  absl::Span<float> all() const { return {data_, elements_}; }
  absl::Span<float> of(const Chunk& chunk) const {
    return all().subspan(static_cast<size_t>(chunk.offset), static_cast<size_t>(chunk.count));
  }

 private:
  float* const data_;
  const size_t elements_;
};
using FlatPtr = std::shared_ptr<FlatBuffer>;

// Thread-safe. Buffers may outlive the pool.
class FlatPool {
 public:
  explicit FlatPool(size_t elements);
  FlatPtr Borrow();        // content unspecified; memory is the kernel's until it is touched
  FlatPtr BorrowZeroed();  // all +0.0
  int64_t made() const;    // buffers that exist, handed out or free

 private:
  struct Free;
  const size_t elements_;
  const std::shared_ptr<Free> free_;
};

}  // namespace muster
