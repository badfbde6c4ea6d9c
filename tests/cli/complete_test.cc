// What may come next on a command line, as the shells are told it.
#include "cli/complete.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/arguments_parts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/cgroup_tree.h"

namespace muster::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

using Words = std::vector<std::string>;

Words Offered(const Words& words) {
  Words offered;
  for (const Candidate& candidate : Complete(words).candidates) offered.push_back(candidate.word);
  return offered;
}

TEST(CompleteTest, Commands) {
  EXPECT_THAT(Offered({"st"}), ElementsAre("status", "stop"));
  EXPECT_THAT(Offered({}), Contains("doctor"));
  EXPECT_THAT(Offered({""}), Not(Contains("__complete")));
  EXPECT_THAT(Offered({"token", ""}), ElementsAre("make", "list", "host", "revoke"));
  EXPECT_THAT(Offered({"nothing", ""}), IsEmpty());
}

TEST(CompleteTest, OptionsOnceEach) {
  EXPECT_THAT(Offered({"watch", "--d"}), ElementsAre("--dir", "--details"));
  EXPECT_THAT(Offered({"watch", "--dir", "x", "--d"}), ElementsAre("--details"));
  EXPECT_THAT(Offered({"watch", "--dir=x", "--d"}), ElementsAre("--details"));
  EXPECT_THAT(Offered({"submit", "--set", "a=b", "--se"}), ElementsAre("--set"))
      << "it may be given again";
  EXPECT_THAT(Offered({"evaluate", "--t"}), ElementsAre("--to"));
  EXPECT_THAT(Offered({"generate", "--av"}), ElementsAre("--average"));
  EXPECT_THAT(Offered({"run", "--over"}), IsEmpty()) << "it is hidden";
  EXPECT_THAT(Offered({"run", "--node"}), ElementsAre("--nodes", "--node-rank", "--node"));
  EXPECT_THAT(Offered({"logs", "j", "--", "--f"}), IsEmpty());
}

TEST(CompleteTest, ValuesThatAreChoices) {
  EXPECT_THAT(Offered({"token", "make", "ada", "--role", ""}),
              ElementsAre("viewer", "submitter", "operator", "admin"));
  EXPECT_THAT(Offered({"token", "make", "ada", "--role=o"}), ElementsAre("--role=operator"));
  EXPECT_THAT(Offered({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(Offered({"up", "--devices", ""}), ElementsAre("auto", "none"));
  EXPECT_THAT(Offered({"list", "--state", "st"}), ElementsAre("starting", "stopping", "stopped"));
}

TEST(CompleteTest, WhatOthersKnow) {
  EXPECT_EQ(Complete({"train", ""}).also, AlsoFrom::kFiles);
  EXPECT_EQ(Complete({"train", "job.yaml", ""}).also, AlsoFrom::kNothing);
  EXPECT_EQ(Complete({"train", "--dir", ""}).also, AlsoFrom::kFolders);
  EXPECT_EQ(Complete({"watch", ""}).also, AlsoFrom::kJobs);
  EXPECT_EQ(Complete({"watch", "a", ""}).also, AlsoFrom::kNothing);
  EXPECT_EQ(Complete({"drain", ""}).also, AlsoFrom::kHosts);
  const Completion completion =
      Complete({"watch", "--to", "10.0.0.1:8080", "--authority=a.pem", "co"});
  EXPECT_EQ(completion.at.to, "10.0.0.1:8080");
  EXPECT_TRUE(completion.at.has_to);
  EXPECT_EQ(completion.at.authority, "a.pem");
  EXPECT_EQ(completion.typed, "co");
}

// Each option and argument with a value: its type and what it says of itself.
void ForEachValue(const CLI::App& app,
                  const std::function<void(const Words&, const CLI::Option&)>& call,
                  const Words& words = {}) {
  for (const CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0) call(words, *option);
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    Words below = words;
    below.push_back(command->get_name());
    ForEachValue(*command, call, below);
  }
}

// An option that is added to any command needs nothing here: its type says what it takes.
TEST(CompleteTest, EachOptionIsOfferedWithWhatItsTypeSays) {
  const CommandLine line;
  int looked_at = 0;
  ForEachValue(line.app, [&](Words words, const CLI::Option& option) {
    const std::string type = option.get_type_name();
    SCOPED_TRACE(absl::StrCat(words.empty() ? "" : words.back(), " ", option.get_name()));
    ++looked_at;
    if (option.get_positional() || option.get_group().empty()) return;
    const std::string name = "--" + option.get_lnames().front();
    words.push_back(name);
    EXPECT_THAT(Offered(words), Contains(name));
    words.emplace_back();
    const Completion completion = Complete(words);
    const bool is_folder = type == "DIR" || type == "FOLDER";
    const bool is_file = absl::StrContains(type, "FILE") || absl::EndsWith(type, ".yaml");
    EXPECT_EQ(completion.also == AlsoFrom::kFolders, is_folder) << type;
    EXPECT_EQ(completion.also == AlsoFrom::kFiles, is_file) << type;
    // The words of a choice are those that its own description lists.
    if (type == "STATE" || type == "LEVEL") {
      for (const Candidate& candidate : completion.candidates)
        EXPECT_TRUE(absl::StrContains(option.get_description(), candidate.word)) << candidate.word;
      const std::string& about = option.get_description();
      EXPECT_EQ(static_cast<size_t>(std::count(about.begin(), about.end(), ',')) + 2,
                completion.candidates.size())
          << about;
    }
  });
  EXPECT_GT(looked_at, 100);
}

TEST(CompleteTest, WithoutAClusterNothingIsSaid) {
  const CgroupTree files;
  const Completion of_none = Complete({"watch", "--to", "127.0.0.1:1", ""});
  EXPECT_THAT(FromCluster(of_none, {}, std::chrono::seconds(30)), IsEmpty());
  files.Write("/run/jobs/count-1/metrics.jsonl", "");
  const Completion at_rest = Complete({"audit", "--dir", files.root() + "/run", ""});
  ASSERT_EQ(FromCluster(at_rest, {}, std::chrono::seconds(30)).size(), 1u);
  EXPECT_EQ(FromCluster(at_rest, {}, std::chrono::seconds(30))[0].word, "count-1");
}

}  // namespace
}  // namespace muster::cli
