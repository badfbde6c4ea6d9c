#include "lib/base/amount_text.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(PaceText, SaysHowFastAndHowLong) {
  constexpr double kMiB = 1 << 20;
  const struct {
    double done, total, seconds;
    const char* text;
  } rows[] = {
      {0, 100, 9, ""},
      {100, 200, 0.1, ""},
      {3072 * kMiB, 18432 * kMiB, 2, "1.5 GiB a second, 10 s left"},
      {500 * kMiB, 1000 * kMiB, 10, "50 MiB a second, 10 s left"},
      {1000 * kMiB, 1000 * kMiB, 10, "100 MiB a second, 0.0 s left"},
      {1000 * kMiB, 61000 * kMiB, 10, "100 MiB a second, 10:00 min left"},
      {1100, 1000, 10, "110 B a second, 0.0 s left"},
  };
  for (const auto& row : rows)
    EXPECT_EQ(PaceText(row.done, row.total, row.seconds, Bytes), row.text) << row.text;
}

}  // namespace
}  // namespace muster
