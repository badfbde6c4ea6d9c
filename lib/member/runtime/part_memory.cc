#include "lib/member/runtime/part_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/base/mutex.h"

namespace muster {
namespace {

struct Block {
  std::unique_ptr<float[]> memory;
  size_t elements = 0;
};

}  // namespace

struct PartMemory::Kept {
  Mutex mutex;
  std::vector<Block> blocks ABSL_GUARDED_BY(mutex);
  int64_t made ABSL_GUARDED_BY(mutex) = 0;

  // A view may give a member more chunks than it had: what is too small now gives way. So there are
  // never more blocks than were borrowed at one time.
  Block Take(size_t elements) {
    MutexLock lock(mutex);
    const auto fits = [&](const Block& block) { return block.elements >= elements; };
    auto found = std::find_if(blocks.begin(), blocks.end(), fits);
    if (found != blocks.end()) {
      Block block = std::move(*found);
      blocks.erase(found);
      return block;
    }
    if (!blocks.empty()) blocks.pop_back();
    ++made;
    return {};
  }
  void Keep(Block block) {
    MutexLock lock(mutex);
    blocks.push_back(std::move(block));
  }
};

PartMemory::PartMemory() : kept_(std::make_shared<Kept>()) {}

std::shared_ptr<float[]> PartMemory::Borrow(size_t elements) {
  Block block = kept_->Take(elements);
  if (!block.memory) block = {std::make_unique_for_overwrite<float[]>(elements), elements};
  const size_t size = block.elements;
  return {block.memory.release(), [kept = kept_, size](float* last) {
            kept->Keep({std::unique_ptr<float[]>(last), size});
          }};
}

int64_t PartMemory::made() const {
  MutexLock lock(kept_->mutex);
  return kept_->made;
}

}  // namespace muster
