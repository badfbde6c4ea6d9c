#include "lib/curl/curl.h"

#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(RetryAfterIn, ReadsSecondsAndNothingElse) {
  const struct {
    const char* line;
    std::optional<int64_t> seconds;
  } kRows[] = {
      {"Retry-After: 7\r\n", 7},
      {"retry-after:0", 0},
      {"Retry-After: 999999999", kMostRetryAfter},
      {"Retry-After: 99999999999999999999999", kMostRetryAfter},
      {"Retry-After: 9999999999x", std::nullopt},
      {"Retry-After: -1", std::nullopt},
      {"Retry-After: ", std::nullopt},
      {"Retry-After: Fri, 31 Dec 2027 23:59:59 GMT", std::nullopt},
      {"X-Retry-After: 7", std::nullopt},
      {"", std::nullopt},
  };
  for (const auto& row : kRows) EXPECT_EQ(RetryAfterIn(row.line), row.seconds) << row.line;
}

}  // namespace
}  // namespace muster
