#include "coordinator/webhooks/message.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "coordinator/webhooks/settings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/kernels/sha256.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {
namespace {

// RFC 4231, test cases 1, 2 and 6 (a key longer than a block).
TEST(HmacTest, IsThatOfTheStandard) {
  EXPECT_EQ(absl::BytesToHexString(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(absl::BytesToHexString(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      absl::BytesToHexString(HmacSha256(std::string(131, '\xaa'),
                                        "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// The example of the libraries of Standard Webhooks.
TEST(WebhookSignatureTest, IsThatOfTheStandard) {
  const auto keys = ParseSecrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(WebhookSignature(*keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
                             R"({"test": 2432232314})"),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  std::vector<std::string> two = *keys;
  two.emplace_back(24, 'x');
  EXPECT_THAT(
      WebhookSignature(two, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, R"({"test": 2432232314})"),
      testing::MatchesRegex("v1,g0hM9SsE\\+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1,[^ ]+="));
}

TEST(WebhookBodyTest, SaysWhatHappened) {
  const PlacedEvent placed{{3, 14},
                           {.type = "job.failed",
                            .unix_ms = 1'600'000'000'123,
                            .job = "a",
                            .name_space = "team",
                            .owner = "ada",
                            .state = "failed",
                            .reason = "a \"reason\"\n\xff",
                            .start = 4,
                            .step = 7,
                            .exit_code = 66}};
  EXPECT_EQ(WebhookId("c1", placed), absl::StrCat("c1-3-14-", placed.event.unix_ms));
  const std::string body = WebhookBody("c1", placed);
  EXPECT_EQ(body, WebhookBody("c1", placed));
  const nlohmann::json json = nlohmann::json::parse(body);
  EXPECT_EQ(json["type"], "job.failed");
  EXPECT_EQ(json["timestamp"], "2020-09-13T12:26:40.123Z");
  EXPECT_EQ(json["data"], nlohmann::json::parse(R"({"cluster": "c1", "job": "a",
      "namespace": "team", "owner": "ada", "state": "failed", "reason": "a \"reason\"\n\ufffd",
      "start": 4, "step": 7, "exit_code": 66, "digest": null})"));
}

}  // namespace
}  // namespace muster::coordinator
