#include "worker/torch/numerics.h"

#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace muster::worker {
namespace {

// How many of many products that only a denormal could hold are not zero.
int64_t DenormalsLeft() {
  const at::Tensor small = at::full({1 << 20}, 1e-30f);
  return at::mul(small, 1e-10).count_nonzero().item<int64_t>();
}

TEST(Numerics, DenormalsAreFlushedOnTheCallingThreadAndItsPool) {
  std::thread([] {
    ASSERT_TRUE(UseTorchHere(2).ok());
    EXPECT_EQ(DenormalsLeft(), 0);
  }).join();
}

TEST(Numerics, EachThreadIsPreparedForItself) {
  ASSERT_TRUE(UseTorchHere(1).ok());
  std::thread([] {
    ASSERT_TRUE(UseTorchHere(1).ok());
    EXPECT_EQ(DenormalsLeft(), 0);
  }).join();
}

// How many threads compute is the specification's: the default of the library is that of the
// machine, which says nothing of a task that does not use it.
TEST(Numerics, PropertiesAreLinesAndLeaveOutTheThreads) {
  EXPECT_THAT(TorchProperties(), testing::Not(testing::HasSubstr("threads ")));
  for (const char* name : {"torch 2.", "\ncapability ", "\nmkl ", "\nonednn "})
    EXPECT_THAT(TorchProperties(), testing::HasSubstr(name));
}

}  // namespace
}  // namespace muster::worker
