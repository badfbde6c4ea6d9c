// Samples that cannot be read (docs/decisions/0105) with real processes: they are left out with the
// same bits whoever computes, applies and dies, and the ledger names them; or they end the job.
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/lib/data/written_files.h"
#include "tests/support/program.h"
#include "tests/support/text_of.h"

namespace muster::integration {
namespace {

using testing::HasSubstr;

constexpr int kImages = 40, kEpochs = 2;
const std::set<int> kBroken = {3, 17, 29};

// Two classes: dark images and bright ones. Where `broken`, three are cut off, or none at all.
void WriteImages(const std::string& folder, bool broken) {
  for (int i = 0; i < kImages; ++i) {
    Picture picture = Slope(6, 6);
    for (size_t b = 0; b < picture.pixels.size(); ++b)
      picture.pixels[b] =
          static_cast<char>((i < kImages / 2 ? 60 : 180) + (i * 7 + static_cast<int>(b) * 13) % 50);
    std::string bytes = Jpeg(picture);
    if (broken && i == 3) bytes = bytes.substr(0, bytes.size() / 2);
    if (broken && i == 17) bytes = "no image";
    if (broken && i == 29) bytes = "";
    // By name they have the order of their numbers.
    WriteFile(absl::StrFormat("%s/%s/%02d.jpg", folder, i < kImages / 2 ? "a" : "b", i), bytes);
  }
}

class BadSamplesTest : public testing::Test {
 protected:
  BadSamplesTest() { WriteImages(folder_ / "images", /*broken=*/true); }
  TrainOptions Job(const std::string& name, const std::string& on_bad_sample,
                   const std::string& images = "images") {
    return {.spec = absl::StrCat(
                "name: images\ntask: layers\n",
                "parameters: {layers: [flatten, {linear: 8}, relu, {linear: 2}], loss: "
                "cross_entropy}\n",
                "data: {format: images, image_size: [6, 6], paths: [", folder_ / images,
                "], on_bad_sample: ", on_bad_sample, "}\n", "batch: 8\nlanes: 4\nepochs: ", kEpochs,
                "\nseed: 3\nchunk_bytes: 512\n",
                "bucket_bytes: 512\nfirst_bucket_bytes: 512\nfingerprint_every: 2\n",
                "optimizer: {kind: adam, learning_rate: 0.01}\ncheckpoint: {every_steps: 3}\n"),
            .dir = folder_ / name};
  }

  const Folder folder_;
};

// By epoch.
std::vector<std::multiset<int>> LeftOutIn(const std::string& dir, const std::string& job) {
  std::vector<std::multiset<int>> left_out(kEpochs);
  Program ledger({MUSTER_PROGRAMS "/muster", "ledger", job, "--dir", dir, "--json"});
  EXPECT_EQ(ledger.End(), 0) << ledger.output();
  for (const absl::string_view line : absl::StrSplit(ledger.output(), '\n', absl::SkipEmpty())) {
    const auto step = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!step.is_object() || !step.contains("left_out")) continue;
    for (const auto& id : step["left_out"])
      left_out.at(step.value("epoch", size_t{0})).insert(id.get<int>());
  }
  return left_out;
}

TEST_F(BadSamplesTest, AreLeftOutWithTheSameBitsWhoeverComputesAndTheLedgerNamesThem) {
  const TrainRun calm = Train(Job("calm", "skip"));
  ASSERT_EQ(calm.exit_code, 0) << calm.Trace();
  EXPECT_THAT(calm.result.value("reason", ""),
              HasSubstr("6 times a sample that cannot be read was left out"));
  const std::string digest = calm.result.value("digest", "none");
  ExpectSameBits(calm, folder_ / "calm", digest);
  const std::vector<std::multiset<int>> right(kEpochs, {kBroken.begin(), kBroken.end()});
  EXPECT_EQ(LeftOutIn(folder_ / "calm", calm.result.value("job", "")), right);
  for (const int servers : {0, 2})
    for (const std::string point : {"forward:7", "before_apply:4"}) {
      SCOPED_TRACE(absl::StrCat(servers, " servers, ", point));
      TrainOptions options = Job(absl::StrCat("job-", servers, "-", point.substr(0, 3)), "skip");
      options.workers = 3;
      options.servers = servers;
      options.faults = {absl::StrCat("{at_point: \"", point, "\", kill: worker-1}")};
      const TrainRun run = Train(options);
      EXPECT_TRUE(run.Killed("worker-1")) << run.Trace();
      ExpectSameBits(run, options.dir, digest);
      const std::string job = run.result.value("job", "");
      EXPECT_EQ(LeftOutIn(options.dir, job), right) << run.Trace();
      const nlohmann::json audit = Audit(options.dir, job);
      EXPECT_EQ(audit.value("left_out_samples", 0), 6) << audit;
      EXPECT_EQ(audit.value("samples", 0), kEpochs * kImages - 6) << audit;
    }
}

TEST_F(BadSamplesTest, EndTheJobWithASentenceWhereTheyStop) {
  const TrainRun run = Train(Job("stop", "stop"));
  EXPECT_EQ(run.exit_code, kExitBadData) << run.Trace();
  EXPECT_THAT(run.result.value("reason", ""), HasSubstr(".jpg: ")) << run.Trace();
}

// The bytes of the trained weights as they are exported, without the header that names the job.
std::string WeightsIn(const std::string& dir) {
  const std::string file = dir + ".safetensors";
  Program save({MUSTER_PROGRAMS "/muster", "export", "--dir", dir, "-o", file});
  EXPECT_EQ(save.End(), 0) << save.output();
  const std::string exported = TextOf(file);
  uint64_t header = 0;
  if (exported.size() < sizeof header) return "";
  std::memcpy(&header, exported.data(), sizeof header);
  return exported.substr(sizeof header + header);
}

TEST_F(BadSamplesTest, OfWhichThereAreNoneChangeNoWeightWhicheverWayIsChosen) {
  WriteImages(folder_ / "whole", /*broken=*/false);
  std::string digests[2], weights[2];
  for (const bool skips : {false, true}) {
    const TrainOptions options = Job(skips ? "skips" : "stops", skips ? "skip" : "stop", "whole");
    const TrainRun run = Train(options);
    ASSERT_EQ(run.exit_code, 0) << run.Trace();
    digests[skips] = run.result.value("digest", "none");
    weights[skips] = WeightsIn(options.dir);
  }
  ASSERT_NE(weights[0], "");
  EXPECT_TRUE(weights[0] == weights[1]);
  // What was left out is a part of the state.
  EXPECT_NE(digests[0], digests[1]);
}

}  // namespace
}  // namespace muster::integration
