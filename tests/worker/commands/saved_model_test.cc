#include "worker/commands/saved_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/checkpoint/manifest_file.h"
#include "tests/lib/checkpoint/support.h"

namespace muster::worker {
namespace {

using testing::HasSubstr;

class SavedModelTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Of a state with the two slots of momentum and a moving average.
  SavedModelPlace Put(int64_t step, const std::string& ema) {
    std::filesystem::remove_all(folder_);
    EXPECT_TRUE(files_->MakeFolder().ok());
    absl::StatusOr<Manifest> manifest = Save(*files_, layout_, state_, 1, step);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    manifest->spec = absl::StrCat(R"({"name":"job-1","task":"counting","steps":50,)",
                                  R"("optimizer":{"kind":"momentum"})", ema, "}");
    NumericEnvironment environment;
    environment.samples = 100;
    environment.data_hash = "d";
    environment.tensors = manifest->tensors;
    EXPECT_TRUE(WriteManifestFile(*files_, {.cluster = "c",
                                            .manifest = *manifest,
                                            .environment = environment,
                                            .lineages = {{LineageNumber(1), {}, {}, ""}}})
                    .ok());
    SavedModelPlace place;
    place.folder = folder_;
    place.manifest = ManifestFileOf(LineageNumber(1), Step(step));
    return place;
  }
  // Every tensor is what stands there in that slot of what was saved.
  void ExpectIs(const SavedState& saved, size_t slot_of_parameters) const {
    for (const Placed& tensor : layout_.tensors()) {
      const size_t slot = tensor.spec.kind == TensorKind::kParameter ? slot_of_parameters : 0;
      for (int64_t i = tensor.offset; i < tensor.offset + tensor.count; ++i) {
        const auto at = static_cast<size_t>(i);
        ASSERT_EQ(saved.model()[at], state_.slots[slot][at]) << tensor.spec.name << " " << i;
      }
    }
  }

  const std::string folder_ = testing::TempDir() + "saved-model-" + std::to_string(getpid());
  const std::unique_ptr<CheckpointFiles> files_ = CheckpointFilesIn(folder_);
  const Layout layout_ = UglyLayout();
  const State state_ = MakeState(layout_, 3);
};

TEST_F(SavedModelTest, TheMovingAverageStandsInTheParametersPlaceAndBuffersAreAsTheyAre) {
  SavedModelPlace place = Put(40, R"(,"ema":{"decay":0.5})");
  const auto values = LoadSavedState(place);
  ASSERT_TRUE(values.ok()) << values.status();
  ExpectIs(*values, 0);
  place.average = true;
  const auto average = LoadSavedState(place);
  ASSERT_TRUE(average.ok()) << average.status();
  ExpectIs(*average, 2);
}

TEST_F(SavedModelTest, AJobWithoutOneIsAnErrorWithItsFieldWhateverASettingSays) {
  SavedModelPlace place = Put(40, "");
  place.average = true;
  place.settings = {"ema.decay=0.5"};
  const absl::Status none = LoadSavedState(place).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("ema.decay"));
  place = Put(0, R"(,"ema":{"decay":0.5})");
  EXPECT_TRUE(LoadSavedState(place).ok());
  place.average = true;
  const absl::Status yet = LoadSavedState(place).status();
  EXPECT_EQ(yet.code(), absl::StatusCode::kFailedPrecondition) << yet;
  EXPECT_THAT(std::string(yet.message()), HasSubstr("begins with the first step"));
}

}  // namespace
}  // namespace muster::worker
