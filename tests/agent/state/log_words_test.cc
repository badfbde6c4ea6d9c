#include "agent/state/log_words.h"

#include <string>

#include "gtest/gtest.h"

namespace muster::agent {
namespace {

TEST(LogWords, WhyIsWhatTheFirstErrorSays) {
  EXPECT_EQ(
      WhyOf("t info muster-worker worker-0 b\nt error muster-worker worker-0 data.paths: gone\n"
            "t error muster-worker worker-0 later"),
      "data.paths: gone");
  EXPECT_EQ(WhyOf("t error muster-server reader-0 feed/b: it is no file\n"),
            "feed/b: it is no file");
  EXPECT_EQ(WhyOf("t error muster-coordinator --listen: taken\n"), "--listen: taken");
  EXPECT_EQ(WhyOf("{\"level\":\"info\",\"text\":\"b\"}\n"
                  "{\"level\":\"error\",\"text\":\"gone\"}\n{\"level"),
            "gone");
}

// What went well before somebody killed it is no cause.
TEST(LogWords, WithoutAnErrorWhyIsTheLastLineThatMayBeACause) {
  EXPECT_EQ(WhyOf("t info muster-worker worker-0 b\nterminate called\n"), "terminate called");
  EXPECT_EQ(WhyOf("terminate called\nt info muster-worker worker-0 b\n"), "terminate called");
  EXPECT_EQ(WhyOf("t warning muster-worker worker-0 slow\nt info muster-worker worker-0 b\n"),
            "slow");
  EXPECT_EQ(WhyOf("t info muster-worker worker-0 b\nt debug muster-worker worker-0 c\n"), "");
  EXPECT_EQ(WhyOf("{\"level\":\"info\",\"text\":\"b\"}\n"), "");
  EXPECT_EQ(WhyOf("\n"), "");
  EXPECT_EQ(WhyOf(""), "");
}

TEST(LogWords, TheLastErrorIsAMessageWithoutItsTime) {
  EXPECT_EQ(LastError("t info muster-coordinator a\nt error muster-coordinator --dir: full\n\n"),
            "--dir: full");
  EXPECT_EQ(LastError("{\"text\":7}"), "{\"text\":7}");
  EXPECT_EQ(LastError("[1]"), "[1]");
  EXPECT_EQ(LastError("\n"), "its log does not say why");
}

// Its coordinator closes the store after it has said why it ends.
TEST(LogWords, WhatRocksDBSaysIsNoCause) {
  const std::string rocks =
      "t warning muster-coordinator RocksDB: [ERROR] [db/version_set.cc:5250] Error in committing "
      "version edit\n";
  const std::string full = "t error muster-coordinator --dir: No space left on device\n";
  EXPECT_EQ(LastError(full + rocks), "--dir: No space left on device");
  EXPECT_EQ(LastError(full + "t info muster-coordinator leaves\n"),
            "--dir: No space left on device");
  EXPECT_EQ(LastError("t info muster-coordinator begins\n" + rocks), "its log does not say why");
  EXPECT_EQ(LastError(rocks), "its log does not say why");
}

}  // namespace
}  // namespace muster::agent
