#include "lib/wire/message_codec.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "tests/lib/wire/random_message.h"

namespace muster {
namespace {

template <class Message>
absl::StatusOr<Message> Decode(const std::string& header) {
  if constexpr (std::is_same_v<Message, ToCoordinator>) return DecodeToCoordinator(header);
  if constexpr (std::is_same_v<Message, FromCoordinator>) return DecodeFromCoordinator(header);
  if constexpr (std::is_same_v<Message, PeerMessage>) return DecodePeerMessage(header);
  if constexpr (std::is_same_v<Message, FromAgent>) return DecodeFromAgent(header);
  if constexpr (std::is_same_v<Message, ToAgent>) return DecodeToAgent(header);
}

template <class Message>
class MessageCodecTest : public ::testing::Test {};
using Messages = ::testing::Types<ToCoordinator, FromCoordinator, PeerMessage, FromAgent, ToAgent>;
TYPED_TEST_SUITE(MessageCodecTest, Messages);

TYPED_TEST(MessageCodecTest, EveryKindComesBackAsItWas) {
  RandomMessage random(1);
  for (size_t kind = 0; kind < std::variant_size_v<TypeParam>; ++kind) {
    for (int round = 0; round < 40; ++round) {
      const auto message = random.MakeKind<TypeParam>(kind);
      const auto decoded = Decode<TypeParam>(Encode(message));
      ASSERT_TRUE(decoded.ok()) << "kind " << kind << ": " << decoded.status();
      ASSERT_TRUE(Same(*decoded, message)) << "kind " << kind << ", round " << round;
    }
  }
}

// Whatever decodes is valid: encoded and decoded again it stays the same.
template <class Message>
void ExpectRefusedOrValid(const std::string& bytes) {
  const auto decoded = Decode<Message>(bytes);
  if (!decoded.ok()) {
    EXPECT_TRUE(absl::IsInvalidArgument(decoded.status())) << decoded.status();
    return;
  }
  const std::string canonical = Encode(*decoded);
  const auto again = Decode<Message>(canonical);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Encode(*again), canonical);
}

TYPED_TEST(MessageCodecTest, EveryCutIsRefusedOrValid) {
  RandomMessage random(2);
  for (size_t kind = 0; kind < std::variant_size_v<TypeParam>; ++kind) {
    if (std::is_same_v<TypeParam, FromCoordinator> && kind == 0) continue;  // a specification is a map
    const std::string good = Encode(random.MakeKind<TypeParam>(kind));
    for (size_t size = 0; size < good.size(); ++size)
      ExpectRefusedOrValid<TypeParam>(good.substr(0, size));
  }
}

TEST(MessageCodecTest, FirstFrameTellsWhoSpeaks) {
  const auto member = DecodeAtCoordinator(Encode(ToCoordinator(AskJob{"job", "w0"})));
  ASSERT_TRUE(member.ok()) << member.status();
  EXPECT_TRUE(std::holds_alternative<ToCoordinator>(*member));
  const auto agent = DecodeAtCoordinator(Encode(FromAgent(AgentHello{"host"})));
  ASSERT_TRUE(agent.ok()) << agent.status();
  EXPECT_TRUE(std::holds_alternative<FromAgent>(*agent));
  EXPECT_FALSE(DecodeToCoordinator(Encode(FromAgent(AgentHello{"host"}))).ok());
  EXPECT_FALSE(DecodeFromAgent(Encode(ToCoordinator(AskJob{"job", "w0"}))).ok());
}

}  // namespace
}  // namespace muster
