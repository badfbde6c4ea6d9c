#include "lib/member/runtime/flat_pool.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

#include "lib/base/mutex.h"

namespace muster {
namespace {

constexpr size_t kPage = 4096;  // more than the 64 bytes that lanes need

float* Allocate(size_t elements) {
  const size_t bytes = std::max<size_t>(elements, 1) * sizeof(float);
  void* memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (memory == nullptr) throw std::bad_alloc();  // programs say it in words (EndInWordsAtLimits)
  return static_cast<float*>(memory);
}

}  // namespace

FlatBuffer::FlatBuffer(size_t elements) : data_(Allocate(elements)), elements_(elements) {}
FlatBuffer::~FlatBuffer() { std::free(data_); }

struct FlatPool::Free {
  Mutex mutex;
  std::vector<std::unique_ptr<FlatBuffer>> buffers ABSL_GUARDED_BY(mutex);
  int64_t made ABSL_GUARDED_BY(mutex) = 0;
};

FlatPool::FlatPool(size_t elements) : elements_(elements), free_(std::make_shared<Free>()) {}

FlatPtr FlatPool::Borrow() {
  std::unique_ptr<FlatBuffer> buffer;
  {
    MutexLock lock(free_->mutex);
    if (free_->buffers.empty()) {
      ++free_->made;
    } else {
      buffer = std::move(free_->buffers.back());
      free_->buffers.pop_back();
    }
  }
  if (!buffer) buffer = std::make_unique<FlatBuffer>(elements_);
  return FlatPtr(buffer.release(), [free = free_](FlatBuffer* last) {
    MutexLock lock(free->mutex);
    free->buffers.emplace_back(last);
  });
}

FlatPtr FlatPool::BorrowZeroed() {
  FlatPtr buffer = Borrow();
  std::fill(buffer->all().begin(), buffer->all().end(), 0.0f);
  return buffer;
}

int64_t FlatPool::made() const {
  MutexLock lock(free_->mutex);
  return free_->made;
}

}  // namespace muster
