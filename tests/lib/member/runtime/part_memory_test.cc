#include "lib/member/runtime/part_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace muster {
namespace {

TEST(PartMemory, IsKeptFromRoundToRound) {
  PartMemory memory;
  const float* first = nullptr;
  for (int round = 0; round < 5; ++round) {
    const std::shared_ptr<float[]> part = memory.Borrow(1000);
    part[999] = 1;
    if (round == 0) first = part.get();
    EXPECT_EQ(part.get(), first);
  }
  EXPECT_EQ(memory.made(), 1);
}

TEST(PartMemory, WhatIsBorrowedAtOneTimeIsNotTheSame) {
  PartMemory memory;
  std::shared_ptr<float[]> written = memory.Borrow(10), waiting = memory.Borrow(10);
  EXPECT_NE(written, waiting);
  written.reset();
  waiting.reset();
  written = memory.Borrow(10);
  waiting = memory.Borrow(10);
  EXPECT_EQ(memory.made(), 2);
}

TEST(PartMemory, ASmallerPartTakesWhatIsThereAndALargerOneReplacesIt) {
  PartMemory memory;
  memory.Borrow(1000);
  memory.Borrow(10);
  EXPECT_EQ(memory.made(), 1);
  memory.Borrow(2000);
  EXPECT_EQ(memory.made(), 2);
  memory.Borrow(2000);
  EXPECT_EQ(memory.made(), 2);
  const std::shared_ptr<float[]> large = memory.Borrow(1);
  memory.Borrow(1);
  EXPECT_EQ(memory.made(), 3) << "the small one was not kept beside the large one";
}

TEST(PartMemory, MayEndBeforeWhatWasBorrowed) {
  auto memory = std::make_unique<PartMemory>();
  const std::shared_ptr<float[]> part = memory->Borrow(3);
  memory.reset();
  part[2] = 1;
}

}  // namespace
}  // namespace muster
