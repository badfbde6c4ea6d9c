#include "lib/launch/host_limits.h"

#include <csignal>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "gtest/gtest.h"

namespace muster {
namespace {

// Out of a thread, as where nobody catches it.
template <class Thrown>
[[noreturn]] void EndBy(const Thrown& thrown) {
  EndInWordsAtLimits("it", 7);
  std::thread([&] { throw thrown; }).join();
  std::abort();
}

TEST(HostLimitsDeathTest, WhatTheHostRefusesEndsTheProgramInWords) {
  EXPECT_EXIT(EndBy(std::bad_alloc()), testing::ExitedWithCode(7),
              "it: this host gives it no more memory");
  EXPECT_EXIT(
      EndBy(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))),
      testing::ExitedWithCode(7), "no more threads; raise the limit");
  EXPECT_EXIT(EndBy(std::runtime_error("a mistake of ours")), testing::KilledBySignal(SIGABRT), "");
}

TEST(HostLimitsDeathTest, AFileThatMayNotGrowIsNoEnd) {
  EXPECT_EXIT(
      {
        EndInWordsAtLimits("it", 7);
        std::raise(SIGXFSZ);
        std::_Exit(3);
      },
      testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace muster
