#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/worker/tasks/lane_rig.h"
#include "tests/worker/tasks/small_specs.h"
#include "worker/tasks/make_task.h"

namespace muster::worker {
namespace {

absl::Status Unheard(absl::string_view) { return absl::OkStatus(); }

double MeanLoss(LaneRig& rig, const std::vector<uint64_t>& samples) {
  FlatMemory ignored = rig.Memory();
  const LaneOutput output = rig.Run(samples, 0, ignored).value();
  return output.loss / static_cast<double>(output.weight);
}

void Train(LaneRig& rig, int steps) {
  FlatMemory gradient = rig.Memory();
  for (int step = 0; step < steps; ++step) {
    std::vector<uint64_t> samples;
    for (uint64_t i = 0; i < 8; ++i)
      samples.push_back((static_cast<uint64_t>(step) * 8 + i) % rig.task().SampleCount());
    const LaneOutput output = rig.Run(samples, static_cast<uint64_t>(step), gradient).value();
    const float rate = 0.5f / static_cast<float>(output.weight);
    for (size_t i = 0; i < gradient.span().size(); ++i)
      rig.parameters().span()[i] -= rate * gradient.span()[i];
  }
}

TEST(CodeLm, PlainDescentLearns) {
  LaneRig rig(MakeTask(SmallCodeLm()).value());
  const double before = MeanLoss(rig, {0, 7, 20});
  EXPECT_NEAR(before, std::log(256.0), 0.3) << "an untrained model knows nothing";
  Train(rig, 30);
  EXPECT_LT(MeanLoss(rig, {0, 7, 20}), before - 1);
}

TEST(CodeLm, SamplesAreWindowsOfTheCorpus) {
  TrainingSpec training = SmallCodeLm();
  const uint64_t bytes = std::filesystem::file_size(training.data.paths[0]);
  EXPECT_EQ(MakeTask(training).value()->SampleCount(), (bytes - 18) / 5 + 1);
  training.parameters["stride"] = 0;
  EXPECT_EQ(MakeTask(training).value()->SampleCount(), (bytes - 18) / 17 + 1);
  training.data.max_bytes = 18;
  EXPECT_EQ(MakeTask(training).value()->SampleCount(), 1u);
  training.data.max_bytes = 17;
  EXPECT_EQ(MakeTask(training).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CodeLm, AFileThatChangesWhileItTrainsIsNoticedInTheNextLane) {
  TrainingSpec training = SmallCodeLm();
  const TextFile text(std::string(200, 'a'));
  training.data.paths = {text.path()};
  LaneRig rig(MakeTask(training).value());
  FlatMemory gradient = rig.Memory();
  ASSERT_TRUE(rig.Run({0, 3, 9}, 1, gradient).ok());
  std::ofstream(text.path(), std::ios::app) << "more";
  const absl::Status status = rig.Run({0, 3, 9}, 1, gradient).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr(text.path() + ": it has changed since the job began"));
}

TEST(CodeLm, TheWeightOfALaneIsItsPredictedBytes) {
  LaneRig rig(MakeTask(SmallCodeLm()).value());
  FlatMemory gradient = rig.Memory();
  EXPECT_EQ(rig.Run({0, 3, 9}, 1, gradient)->weight, 3 * 17);
}

// The same weights for a model of a shorter context; large enough for attention to matter.
void CopyLouder(LaneRig& from, LaneRig& to) {
  for (size_t i = 0; i < to.layout().tensors().size(); ++i) {
    const Placed& source = from.layout().tensors()[i];
    const Placed& place = to.layout().tensors()[i];
    ASSERT_EQ(source.spec.name, place.spec.name);
    for (int64_t k = 0; k < place.count; ++k)
      to.parameters().data()[place.offset + k] = 5 * from.parameters().data()[source.offset + k];
  }
}

// The corpus holds one text 256 times, each with another last byte b. With S the loss of the
// positions before the last, which cannot depend on b, the loss of a sample is S - log p(b), and p
// sums to 1: S = -log(sum over b of exp(-loss(b))). A model that stops one byte earlier has exactly
// the loss S, if no position sees a byte to its right.
TEST(CodeLm, APositionDoesNotSeeTheFuture) {
  // 17 bytes, of which the last one is read by the last position.
  const std::string text = "for (int i = 0; i";
  std::string texts;
  for (int b = 0; b < 256; ++b) texts += text + static_cast<char>(b);
  const TextFile file(texts);
  TrainingSpec training = SmallCodeLm();
  training.data.paths = {file.path()};
  training.parameters["dropout"] = 0;
  training.parameters["stride"] = 18;
  LaneRig first(MakeTask(training).value()), whole(MakeTask(training).value());
  training.parameters["context"] = 16;
  LaneRig shorter(MakeTask(training).value());
  CopyLouder(first, whole);
  CopyLouder(first, shorter);
  FlatMemory whole_gradient = whole.Memory(), shorter_gradient = shorter.Memory();
  const double expected = shorter.Run({0}, 1, shorter_gradient)->loss;
  double sum = 0;
  for (uint64_t b = 0; b < 256; ++b)
    sum += std::exp(expected - whole.Run({b}, 1, whole_gradient)->loss);
  EXPECT_NEAR(std::log(sum), 0, 1e-4);
}

TEST(CodeLm, GeneratesWhatTheSeedSays) {
  LaneRig rig(MakeTask(SmallCodeLm()).value());
  auto* model = dynamic_cast<Generates*>(&rig.task());
  ASSERT_NE(model, nullptr);
  const auto text = model->Generate(rig.parameters().span(), "inline", 40, 7, Unheard);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->size(), 40u);
  EXPECT_EQ(*text, *model->Generate(rig.parameters().span(), "inline", 40, 7, Unheard));
  EXPECT_NE(*text, *model->Generate(rig.parameters().span(), "inline", 40, 8, Unheard));
  EXPECT_EQ(model->Generate(rig.parameters().span(), "", 3, 7, Unheard)->size(), 3u);
  EXPECT_EQ(*model->Generate(rig.parameters().span(), "x", 0, 7, Unheard), "");
}

TEST(CodeLm, TellsEachByteAsItIsMadeUntilNobodyListens) {
  LaneRig rig(MakeTask(SmallCodeLm()).value());
  Generates& generates = *rig.task().generates();
  std::string heard;
  const auto hears = [&](absl::string_view piece) {
    absl::StrAppend(&heard, piece);
    return heard.size() < 5 ? absl::OkStatus() : absl::CancelledError("enough");
  };
  const auto parameters = rig.parameters().span();
  const std::string text = generates.Generate(parameters, "inline", 9, 7, Unheard).value();
  EXPECT_EQ(generates.Generate(parameters, "inline", 9, 7, hears).status(),
            absl::CancelledError("enough"));
  EXPECT_EQ(heard, text.substr(0, 5));
}

TEST(CodeLm, GeneratesFromAPromptWithoutItsData) {
  LaneRig with_data(MakeTask(SmallCodeLm()).value());
  TrainingSpec training = SmallCodeLm();
  training.data.paths = {"/no/such/folder"};
  const auto made = MakeTask(training, {}, DataPart::kNone);
  ASSERT_TRUE(made.ok()) << made.status();
  Task& task = **made;
  ASSERT_EQ(task.Tensors(), with_data.task().Tensors());
  ASSERT_TRUE(task.Bind(with_data.layout().space()).ok());
  Generates& generates = *task.generates();
  const absl::Span<const float> parameters = with_data.parameters().span();
  EXPECT_EQ(generates.Generate(parameters, "int ", 40, 7, Unheard).value(),
            with_data.task().generates()->Generate(parameters, "int ", 40, 7, Unheard).value());
  const absl::Status nothing = generates.Generate(parameters, "", 40, 7, Unheard).status();
  EXPECT_EQ(nothing.code(), absl::StatusCode::kFailedPrecondition) << nothing;
  EXPECT_THAT(std::string(nothing.message()), testing::HasSubstr("--prompt"));
}

TEST(CodeLm, GeneratingLeavesNothingBehindInALane) {
  LaneRig rig(MakeTask(SmallCodeLm()).value());
  FlatMemory before = rig.Memory(), after = rig.Memory();
  ASSERT_TRUE(rig.Run({1, 2}, 3, before).ok());
  ASSERT_TRUE(dynamic_cast<Generates&>(rig.task())
                  .Generate(rig.parameters().span(), "a", 5, 1, Unheard)
                  .ok());
  ASSERT_TRUE(rig.Run({1, 2}, 3, after).ok());
  EXPECT_TRUE(before.SameBits(after));
}

TEST(CodeLm, ATrainedModelWritesItsText) {
  LaneRig rig(MakeTask(SmallCodeLm()).value());
  Train(rig, 400);
  const auto text =
      dynamic_cast<Generates&>(rig.task()).Generate(rig.parameters().span(), "", 300, 1, Unheard);
  const auto ascii = std::count_if(text->begin(), text->end(),
                                   [](char c) { return c == '\n' || (c >= ' ' && c < 127); });
  EXPECT_GE(ascii, 295) << *text;
}

TEST(CodeLm, MissingDataIsNamed) {
  TrainingSpec training = SmallCodeLm();
  training.data.paths = {"/no/such/folder"};
  const absl::Status status = MakeTask(training).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("/no/such/folder"));
}

}  // namespace
}  // namespace muster::worker
