#include <grpc/support/log.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/log/log.h"
#include "lib/transport/grpc/grpc_transport.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(GrpcLogTest, WhatGrpcComplainsOfIsALineOfOurLog) {
  const std::string path = ::testing::TempDir() + "/grpc-log-" + std::to_string(getpid());
  ASSERT_TRUE(StartLog({.program = "muster-worker", .file = path, .json = true}).ok());
  const auto transport = MakeGrpcTransport({});
  gpr_log(GPR_ERROR, "port %d is taken", 7);
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_THAT(text.str(), AllOf(StartsWith("{\"time\":"), HasSubstr("\"level\":\"warning\""),
                                HasSubstr("\"text\":\"grpc: port 7 is taken\""), EndsWith("}\n")));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace muster
