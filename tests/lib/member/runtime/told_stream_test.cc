#include "lib/member/runtime/told_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Incarnation kA{0, 1};

StreamIs Told(uint64_t positions, std::vector<SpoolSegment> segments) {
  return {TermNumber(1), positions, std::nullopt, std::move(segments)};
}

TEST(ToldStream, DataSetsFindWhatWasTold) {
  ToldStream stream("/job/stream");
  const std::shared_ptr<const SpoolMap> map = stream.map();
  EXPECT_EQ(map->folder(), "/job/stream");
  ASSERT_TRUE(stream.Learn(Told(0, {})).ok());
  EXPECT_THAT(*map->facts(), IsEmpty());
  const SpoolMap::Facts before = map->facts();
  ASSERT_TRUE(stream.Learn(Told(4, {{0, kA, 0, 4}})).ok());
  ASSERT_TRUE(stream.Learn(Told(6, {{0, kA, 0, 5}, {1, kA, 5, 1}})).ok());
  EXPECT_THAT(*map->facts(), ElementsAre(SpoolSegment{0, kA, 0, 5}, SpoolSegment{1, kA, 5, 1}));
  EXPECT_THAT(*before, IsEmpty()) << "a list that somebody reads stays as it is";
}

TEST(ToldStream, WhatDoesNotFitIsRefusedAndChangesNothing) {
  ToldStream stream("/job/stream");
  const SpoolSegment kFirst{0, kA, 0, 4};
  ASSERT_TRUE(stream.Learn(Told(4, {kFirst})).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(stream.Learn(Told(4, {{0, kA, 0, 3}}))));
  const absl::Status nowhere = stream.Learn(Told(6, {{0, kA, 0, 5}}));
  EXPECT_TRUE(absl::IsFailedPrecondition(nowhere));
  EXPECT_THAT(nowhere.message(), HasSubstr("there are 6 positions, and segments up to 5"));
  EXPECT_THAT(*stream.map()->facts(), ElementsAre(kFirst));
}

TEST(ToldStream, NobodyWaitsForSamplesOnceItIsGone) {
  auto stream = std::make_unique<ToldStream>("/job/stream");
  const std::shared_ptr<const SpoolMap> map = stream->map();
  stream.reset();
  EXPECT_FALSE(map->Pause(std::chrono::hours(1)));
}

}  // namespace
}  // namespace muster
