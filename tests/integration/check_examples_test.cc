// `muster check` of each example as its README has it: fit to run, with a gradient that is that of
// the loss, and in one sentence what is wrong with a parameter or with the data.
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "nlohmann/json.hpp"
#include "tests/integration/cluster.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using ::testing::HasSubstr;

constexpr char kMuster[] = MUSTER_PROGRAMS "/muster";
constexpr char kExamples[] = MUSTER_SOURCE "/examples";

void Make(const std::string& example, const std::string& to, std::vector<std::string> words) {
  words.insert(words.begin(),
               {"/usr/bin/python3", absl::StrCat(kExamples, "/", example, "/make_data.py"), to});
  Program make(words);
  ASSERT_EQ(make.End(), 0) << make.output();
}

struct Example {
  const char* name;  // of the plug-in
  const char* spec;  // in examples/
  std::string data;  // what is set for it; empty: it needs none
  const char* bad_parameter;
  const char* says_of_it;
  std::string bad_data;  // likewise; empty: its data cannot be bad
  const char* says_of_that = "";
};

class CheckExamplesTest : public testing::Test {
 protected:
  CheckExamplesTest() {
    setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    WriteFile(folder_ / "bad.csv", "1,2,3\n1,x,3\n");
    WriteFile(folder_ / "bad/data.bin", std::string(1000, 'x'));
    WriteFile(folder_ / "bad.tsv", "no pair\n");
    WriteFile(folder_ / "empty.h", "");
    Make("resnet", folder_ / "images", {});
    Make("translate", folder_ / "train.tsv", {"--lines", "200"});
  }
  std::string Paths(const std::string& path) { return absl::StrCat("data.paths=[", path, "]"); }

  std::vector<Example> Examples() {
    return {
        {"mlp", "plugin/mlp.yaml", Paths(absl::StrCat(kExamples, "/plugin/rows.csv")),
         "parameters.hidden=0", "parameters.hidden: 0 is out of range", Paths(folder_ / "bad.csv"),
         "line 2 (byte 6): column '2': 'x' is no number"},
        {"resnet", "resnet/resnet.yaml", Paths(folder_ / "images"), "parameters.width=0",
         "parameters.width: 0 is out of range", Paths(folder_ / "bad"),
         "data.bin: at byte 0: its last record is cut off"},
        {"translate", "translate/translate.yaml", Paths(folder_ / "train.tsv"),
         "parameters.heads=7", "parameters.heads: 7 does not divide width (64)",
         Paths(folder_ / "bad.tsv"), "line 1 of all files is not a source, a tab and a target"},
        {"code-lm", "code-lm/code-lm.yaml", "data.max_bytes=200000", "parameters.heads=7",
         "parameters.heads: 7 does not divide width (128)", Paths(folder_ / "empty.h"),
         "data.paths: no content in"},
        {"transformer", "transformer/transformer.yaml", "", "parameters.heads=5",
         "parameters.heads: 5 does not divide width (16)", ""},
    };
  }

  struct Said {
    int exit_code = -1;
    std::string text;
  };
  Said Check(const Example& example, std::vector<std::string> settings,
             std::vector<std::string> more) {
    std::vector<std::string> words = {kMuster, "check", absl::StrCat(kExamples, "/", example.spec),
                                      "--plugins",
                                      absl::StrCat(MUSTER_TEST_PLUGINS, "/example_", example.name)};
    for (const std::string& setting : settings)
      if (!setting.empty()) words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), more.begin(), more.end());
    Program program(words);
    const int code = program.End();
    return {code, program.output()};
  }

  const Folder folder_;
};

TEST_F(CheckExamplesTest, EachIsFitToRunAndItsGradientIsThatOfItsLoss) {
  for (const Example& example : Examples()) {
    SCOPED_TRACE(example.name);
    const Said said = Check(example, {example.data}, {"--gradients", "--json"});
    ASSERT_EQ(said.exit_code, kExitDone) << said.text;
    const auto report = nlohmann::json::parse(said.text);
    EXPECT_TRUE(report["problems"].empty());
    EXPECT_EQ(report["gradients"].size(), 20U);
    int agree = 0;
    for (const auto& gradient : report["gradients"]) {
      EXPECT_TRUE(gradient["agrees"] || !gradient["told"]) << gradient;
      agree += gradient["agrees"] ? 1 : 0;
    }
    EXPECT_GE(agree, 12) << "of 20, half of them by chance: " << report["gradients"];
    EXPECT_GT(report["samples"], 0);
    EXPECT_GT(report["memory"]["worker"], 1 << 20);
  }
}

TEST_F(CheckExamplesTest, ABadParameterIsNamed) {
  for (const Example& example : Examples()) {
    SCOPED_TRACE(example.name);
    const Said said = Check(example, {example.data, example.bad_parameter}, {});
    EXPECT_EQ(said.exit_code, kExitBadConfiguration);
    EXPECT_THAT(said.text, HasSubstr(example.says_of_it));
  }
}

TEST_F(CheckExamplesTest, BadDataIsNamed) {
  for (const Example& example : Examples()) {
    if (example.bad_data.empty()) continue;
    SCOPED_TRACE(example.name);
    const Said said = Check(example, {example.bad_data}, {});
    EXPECT_EQ(said.exit_code, kExitBadData);
    EXPECT_THAT(said.text, HasSubstr(example.says_of_that));
  }
}

}  // namespace
}  // namespace muster::integration
