#include "lib/wire/journal_codec.h"

#include <gtest/gtest.h>

#include "tests/lib/wire/random_message.h"

namespace muster {
namespace {

// The part comes back as it was; cut and mutated bytes are refused or decode.
template <class Part, class Encode, class Decode>
void Check(Encode encode, Decode decode) {
  RandomMessage random(1, /*printable=*/true);
  for (int round = 0; round < 200; ++round) {
    Part part{};
    random.Fill(part);
    const std::string good = encode(part);
    const auto decoded = decode(good);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(*decoded, part);
    for (int spoilt = 0; spoilt < 20 && !good.empty(); ++spoilt) {
      std::string bad = good.substr(0, 1 + random.Below(good.size()));
      bad[random.Below(bad.size())] = static_cast<char>(random.Below(256));
      const auto status = decode(bad).status();
      EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    }
  }
}

TEST(JournalCodecTest, EveryPartComesBackAsItWas) {
  Check<StepRecord>(EncodeStepRecord, DecodeStepRecord);
  Check<Lineage>(EncodeLineage, DecodeLineage);
  Check<View>(EncodeView, DecodeView);
  Check<NumericEnvironment>(EncodeEnvironment, DecodeEnvironment);
  Check<FingerprintPart>(EncodeFingerprintPart, DecodeFingerprintPart);
  Check<std::map<std::string, std::string>>(EncodeFields, DecodeFields);
}

TEST(JournalCodecTest, HoldersOfManyLanesAreWrittenOnce) {
  StepRecord record;
  const MemberId name{std::string(100, 'w'), {1, 2}};
  record.lane_holders = {{name}, std::vector<int32_t>(4096)};
  const std::string bytes = EncodeStepRecord(record);
  EXPECT_LT(bytes.size(), 4096u + 200);
  EXPECT_EQ(DecodeStepRecord(bytes)->lane_holders, record.lane_holders);
  EXPECT_EQ(DecodeStepRecord(bytes)->lane_holders.members().size(), 1u);
}

TEST(JournalCodecTest, ARecordKeepsItsTimeAndItsNorm) {
  RecordedStep step;
  step.record.step = Step(3);
  step.record.norm = 1.5;
  step.unix_ms = 1'000'000'000'000;
  EXPECT_EQ(*DecodeRecordedStep(EncodeRecordedStep(step)), step);
  EXPECT_EQ(*DecodeStepRecord(EncodeRecordedStep(step)), step.record);
  step.record.norm.reset();
  EXPECT_EQ(DecodeRecordedStep(EncodeStepRecord(step.record))->unix_ms, 0) << "an older ledger";
  EXPECT_FALSE(DecodeRecordedStep(EncodeRecordedStep(step))->record.norm);
}

TEST(JournalCodecTest, AFactKeepsItsTime) {
  RecordedFact fact{{LineageNumber(2), Step(3), {}}, 1'000'000'000'000};
  fact.fact.sums.floats.assign(kFloatsOfMetric, 1.0f);
  EXPECT_EQ(*DecodeRecordedFact(EncodeRecordedFact(fact)), fact);
}

TEST(JournalCodecTest, WhatIsWrongIsNamed) {
  StepRecord record;
  record.weight = -1;
  const auto status = DecodeStepRecord(EncodeStepRecord(record)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("weight"), absl::string_view::npos) << status;
  NumericEnvironment environment;
  environment.tensors = {{"weight", {int64_t{1} << 30, int64_t{1} << 30}, TensorKind::kParameter}};
  const auto large = DecodeEnvironment(EncodeEnvironment(environment)).status();
  EXPECT_NE(large.message().find("tensors[0].shape"), absl::string_view::npos) << large;
  const std::string one = EncodeFields({{"view", "x"}});
  EXPECT_FALSE(DecodeFields(one + one).ok());
}

}  // namespace
}  // namespace muster
