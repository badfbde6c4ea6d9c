// Checkpoints that are read from a cluster, against a coordinator that the test plays.
#include "cli/cluster_files.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/checkpoints.h"
#include "cli/export.h"
#include "cli/saved_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/whole_file.h"
#include "lib/checkpoint/kept_name.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/checkpoint/measure_file.h"
#include "lib/checkpoint/served_files.h"
#include "lib/http/target.h"
#include "nlohmann/json.hpp"
#include "tests/lib/checkpoint/support.h"

namespace muster::cli {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

constexpr ClusterFilesPatience kPatience{.whole = milliseconds(500), .pause = milliseconds(1)};

class ClusterFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(MakeDirectories(jobs_).ok());
    ASSERT_TRUE(files_->MakeFolder().ok());
    // Of more than a block, and of less.
    constexpr int64_t kMany = 3'000'000;
    const std::vector<TensorSpec> tensors = {{"large", {kMany}, TensorKind::kParameter},
                                             {"small", {3}, TensorKind::kParameter}};
    const Layout layout = *Layout::Make(tensors, kBytesOfChunk);
    for (const int64_t step : {20, 40}) {
      const State state = MakeState(layout, static_cast<uint64_t>(step), 0);
      const std::vector<PartView> parts = PartsOf<PartView>(layout, state);
      const auto segment = WriteSegment(*files_, SegmentFile(LineageNumber(1), Step(step), "w0"),
                                        {kJob, LineageNumber(1), Step(step)}, parts);
      ASSERT_TRUE(segment.ok()) << segment.status();
      Manifest manifest =
          MakeManifest(LineageNumber(1), Step(step), {*segment}, tensors, kBytesOfChunk);
      manifest.slots = 0;
      manifest.spec = R"({"name":"job-1","task":"counting","steps":50,"optimizer":{"kind":"sgd"}})";
      NumericEnvironment environment;
      environment.samples = 100;
      environment.data_hash = "d";
      environment.tensors = tensors;
      ASSERT_TRUE(WriteManifestFile(*files_, {.cluster = "c",
                                              .manifest = manifest,
                                              .environment = environment,
                                              .lineages = {{LineageNumber(1), {}, {}, ""}}})
                      .ok());
    }
    ASSERT_TRUE(WriteKeptName(*files_, LineageNumber(1), Step(20), "best").ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string SavedAt(int64_t step) {
    return absl::StrCat(
        R"({"checkpoint":"lineage-1-step-)", step, R"(","lineage":1,"step":)", step,
        R"(,"epoch":null,"bytes":12000000,"time":"2026-11-21T10:11:20.096Z",)",
        R"("complete":true,"why":null,"finite":true,"name":)", step == 20 ? R"("best")" : "null",
        R"(,"measure":null,"value":null,"best":false,"left_out":false,)", R"("deleting":false})");
  }
  // A page of one each.
  http::Response PageAfter(const std::map<std::string, std::string>& query) const {
    const auto token = query.find("page_token");
    if (!has_any_) return {.body = R"({"checkpoints":[],"next_page_token":""})"};
    if (token == query.end())
      return {.body = absl::StrCat(R"({"checkpoints":[)", SavedAt(20),
                                   R"(],"next_page_token":"lineage-1-step-20"})")};
    EXPECT_EQ(token->second, "lineage-1-step-20");
    return {.body = absl::StrCat(R"({"checkpoints":[)", SavedAt(40), R"(],"next_page_token":""})")};
  }
  absl::Status Do(CheckpointsArguments::Verb verb, const std::string& job,
                  const std::function<void(CheckpointsArguments&)>& change = nullptr) {
    CheckpointsArguments arguments;
    arguments.verb = verb;
    arguments.job = job;
    arguments.json = true;
    if (change) change(arguments);
    out_.str("");
    return CheckpointsOfCluster(arguments, Rest(), out_, kPatience);
  }
  nlohmann::json Said() const { return nlohmann::json::parse(out_.str()); }

  // As a coordinator does; `change` may change each answer about a file.
  RestClient Rest() {
    return RestClient([this](const std::string& method, const std::string& target,
                             const std::string& body) -> absl::StatusOr<http::Response> {
      const http::Target asked = *http::ParseTarget(target);
      if (asked.path == "/v1/jobs/job-1") return http::Response{.body = job_};
      if (asked.path == "/v1/jobs/job-1/checkpoints") return PageAfter(asked.query);
      if (absl::StartsWith(asked.path, "/v1/jobs/job-1/checkpoints/")) {
        changes_.push_back(absl::StrCat(method, " ", target, " ", body));
        return http::Response{.body = SavedAt(20)};
      }
      EXPECT_EQ(method, "GET");
      EXPECT_EQ(asked.path, "/v1/jobs/job-1/checkpoint");
      ++asked_;
      const std::string file = asked.query.at("file");
      const auto bytes = ReadWholeFile(files_->PathOf(file), size_t{1} << 26);
      http::Response response{.content_type = "application/octet-stream"};
      if (bytes.ok()) {
        const size_t offset = std::stoul(asked.query.at("offset"));
        const size_t most = std::stoul(asked.query.at("bytes"));
        EXPECT_LE(most, static_cast<size_t>(kClusterFileBlock));
        response.body = bytes->substr(std::min(offset, bytes->size()), most);
        response.headers = {{"Muster-File-Bytes", absl::StrCat(bytes->size())}};
      } else {
        response = http::ErrorResponse(absl::NotFoundError("job job-1 has no checkpoint of that"));
      }
      if (change_) change_(file, response);
      return response;
    });
  }
  absl::Status Export(const std::string& job, const std::string& step = "") {
    ExportArguments arguments;
    arguments.job = job;
    arguments.step = step;
    arguments.output = output_;
    arguments.remote.has_to = true;
    return ExportCheckpoint(arguments, Finder(), out_);
  }
  CheckpointFinder Finder() {
    return [this](const AnyCheckpointArguments& arguments) {
      return FindInCluster(arguments, Rest(), kPatience);
    };
  }
  static absl::StatusOr<FoundCheckpoint> Nowhere(const AnyCheckpointArguments&) {
    return absl::InternalError("it was looked for");
  }
  std::string Local(const std::string& step) {
    ExportArguments arguments;
    arguments.checkpoints = folder_ + "/checkpoints/job-1";
    arguments.step = step;
    arguments.output = folder_ + "/local";
    std::ostringstream out;
    const absl::Status done = ExportCheckpoint(arguments, FindCheckpoint, out);
    EXPECT_TRUE(done.ok()) << done;
    return ReadFile(arguments.output);
  }

  static constexpr int64_t kBytesOfChunk = 256 << 10;
  const std::string folder_ = testing::TempDir() + "cluster-files-" + std::to_string(getpid());
  const std::string jobs_ = folder_ + "/checkpoints";
  const std::unique_ptr<CheckpointFiles> files_ = CheckpointFilesIn(jobs_ + "/job-1");
  const std::string output_ = folder_ + "/out";
  bool has_any_ = true;  // checkpoints
  const std::string job_ =
      R"({"id":"job-1","state":"running","checkpoints":[{"lineage":1,"step":20},)"
      R"({"lineage":1,"step":40}]})";
  std::function<void(const std::string& file, http::Response& response)> change_;
  int asked_ = 0;
  std::vector<std::string> changes_;
  std::ostringstream out_;
};

TEST_F(ClusterFilesTest, AnExportIsTheSameAsFromTheFolder) {
  const absl::Status done = Export("job-1");
  ASSERT_TRUE(done.ok()) << done;
  const std::string local = Local("40");
  EXPECT_GT(local.size(), size_t{12'000'000});
  EXPECT_TRUE(ReadFile(output_) == local);
  EXPECT_LE(asked_, 7) << "a block at a time, and not a chunk";
  EXPECT_THAT(out_.str(), HasSubstr("step 40"));
  for (const char* job : {"job-1@20", "job-1@best"}) {
    ASSERT_TRUE(Export(job).ok());
    EXPECT_TRUE(ReadFile(output_) == Local("20")) << job;
  }
  ASSERT_TRUE(Export("job-1", "20").ok());
  EXPECT_TRUE(ReadFile(output_) == Local("20"));
}

TEST_F(ClusterFilesTest, WhatThereIsNotIsSaid) {
  EXPECT_THAT(std::string(Export("").message()), HasSubstr("say which job"));
  EXPECT_THAT(std::string(Export("job-1@30").message()),
              HasSubstr("job job-1 holds no checkpoint of step 30; there are those of 20, 40"));
  EXPECT_THAT(std::string(Export("job-1@worst").message()), HasSubstr("there are best"));
  has_any_ = false;
  const absl::Status none = Export("job-1");
  EXPECT_TRUE(absl::IsNotFound(none));
  EXPECT_EQ(none.message(), "job job-1 has no checkpoint yet");
  EXPECT_FALSE(std::filesystem::exists(output_));
}

TEST_F(ClusterFilesTest, ACoordinatorThatIsAwayForAWhileIsAskedAgain) {
  int failures = 0;
  change_ = [&](const std::string&, http::Response& response) {
    if (++failures % 3 != 0) response = http::ErrorResponse(absl::UnavailableError("begins"));
  };
  ASSERT_TRUE(Export("job-1").ok());
  EXPECT_TRUE(ReadFile(output_) == Local("40"));
  change_ = [&](const std::string&, http::Response& response) {
    response = http::ErrorResponse(absl::UnavailableError("it is down"));
  };
  const absl::Status away = Export("job-1");
  EXPECT_TRUE(absl::IsUnavailable(away)) << away;
  EXPECT_TRUE(ReadFile(output_) == Local("40")) << "the file before stays";
}

TEST_F(ClusterFilesTest, ACheckpointThatGoesMeanwhileIsOneClearSentence) {
  const std::string gone =
      "the checkpoint of step 40 of job job-1 is not there any more: it went while it was read, "
      "as newer ones came; try again, or keep more of them (checkpoint.keep of the job)";
  for (const int after : {0, 1, 2, 3}) {
    int answers = 0;
    change_ = [&](const std::string&, http::Response& response) {
      if (answers++ >= after)
        response = http::ErrorResponse(absl::NotFoundError("there is no such checkpoint"));
    };
    const absl::Status failed = Export("job-1");
    EXPECT_EQ(failed.code(), absl::StatusCode::kFailedPrecondition) << after;
    // Where a part of it was being read, the place stands before.
    EXPECT_THAT(std::string(failed.message()), EndsWith(gone)) << after;
  }
  EXPECT_FALSE(std::filesystem::exists(output_));
}

TEST_F(ClusterFilesTest, OddAnswersAreErrorsAndNoFile) {
  struct Case {
    const char* what;
    std::function<void(http::Response&)> change;
    absl::StatusCode code;
  };
  const Case cases[] = {
      {"a byte is another one", [](http::Response& r) { r.body[r.body.size() / 2] ^= 1; },
       absl::StatusCode::kDataLoss},
      {"less than was asked for", [](http::Response& r) { r.body.pop_back(); },
       absl::StatusCode::kDataLoss},
      {"more than was asked for", [](http::Response& r) { r.body += "x"; },
       absl::StatusCode::kDataLoss},
      {"no size", [](http::Response& r) { r.headers.clear(); }, absl::StatusCode::kInternal},
      {"a size that is none", [](http::Response& r) { r.headers.front().second = "-1"; },
       absl::StatusCode::kInternal},
      {"a size that is another one",
       [](http::Response& r) { r.headers.front().second = "99999999999"; },
       absl::StatusCode::kDataLoss},
      {"not allowed",
       [](http::Response& r) { r = http::ErrorResponse(absl::PermissionDeniedError("no")); },
       absl::StatusCode::kPermissionDenied},
  };
  for (const Case& c : cases) {
    for (const char* of : {"checkpoint.manifest", ".segment"}) {
      change_ = [&](const std::string& file, http::Response& response) {
        if (absl::EndsWith(file, of)) c.change(response);
      };
      const absl::Status failed = Export("job-1");
      EXPECT_EQ(failed.code(), c.code) << c.what << " of " << of << ": " << failed;
      EXPECT_FALSE(std::filesystem::exists(output_)) << c.what;
    }
  }
}

TEST_F(ClusterFilesTest, ItIsOnlyRead) {
  const std::unique_ptr<CheckpointFiles> files =
      FilesOfCheckpoint(Rest(), "job-1", {LineageNumber(1), Step(20)}, kPatience);
  EXPECT_FALSE(files->Remove("lineage-1-step-20/checkpoint.manifest").ok());
  EXPECT_FALSE(files->Replace("lineage-1-step-20/checkpoint.manifest", "").ok());
  EXPECT_EQ(asked_, 0);
}

TEST_F(ClusterFilesTest, APromptThatNoWordCanHoldIsRefused) {
  GenerateArguments generate;
  generate.job = "job-1";
  generate.prompt = std::string(64 << 10, '\xff');
  EXPECT_TRUE(GenerateCommand(generate, {}, Finder()).ok());
  generate.prompt += "x";
  const absl::Status refused = GenerateCommand(generate, {}, Nowhere).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_EQ(refused.message(), "--prompt: has 65537 bytes; allowed: at most 65536");
}

// A worker sees no folder and has no token: it asks the process that has started it.
TEST_F(ClusterFilesTest, AWorkerReadsWhatItsCommandServes) {
  EvaluateArguments evaluate;
  evaluate.job = "job-1@best";
  evaluate.average = true;
  GenerateArguments generate;
  generate.job = "job-1";
  generate.step = "20";
  ExportArguments archive;
  archive.job = "job-1@20";
  archive.output = output_;
  const absl::StatusOr<WorkerCommand> commands[] = {EvaluateCommand(evaluate, {}, Finder()),
                                                    GenerateCommand(generate, {}, Finder()),
                                                    ExportCommand(archive, Finder())};
  for (const absl::StatusOr<WorkerCommand>& command : commands) {
    ASSERT_TRUE(command.ok()) << command.status();
    EXPECT_EQ(std::count(command->words.begin(), command->words.end(), "--average"),
              command->words[0] == "evaluate" ? 1 : 0);
  }
  const std::string manifest = "lineage-1-step-20/checkpoint.manifest";
  const auto expected = ReadManifestFile(*files_, manifest);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const Layout layout = *LayoutOf(expected->manifest);
  for (const absl::StatusOr<WorkerCommand>& command : commands) {
    ASSERT_TRUE(command.ok()) << command.status();
    EXPECT_THAT(std::vector<std::string>(command->words.begin() + 1, command->words.begin() + 5),
                ElementsAre("--checkpoints", "job job-1", "--manifest", manifest));
    ASSERT_NE(command->files, nullptr);
    asked_ = 0;
    std::pair<Descriptor, Descriptor> ends = *NewFileSocket();
    std::thread serves([&] { ServeFiles(*command->files, ends.first); });
    {
      const std::unique_ptr<CheckpointFiles> served =
          ServedFiles(std::move(ends.second), "job job-1");
      const auto read = ReadManifestFile(*served, manifest);
      EXPECT_EQ(read.status(), absl::OkStatus());
      if (read.ok()) {
        EXPECT_EQ(read->manifest, expected->manifest);
        const absl::StatusOr<State> state = LoadWhole(*served, read->manifest, layout);
        EXPECT_EQ(state.status(), absl::OkStatus());
        if (state.ok()) {
          EXPECT_TRUE(*state == *LoadWhole(*files_, expected->manifest, layout));
        }
      }
    }
    serves.join();
    EXPECT_LE(asked_, 7) << "a block at a time, and not a chunk";
  }
}

// Whoever reads it is told what an export is told.
TEST_F(ClusterFilesTest, ACheckpointThatGoesWhileAWorkerReadsIsTheSameSentence) {
  EvaluateArguments evaluate;
  evaluate.job = "job-1";
  const absl::StatusOr<WorkerCommand> command = EvaluateCommand(evaluate, {}, Finder());
  ASSERT_TRUE(command.ok()) << command.status();
  change_ = [&](const std::string& file, http::Response& response) {
    if (absl::EndsWith(file, ".segment"))
      response = http::ErrorResponse(absl::NotFoundError("there is no such checkpoint"));
  };
  const auto manifest = ReadManifestFile(*command->files, command->words[4]);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const absl::Status gone =
      LoadWhole(*command->files, manifest->manifest, *LayoutOf(manifest->manifest)).status();
  EXPECT_EQ(gone.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(gone.message()), HasSubstr("as newer ones came; try again"));
}

TEST_F(ClusterFilesTest, CheckpointsAreListedShownAndVerifiedAsOfAFolder) {
  using Verb = CheckpointsArguments::Verb;
  ASSERT_TRUE(Do(Verb::kList, "job-1").ok());
  ASSERT_EQ(Said()["checkpoints"].size(), 2u) << "both pages";
  EXPECT_EQ(Said()["job"], "job-1");
  EXPECT_EQ(Said()["checkpoints"][0]["name"], "best");
  EXPECT_EQ(Said()["checkpoints"][1]["time"], "2026-11-21T10:11:20Z");
  ASSERT_TRUE(Do(Verb::kList, "job-1", [](auto& given) { given.json = false; }).ok());
  EXPECT_THAT(out_.str(), HasSubstr("complete"));
  ASSERT_TRUE(Do(Verb::kShow, "job-1").ok());
  EXPECT_EQ(Said()["step"], 40) << "the newest";
  EXPECT_EQ(Said()["tensors"].size(), 2u);
  EXPECT_EQ(Said()["bytes"], 12'000'000) << "no folder is listed there";
  ASSERT_TRUE(Do(Verb::kShow, "job-1@best").ok());
  EXPECT_EQ(Said()["step"], 20);
  ASSERT_TRUE(Do(Verb::kVerify, "job-1").ok());
  EXPECT_EQ(Said()["checkpoints"].size(), 2u);
  change_ = [](const std::string& file, http::Response& response) {
    if (file == "lineage-1-step-20/w0.segment") response.body[response.body.size() / 2] ^= 1;
  };
  const absl::Status damaged = Do(Verb::kVerify, "job-1");
  EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
  EXPECT_EQ(Said()["checkpoints"][0]["sound"], false);
  EXPECT_EQ(Said()["checkpoints"][1]["sound"], true);
  EXPECT_TRUE(Do(Verb::kVerify, "job-1", [](auto& given) { given.step = "40"; }).ok());
  EXPECT_TRUE(changes_.empty());
}

// The same of a folder and of a cluster: the state is whole, and what stands beside it is not.
TEST_F(ClusterFilesTest, ANameOrAMeasureThatCannotBeReadIsDamage) {
  using Verb = CheckpointsArguments::Verb;
  const auto in_folder = [&](Verb verb, const std::string& step) {
    CheckpointsArguments arguments;
    arguments.verb = verb;
    arguments.checkpoints = jobs_ + "/job-1";
    arguments.step = step;
    arguments.json = true;
    out_.str("");
    const auto nowhere = [](const auto&...) { return absl::InternalError("nothing goes"); };
    return Checkpoints(arguments, nowhere, nowhere, out_);
  };
  const LineageNumber lineage(1);
  ASSERT_TRUE(in_folder(Verb::kVerify, "").ok());
  ASSERT_TRUE(Do(Verb::kVerify, "job-1").ok());
  ASSERT_TRUE(files_->Replace(MeasureFileOf(lineage, Step(40)), "validation.loss").ok());
  ASSERT_TRUE(files_->Replace(KeptFileOf(lineage, Step(20)), "b\nst").ok());
  for (const bool of_cluster : {false, true}) {
    const absl::Status damaged =
        of_cluster ? Do(Verb::kVerify, "job-1") : in_folder(Verb::kVerify, "");
    EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
    EXPECT_THAT(std::string(damaged.message()), HasSubstr("step-20/checkpoint.kept"));
    const auto all = Said()["checkpoints"];
    ASSERT_EQ(all.size(), 2u);
    EXPECT_THAT(all[0].value("why", ""), HasSubstr("step-20/checkpoint.kept"));
    EXPECT_THAT(all[1].value("why", ""), HasSubstr("step-40/checkpoint.measure"));
  }
  ASSERT_TRUE(in_folder(Verb::kList, "").ok());
  EXPECT_THAT(Said()["checkpoints"][0]["damaged"][0].get<std::string>(),
              HasSubstr("step-20/checkpoint.kept"));
  const absl::Status may_have_it = in_folder(Verb::kShow, "best");
  EXPECT_TRUE(absl::IsDataLoss(may_have_it)) << may_have_it;
  const absl::Status has_a_name = in_folder(Verb::kDelete, "20");
  EXPECT_TRUE(absl::IsFailedPrecondition(has_a_name)) << has_a_name;
  EXPECT_THAT(std::string(has_a_name.message()), HasSubstr("by a name that cannot be read"));
}

// Whoever shows it and whoever reads its state take the same one.
TEST_F(ClusterFilesTest, WhereTheNewestIsIncompleteTheOneBeforeIsTaken) {
  const std::string segment = files_->PathOf(SegmentFile(LineageNumber(1), Step(40), "w0"));
  std::filesystem::resize_file(segment, 100);
  CheckpointsArguments arguments;
  arguments.verb = CheckpointsArguments::Verb::kShow;
  arguments.checkpoints = jobs_ + "/job-1";
  arguments.json = true;
  ASSERT_TRUE(Checkpoints(arguments, nullptr, nullptr, out_).ok());
  EXPECT_EQ(Said()["step"], 20);
  const auto found = FindCheckpoint(arguments);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->manifest, "lineage-1-step-20/checkpoint.manifest");
  EXPECT_THAT(found->note, HasSubstr("that of step 40 is newer and passed over"));
  arguments.step = "40";
  const absl::Status asked = FindCheckpoint(arguments).status();
  EXPECT_TRUE(absl::IsDataLoss(asked)) << asked;
  EXPECT_THAT(std::string(asked.message()), HasSubstr("step 40 is not complete"));
}

TEST_F(ClusterFilesTest, KeepingAndDeletingAreAskedOfTheCoordinator) {
  using Verb = CheckpointsArguments::Verb;
  const auto keep = Do(Verb::kKeep, "job-1@20", [](auto& given) { given.name = "mine"; });
  ASSERT_TRUE(keep.ok()) << keep;
  ASSERT_TRUE(Do(Verb::kKeep, "job-1@20", [](auto& given) { given.release = true; }).ok());
  ASSERT_TRUE(Do(Verb::kDelete, "job-1@best").ok());
  EXPECT_EQ(Said()["deleted"], 20);
  ASSERT_TRUE(Do(Verb::kDelete, "job-1@40", [](auto& given) { given.force = true; }).ok());
  const std::string path = "/v1/jobs/job-1/checkpoints/lineage-1-step-";
  EXPECT_THAT(changes_, ElementsAre("PATCH " + path + R"(20 {"name":"mine"})",
                                    "PATCH " + path + R"(20 {"name":null})",
                                    "DELETE " + path + "20 ", "DELETE " + path + "40?force=true "));
  changes_.clear();
  EXPECT_THAT(std::string(Do(Verb::kDelete, "job-1").message()), HasSubstr("which checkpoint?"));
  EXPECT_THAT(std::string(Do(Verb::kKeep, "job-1").message()), HasSubstr("write --name"));
  for (const char* name : {"latest", "never", "12", "Mine"}) {
    const absl::Status refused =
        Do(Verb::kKeep, "job-1@20", [&](auto& given) { given.name = name; });
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("--name: "), HasSubstr("neither latest nor never")));
  }
  EXPECT_THAT(std::string(Do(Verb::kList, "").message()), HasSubstr("say which job"));
  EXPECT_TRUE(absl::IsNotFound(Do(Verb::kDelete, "job-1@30")));
  EXPECT_TRUE(changes_.empty());
}

TEST_F(ClusterFilesTest, ACommandWithoutAJobOrWithAWrongWordAsksNobody) {
  const absl::Status without = EvaluateCommand({}, {}, Finder()).status();
  EXPECT_EQ(without.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(without.message()), HasSubstr("say which job"));
  ExportArguments archive;
  archive.output = output_;
  archive.optimizer = true;
  EXPECT_THAT(std::string(ExportCommand(archive, Nowhere).status().message()),
              HasSubstr("take --format pt or safetensors"));
  archive.optimizer = false;
  archive.output = folder_;
  EXPECT_THAT(std::string(ExportCommand(archive, Nowhere).status().message()),
              HasSubstr("is a folder, and no file; name one"));
  EXPECT_EQ(asked_, 0);
}

}  // namespace
}  // namespace muster::cli
