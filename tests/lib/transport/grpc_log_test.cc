#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/log/log.h"
#include "lib/transport/grpc/grpc_transport.h"
#include "tests/lib/http/raw_client.h"
#include "tests/lib/http/tls_layer.h"
#include "tests/lib/transport/http2_words.h"
#include "tests/lib/transport/identities.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(GrpcLogTest, WhatGrpcComplainsOfIsALineOfOurLog) {
  const std::string path = ::testing::TempDir() + "/grpc-log-" + std::to_string(getpid());
  ASSERT_TRUE(StartLog({.program = "muster-worker", .file = path, .json = true}).ok());
  const auto transport = MakeGrpcTransport({});
  gpr_log(GPR_ERROR, "port %d is taken", 7);
  EXPECT_THAT(Text(path), AllOf(StartsWith("{\"time\":"), HasSubstr("\"level\":\"warning\""),
                                HasSubstr("\"text\":\"grpc: port 7 is taken\""), EndsWith("}\n")));
  std::remove(path.c_str());
}

TEST(GrpcLogTest, WhatProtocolBuffersComplainsOfIsALineOfOurLog) {
  const std::string path = ::testing::TempDir() + "/protobuf-log-" + std::to_string(getpid());
  ASSERT_TRUE(StartLog({.program = "muster-worker", .file = path, .json = true}).ok());
  const auto transport = MakeGrpcTransport({});
  GOOGLE_LOG(ERROR) << "invalid UTF-8 data";
  EXPECT_THAT(Text(path), AllOf(StartsWith("{\"time\":"), HasSubstr("\"level\":\"warning\""),
                                HasSubstr("protobuf: invalid UTF-8 data")));
  std::remove(path.c_str());
}

// To a peer that stands still it says so at each try, and muster up shows its log on a terminal.
TEST(GrpcLogTest, AGivenUpTryIsNoComplaint) {
  const std::string path = ::testing::TempDir() + "/grpc-tries-" + std::to_string(getpid());
  ASSERT_TRUE(StartLog({.program = "muster", .file = path}).ok());
  const auto transport = MakeGrpcTransport({});
  gpr_log(GPR_ERROR, "TlsChannelSecurityConnector::cancel_check_peer error: %s",
          "UNKNOWN:Subchannel disconnected {file_line:77}");
  gpr_log(GPR_ERROR, "TlsServerSecurityConnector::cancel_check_peer error: %s", "UNKNOWN:gone");
  EXPECT_EQ(Text(path), "");
  std::remove(path.c_str());
}

// gRPC itself would leave the place to it for half a minute, and close it without a word in our
// log.
TEST(GrpcLogTest, AConnectionThatStaysWhenItsSessionHasEndedIsClosed) {
  const std::string path = ::testing::TempDir() + "/grpc-stays-" + std::to_string(getpid());
  ASSERT_TRUE(StartLog({.program = "muster-worker", .file = path}).ok());
  const auto transport = MakeGrpcTransport({});
  auto listener = transport->Listen("127.0.0.1:0", [](const std::shared_ptr<Session>& session) {
    session->Close(absl::PermissionDeniedError("you are not one of us"));
    return SessionHandler{.on_frame = [](const Frame&) {}, .on_broken = [](const absl::Status&) {}};
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  http::RawClient stays((*listener)->Address());
  ASSERT_TRUE(stays.Send(kPreface + Http2Frame(kSettings, 0, 0, "") +
                         Http2Frame(kHeaders, kEndHeaders, 1, HeadersOfACall(kSessionMethod))));
  EXPECT_TRUE(stays.AwaitClosed());
  listener->reset();  // its thread has written the line by then
  EXPECT_THAT(Text(path), HasSubstr("its session has ended, and it stayed"));
  std::remove(path.c_str());
}

// As far as gRPC says it: not why a chain proves nothing.
TEST(GrpcLogTest, WhoIsRefusedIsToldOf) {
  const std::string path = ::testing::TempDir() + "/grpc-refused-" + std::to_string(getpid());
  ASSERT_TRUE(StartLog({.program = "muster-worker", .file = path}).ok());
  const Authority authority = TestAuthority();
  const auto transport = TlsTransport(TestIdentity(authority, kCoordinatorName));
  auto listener = transport->Listen("127.0.0.1:0", [](const std::shared_ptr<Session>&) {
    return SessionHandler{.on_frame = [](const Frame&) {}, .on_broken = [](const absl::Status&) {}};
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  const auto come = [&](int version, const Identity& own) {
    http::RawClient client((*listener)->Address());
    const http::TlsLayer layer(client.fd(), version, &own);
    client.AwaitClosed();
  };
  const Identity good = TestIdentity(authority, MemberName("w1"));
  come(TLS1_1_VERSION, good);
  come(TLS1_3_VERSION, WithRsaKey(authority, good, 1024));
  http::RawClient plain((*listener)->Address());
  plain.Send(kPreface + Http2Frame(kSettings, 0, 0, ""));
  plain.AwaitClosed();
  listener->reset();
  const std::string said = Text(path);
  for (const char* const why :
       {"unsupported protocol", "certificate verify failed", "wrong version number"})
    EXPECT_THAT(said, HasSubstr(why));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace muster
