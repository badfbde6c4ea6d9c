#include "lib/base/socket_address.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(SocketAddress, OnlyNumbersAndLocalhost) {
  EXPECT_TRUE(ToSocketAddress({"127.0.0.1", 80}).ok());
  EXPECT_TRUE(ToSocketAddress({"::1", 80}).ok());
  EXPECT_TRUE(ToSocketAddress({"localhost", 80}).ok());
  EXPECT_EQ(ToSocketAddress({"example", 80}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SocketAddress, TowardsLoopbackItIsLoopback) {
  EXPECT_EQ(AddressTowards({"127.0.0.1", 7070}).value(), "127.0.0.1");
  EXPECT_EQ(AddressTowards({"localhost", 7070}).value(), "127.0.0.1");
  EXPECT_FALSE(AddressTowards({"example", 7070}).ok());
}

}  // namespace
}  // namespace muster
