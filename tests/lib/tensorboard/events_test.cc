// Records as TensorBoard's own package writes them, and the last one of a file.
#include "lib/tensorboard/events.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/tensorboard/run.h"
#include "lib/wire/job_codec.h"

namespace muster::tensorboard {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Written by TensorBoard 2.21: event_pb2, plugin_data_pb2 and RecordWriter.
TEST(EventsTest, AStepHasTheBytesThatTensorBoardWrites) {
  EXPECT_EQ(absl::BytesToHexString(
                StepValues({.step = 7, .unix_ms = 1500, .loss = 0.25, .learning_rate = 0.5})),
            "300000000000000095f5d05f09000000000000f83f10072a230a0b0a046c6f7373150000803e0a140a0d"
            "6c6561726e696e675f72617465150000003f673e379f");
}

TEST(EventsTest, AnEndHasTheBytesThatTensorBoardWrites) {
  EXPECT_EQ(absl::BytesToHexString(End(1500, 9, Status::kSuccess)),
            "59000000000000008a1d65b609000000000000f83f10092a4c0a4a0a1a5f68706172616d735f2f736573"
            "73696f6e5f656e645f696e666f420e08011204120208012a04000000004a1c0a180a0768706172616d73"
            "120d220b080111000000000000f83f20025d32388f");
}

TEST(EventsTest, WhatIsNotKnownIsNotWritten) {
  EXPECT_EQ(StepValues({.step = 7, .unix_ms = 1500}), "");
  EXPECT_EQ(StepValues({.step = 7, .loss = std::numeric_limits<double>::infinity()}), "");
}

HistoryStep At(int64_t step) { return {.step = step, .unix_ms = 1000 * step, .loss = 0.5}; }

TEST(EventsTest, TheLastRecordIsFoundInAnyTailThatHoldsIt) {
  std::string file = Begin(1);
  for (int64_t step = 0; step < 300; ++step) file += StepValues(At(step));
  for (const size_t tail : {file.size(), size_t{1000}, StepValues(At(299)).size()}) {
    const auto last = FindLastRecord(absl::string_view(file).substr(file.size() - tail));
    ASSERT_TRUE(last) << tail;
    EXPECT_EQ(last->step, 299);
    EXPECT_EQ(last->unix_ms, 299'000);
    EXPECT_EQ(last->tag, "loss");
  }
  EXPECT_EQ(FindLastRecord(Begin(1))->tag, "");
  EXPECT_EQ(FindLastRecord(HyperParameters(1, "a", {}))->tag, kStartTag);
  EXPECT_EQ(FindLastRecord(End(1, 5, Status::kFailure))->tag, kEndTag);
}

TEST(EventsTest, WhatIsCutAnywhereOrChangedHasNoLastRecord) {
  const std::string file = Begin(1) + StepValues(At(3));
  const size_t record = StepValues(At(3)).size();
  for (size_t cut = 1; cut < record; ++cut)
    EXPECT_FALSE(FindLastRecord(file.substr(0, file.size() - cut))) << cut;
  for (size_t at = file.size() - record; at < file.size(); ++at) {
    std::string odd = file;
    odd[at] = static_cast<char>(odd[at] ^ 1);
    EXPECT_FALSE(FindLastRecord(odd)) << at;
  }
  EXPECT_FALSE(FindLastRecord(""));
  EXPECT_FALSE(FindLastRecord(file + "x"));
}

// Text is a model's: it may be a record, and still is none.
TEST(EventsTest, ARecordInATextIsNoRecord) {
  const std::string file = Begin(1) + Text(1000, 5, "sample", StepValues(At(9'999)));
  EXPECT_EQ(FindLastRecord(file)->step, 5);
  EXPECT_EQ(FindLastRecord(file)->tag, "sample");
}

TEST(RunTest, AJobBeginsWithWhatItWasAskedFor) {
  JobSpec spec;
  spec.training.task = "counting";
  spec.training.data.samples = 10;
  spec.training.batch = 5;
  spec.training.lanes = 1;
  spec.training.steps = 3;
  spec.training.optimizer.learning_rate = 0.5;
  spec.runtime.name = "seen";
  const JobSpec whole = *Complete(spec);
  const std::string begin = BeginRun("run-1", whole, 5);
  EXPECT_THAT(begin, HasSubstr("brain.Event:2"));
  EXPECT_THAT(begin, HasSubstr("    name: seen\n"));
  EXPECT_THAT(begin, HasSubstr("optimizer.learning_rate"));
  const std::vector<HyperParameter> all = HyperParametersOf(whole);
  EXPECT_THAT(all, Contains(HyperParameter{"batch", 5.0}));
  EXPECT_THAT(all, Contains(HyperParameter{"task", std::string("counting")}));
  EXPECT_THAT(all, Contains(HyperParameter{"optimizer.learning_rate", 0.5}));
  for (const HyperParameter& one : all)
    EXPECT_THAT(one.name, Not(testing::AnyOf("name", "optimizer.beta1", "workers", "labels")));
}

TEST(RunTest, ATextCannotLeaveItsCode) {
  EXPECT_EQ(AsCode("a\n```\n# b"), "    a\n    ```\n    # b");
  EXPECT_THAT(Sample(1, 2, "x\x1b[1m"), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace muster::tensorboard
