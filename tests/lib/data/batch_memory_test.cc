#include "lib/data/batch_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>

namespace muster {
namespace {

struct Give {
  void operator()(std::byte* memory) const { GiveBatchMemory(memory); }
};
using Memory = std::unique_ptr<std::byte[], Give>;

Memory Take(size_t bytes) {
  Memory memory(TakeBatchMemory(bytes));
  std::memset(memory.get(), 1, bytes);
  return memory;
}

constexpr size_t kMib = size_t{1} << 20;

TEST(BatchMemory, IsAligned) {
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{1000}, 20 * kMib})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(Take(bytes).get()) % kBatchAlignment, 0u) << bytes;
}

TEST(BatchMemory, OfALargeOneIsTakenByTheNextOneThatIsAboutAsLarge) {
  const std::byte* first = Take(40 * kMib).get();
  EXPECT_EQ(Take(38 * kMib).get(), first) << "a last lane may be smaller";
  Memory held = Take(40 * kMib);
  EXPECT_EQ(held.get(), first);
  EXPECT_NE(Take(40 * kMib).get(), first) << "it is not there";
}

TEST(BatchMemory, ThatIsTooSmallOrFarTooLargeIsNotTaken) {
  const std::byte* first = Take(40 * kMib).get();
  Memory larger(TakeBatchMemory(60 * kMib));
  EXPECT_NE(larger.get(), first);
  Memory smaller(TakeBatchMemory(20 * kMib));
  EXPECT_NE(smaller.get(), first);
  EXPECT_EQ(Take(40 * kMib).get(), first);
}

}  // namespace
}  // namespace muster
