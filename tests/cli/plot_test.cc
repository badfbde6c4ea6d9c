#include "cli/plot.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/job_history.h"
#include "cli/remote.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/file_lock.h"
#include "lib/base/whole_file.h"
#include "lib/tensorboard/run.h"
#include "lib/wire/job_codec.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using Json = nlohmann::json;

std::string Folder() {
  std::string folder = ::testing::TempDir() + "/plot-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) std::abort();
  return folder;
}

// What stands in the history that answers, by target without what follows a '?'.
using Answers = std::map<std::string, std::vector<Json>>;

// Gives one page after the other of each, and of the last one again and again.
Exchange Answering(Answers answers) {
  auto left = std::make_shared<Answers>(std::move(answers));
  return [left](const std::string&, const std::string& target,
                const std::string&) -> absl::StatusOr<http::Response> {
    const auto found = left->find(target.substr(0, target.find('?')));
    if (found == left->end())
      return http::Response{.status = 404,
                            .body = R"({"error":{"code":"NOT_FOUND","message":"no such job"}})"};
    std::vector<Json>& pages = found->second;
    http::Response answer{.status = 200, .body = pages.front().dump()};
    if (pages.size() > 1) pages.erase(pages.begin());
    return answer;
  };
}

Json Page(const std::vector<std::pair<int, double>>& losses, const Json& next = nullptr) {
  Json steps = Json::array();
  for (const auto& [step, loss] : losses)
    steps.push_back({{"step", step}, {"lineage", 1}, {"loss", loss}, {"learning_rate", 0.5}});
  return {{"steps", steps}, {"next", next}};
}

class PlotTest : public ::testing::Test {
 protected:
  ~PlotTest() override { std::filesystem::remove_all(folder_); }

  int Run(RemoteArguments arguments, Answers answers) {
    arguments.command = RemoteArguments::Command::kPlot;
    if (arguments.output.empty()) arguments.output = folder_ + "/loss.html";
    const FolderOpener open = [&](const std::string&) { return Answering(answers); };
    return Remote(arguments, {.out = out_, .err = err_}, nullptr, open);
  }
  // Of the page: name and values of each curve.
  std::map<std::string, std::vector<double>> Curves() const {
    const std::string page = *ReadWholeFile(folder_ + "/loss.html");
    const std::string begin = "id=\"chart\">";
    const size_t at = page.find(begin) + begin.size();
    std::map<std::string, std::vector<double>> curves;
    const Json chart = Json::parse(page.substr(at, page.find("</script>", at) - at));
    for (const Json& curve : chart["curves"])
      curves[curve["name"]] = curve["y"].get<std::vector<double>>();
    return curves;
  }

  const std::string folder_ = Folder();
  std::ostringstream out_, err_;
};

TEST_F(PlotTest, AllPagesOfAHistoryMakeACurve) {
  EXPECT_EQ(Run({.dir = folder_, .has_dir = true, .jobs = {"a"}, .dirs = {folder_}},
                {{"/v1/jobs/a/history", {Page({{0, 3}, {1, 2}}, 2), Page({{2, 1}})}}}),
            0)
      << err_.str();
  EXPECT_THAT(Curves(), ElementsAre(Pair("a", ElementsAre(3, 2, 1))));
  EXPECT_EQ(out_.str(), absl::StrCat(folder_, "/loss.html: loss of a\n"));
}

TEST_F(PlotTest, WhatARewindLeavesOutMeanwhileIsNotShown) {
  EXPECT_EQ(Run({.dir = folder_, .has_dir = true, .jobs = {"a"}, .dirs = {folder_}},
                {{"/v1/jobs/a/history", {Page({{0, 3}, {1, 2}, {2, 9}}, 3), Page({{1, 1.5}})}}}),
            0);
  EXPECT_THAT(Curves(), ElementsAre(Pair("a", ElementsAre(3, 1.5))));
}

TEST_F(PlotTest, FoldersStandForAllTheirJobs) {
  const std::string other = Folder();
  EXPECT_EQ(Run({.dir = folder_, .has_dir = true, .dirs = {folder_, other, other}},
                {{"/v1/jobs", {Json::parse(R"({"jobs":[{"id":"a"}]})")}},
                 {"/v1/jobs/a/history", {Page({{0, 3}})}}}),
            0)
      << err_.str();
  // Their names are drawn: either may sort before the other.
  EXPECT_THAT(Curves(), testing::UnorderedElementsAre(
                            Pair(absl::StrCat("a (", folder_, ")"), ElementsAre(3)),
                            Pair(absl::StrCat("a (", other, ") #1"), ElementsAre(3)),
                            Pair(absl::StrCat("a (", other, ") #2"), ElementsAre(3))));
  std::filesystem::remove_all(other);
}

TEST_F(PlotTest, SeveralSeriesStandOnOneAxis) {
  EXPECT_EQ(Run({.dir = folder_,
                 .has_dir = true,
                 .jobs = {"a"},
                 .dirs = {folder_},
                 .series = {"loss", "learning_rate"}},
                {{"/v1/jobs/a/history", {Page({{0, 3}})}}}),
            0);
  EXPECT_THAT(Curves(), ElementsAre(Pair("a learning_rate", ElementsAre(0.5)),
                                    Pair("a loss", ElementsAre(3))));
}

TEST_F(PlotTest, AnSvgIsAPictureAlone) {
  const std::string path = folder_ + "/loss.svg";
  EXPECT_EQ(Run({.dir = folder_, .has_dir = true, .jobs = {"a"}, .dirs = {folder_}, .output = path},
                {{"/v1/jobs/a/history", {Page({})}}}),
            0);
  EXPECT_THAT(*ReadWholeFile(path), AllOf(HasSubstr("<svg "), Not(HasSubstr("<script"))));
  EXPECT_THAT(out_.str(), HasSubstr("note: a has no step yet\n"));
}

TEST_F(PlotTest, ASeriesThatNoJobHasIsNoPicture) {
  RemoteArguments arguments{.dir = folder_,
                            .has_dir = true,
                            .jobs = {"a", "b"},
                            .dirs = {folder_},
                            .series = {"validation.loss"}};
  EXPECT_EQ(Run(arguments, {{"/v1/jobs/a/history", {Page({{0, 3}, {1, 2}})}},
                            {"/v1/jobs/b/history", {Page({{0, 3}})}}}),
            64);
  EXPECT_THAT(err_.str(), HasSubstr("--series: a and b have no validation.loss"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/loss.html"));
  // Of several jobs some may have it.
  Json measured = Page({{0, 3}});
  measured["steps"][0]["validation"].push_back({{"metric", "loss"}, {"value", 0.5}});
  EXPECT_EQ(Run(arguments, {{"/v1/jobs/a/history", {Page({{0, 3}, {1, 2}})}},
                            {"/v1/jobs/b/history", {measured}}}),
            0)
      << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("note: a has no validation.loss\n"));
  arguments.series = {"loss", "validation.loss"};
  EXPECT_EQ(Run(arguments, {{"/v1/jobs/a/history", {Page({{0, 3}})}},
                            {"/v1/jobs/b/history", {Page({{0, 3}})}}}),
            0)
      << err_.str();
}

TEST_F(PlotTest, WhatThereIsNotIsSaid) {
  const RemoteArguments a{.dir = folder_, .has_dir = true, .jobs = {"a"}, .dirs = {folder_}};
  RemoteArguments odd = a;
  odd.output = folder_ + "/loss.png";
  EXPECT_EQ(Run(odd, {}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("loss.png is to end in .svg or .html"));
  odd = a;
  odd.series = {"los"};
  EXPECT_EQ(Run(odd, {}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("--series: there is no 'los'; there are loss, "));
  odd.series = {"loss", "validation.loss", "loss"};
  EXPECT_EQ(Run(odd, {}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("--series: 'loss' is named twice"));
  EXPECT_NE(Run(a, {}), 0);
  EXPECT_THAT(err_.str(), HasSubstr("no such job"));
  odd = a;
  odd.jobs.clear();
  EXPECT_NE(Run(odd, {{"/v1/jobs", {Json::parse(R"({"jobs":[]})")}}}), 0);
  EXPECT_THAT(err_.str(), HasSubstr("there is no job in " + folder_));
  odd = a;
  odd.output = folder_ + "/none/loss.svg";
  EXPECT_EQ(Run(odd, {{"/v1/jobs/a/history", {Page({{0, 3}})}}}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("none/loss.svg' cannot be made: there is no folder '"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/none"));
}

// A pipe and a link became files, and a folder was called one that Muster keeps.
TEST_F(PlotTest, WhatIsNoFileIsNotReplaced) {
  const Answers answers = {{"/v1/jobs/a/history", {Page({{0, 3}})}}};
  RemoteArguments arguments{.dir = folder_, .has_dir = true, .jobs = {"a"}, .dirs = {folder_}};
  arguments.output = folder_ + "/pipe.svg";
  ASSERT_EQ(mkfifo(arguments.output.c_str(), 0600), 0);
  EXPECT_EQ(Run(arguments, answers), 64);
  EXPECT_THAT(err_.str(), HasSubstr("pipe.svg' is no file; name one"));
  EXPECT_TRUE(std::filesystem::is_fifo(arguments.output));
  arguments.output = folder_ + "/dir.svg";
  std::filesystem::create_directory(arguments.output);
  EXPECT_EQ(Run(arguments, answers), 64);
  EXPECT_THAT(err_.str(), HasSubstr("dir.svg' is a folder, and no file; name one"));
  arguments.output = folder_ + "/link.svg";
  std::filesystem::create_symlink("real.svg", arguments.output);
  EXPECT_EQ(Run(arguments, answers), 64);
  EXPECT_THAT(err_.str(), HasSubstr("link.svg' is a symbolic link that leads to no file"));
  ASSERT_TRUE(ReplaceFile(folder_ + "/real.svg", "old").ok());
  EXPECT_EQ(Run(arguments, answers), 0) << err_.str();
  EXPECT_TRUE(std::filesystem::is_symlink(arguments.output));
  EXPECT_THAT(*ReadWholeFile(folder_ + "/real.svg"), HasSubstr("<svg "));
  arguments.command = RemoteArguments::Command::kTensorBoard;
  arguments.output = folder_ + "/real.svg";
  EXPECT_EQ(Remote(arguments, {.out = out_, .err = err_}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("real.svg' is no folder; name one"));
}

TEST_F(PlotTest, ARunOfTensorBoardIsOfTheHistoryAsItIsAtTheEnd) {
  JobSpec spec;
  spec.training.task = "counting";
  spec.training.data.samples = 10;
  spec.training.steps = 3;
  spec.training.optimizer.learning_rate = 0.5;
  spec = *Complete(spec);
  const Json job = {
      {"id", "a"}, {"state", "failed"}, {"sample", "made"}, {"spec", Json::parse(ToJson(spec))}};
  const Answers answers = {
      {"/v1/jobs/a", {job}},
      {"/v1/jobs/a/history", {Page({{0, 3}, {1, 2}, {2, 9}}, 3), Page({{1, 1.5}})}}};
  const FolderOpener open = [&](const std::string&) { return Answering(answers); };
  const auto run = [&] {
    return Remote({.command = RemoteArguments::Command::kTensorBoard,
                   .dir = folder_,
                   .has_dir = true,
                   .jobs = {"a"},
                   .dirs = {folder_},
                   .output = folder_ + "/board"},
                  {.out = out_, .err = err_}, nullptr, open);
  };
  EXPECT_EQ(run(), 0) << err_.str();
  EXPECT_EQ(out_.str(), folder_ + "/board/a: 2 steps\n");
  const std::string file = folder_ + "/board/a/events.out.tfevents.00000000000000000000.muster";
  const std::string bytes = *ReadWholeFile(file);
  EXPECT_EQ(bytes, tensorboard::BeginRun("a", spec, 0) +
                       tensorboard::StepValues({.step = 0, .loss = 3, .learning_rate = 0.5}) +
                       tensorboard::StepValues({.step = 1, .loss = 1.5, .learning_rate = 0.5}) +
                       tensorboard::End(0, 1, tensorboard::Status::kFailure) +
                       tensorboard::Sample(0, 1, "made"));
  const auto another = LockFile(TemporaryOf(file));
  ASSERT_TRUE(another.ok()) << another.status();
  EXPECT_EQ(run(), 64);
  EXPECT_THAT(err_.str(), HasSubstr("is written by another command now; wait for it to end"));
}

// One took the place of the other, without a word.
TEST_F(PlotTest, TwoRunsThatWouldBeOneFolderAreRefused) {
  JobSpec spec;
  spec.runtime.name = "count";
  spec.training.task = "counting";
  spec.training.steps = 3;
  spec.training.batch = 2;
  spec = *Complete(spec);
  const Json job = {
      {"id", "a"}, {"state", "done"}, {"sample", ""}, {"spec", Json::parse(ToJson(spec))}};
  const FolderOpener open = [&](const std::string&) {
    return Answering({{"/v1/jobs/a", {job}}, {"/v1/jobs/a/history", {Page({{0, 3}})}}});
  };
  const std::string one = folder_ + "/s/a_c", other = folder_ + "/s_a/c";
  ASSERT_TRUE(std::filesystem::create_directories(one));
  ASSERT_TRUE(std::filesystem::create_directories(other));
  EXPECT_EQ(Remote({.command = RemoteArguments::Command::kTensorBoard,
                    .dir = one,
                    .has_dir = true,
                    .jobs = {"a"},
                    .dirs = {one, other},
                    .output = folder_ + "/board"},
                   {.out = out_, .err = err_}, nullptr, open),
            64);
  EXPECT_THAT(err_.str(),
              HasSubstr(absl::StrCat("a (", other, ") and a (", one, ") would both be ")));
}

TEST(JobHistoryTest, TheNewestLossesOfAFile) {
  const std::string folder = Folder();
  const std::string path = folder + "/metrics.jsonl";
  EXPECT_TRUE(NewestLosses(path).empty());
  std::string lines =
      "theirs\n[3]\n{\"step\":0,\"loss\":0.5}\n"
      "{\"step\":1,\"loss\":null,\"validation.loss\":0.75}\n";
  ASSERT_TRUE(ReplaceFile(path, lines + "{\"step\":2,\"lo").ok());
  std::vector<LossAtStep> losses = NewestLosses(path);
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[0].step, 0);
  EXPECT_EQ(losses[0].loss, 0.5);
  EXPECT_FALSE(losses[1].loss == losses[1].loss) << "not a number";
  EXPECT_EQ(losses[0].validation_loss, std::nullopt);
  EXPECT_EQ(losses[1].validation_loss, 0.75);
  // Of a long one the end.
  for (int step = 2; step < 200'000; ++step)
    absl::StrAppend(&lines, "{\"step\":", step, ",\"loss\":0.25}\n");
  ASSERT_TRUE(ReplaceFile(path, lines).ok());
  losses = NewestLosses(path);
  EXPECT_EQ(losses.back().step, 199'999);
  EXPECT_GT(losses.front().step, 1'000);
  EXPECT_EQ(losses.size(), static_cast<size_t>(200'000 - losses.front().step));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace muster::cli
