#include "lib/data/batch_memory.h"

#include <malloc.h>
#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "lib/base/mutex.h"

namespace muster {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
// From so many bytes on it is kept here; what is smaller the allocator keeps
// (lib/base/kept_memory.h).
constexpr size_t kLarge = size_t{16} << 20;

// One alone: whoever reads lane after lane gives one back for each that it takes.
class LastLarge {
 public:
  std::byte* Take(size_t bytes) {
    const MutexLock lock(mutex_);
    const bool fits = kept_ != nullptr && bytes <= bytes_ && bytes_ - bytes <= bytes / 4;
    return fits ? std::exchange(kept_, nullptr) : nullptr;
  }
  // Returns the one that was there before.
  std::byte* Keep(std::byte* memory, size_t bytes) {
    const MutexLock lock(mutex_);
    bytes_ = bytes;
    return std::exchange(kept_, memory);
  }

 private:
  Mutex mutex_;
  std::byte* kept_ ABSL_GUARDED_BY(mutex_) = nullptr;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// As long as the process, since batches may be given back until its end.
LastLarge& Last() {
  static LastLarge& last = *new LastLarge;
  return last;
}

}  // namespace

std::byte* TakeBatchMemory(size_t bytes) {
  const bool is_large = bytes >= kLarge;
  if (is_large) {
    std::byte* const kept = Last().Take(bytes);
    if (kept != nullptr) return kept;
  }
  const size_t alignment = is_large ? kHugePage : kBatchAlignment;
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  // Where the system has no huge pages it has small ones.
  if (is_large) madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

void GiveBatchMemory(std::byte* memory) {
  const size_t bytes = malloc_usable_size(memory);
  std::free(bytes >= kLarge ? Last().Keep(memory, bytes) : memory);
}

}  // namespace muster
