#include "worker/commands/task_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/task/registry.h"

namespace muster::worker {
namespace {

using testing::HasSubstr;

ListedTask OwnTask() {
  TaskInfo info{.name = "mlp", .help = "layers", .data_needed = true};
  info.parameters = {TaskParameter::Integers("hidden", {64, 32}, 1, 4096, "sizes"),
                     TaskParameter::Text("activation", "relu", {"relu", "tanh"}, "between layers"),
                     TaskParameter::Boolean("bias", true, "whether there is one")};
  return {info, "build/mlp.so"};
}

TEST(TaskTextTest, AListHasALineForEachTask) {
  EXPECT_EQ(TasksAsText({{{.name = "counting", .help = "counts"}, ""}, OwnTask()}),
            "counting  counts\n"
            "mlp       layers (build/mlp.so)\n");
}

TEST(TaskTextTest, OneTaskIsToldWithItsParameters) {
  EXPECT_EQ(TaskAsText(OwnTask()),
            "mlp: layers\n"
            "It is brought by build/mlp.so.\n"
            "It reads the files of data.paths.\n"
            "parameters:\n"
            "  hidden: [64,32]\n"
            "      list of integers, 1 to 4096. sizes\n"
            "  activation: \"relu\"\n"
            "      text, relu, tanh. between layers\n"
            "  bias: true\n"
            "      boolean. whether there is one\n");
}

TEST(TaskTextTest, OneThatSaysNothingOfItselfHasItsNameAlone) {
  EXPECT_THAT(TaskAsText({{.name = "own"}, ""}), testing::StartsWith("own\nIt "));
}

TEST(TaskTextTest, LayersAreToldWithWhatTheyTake) {
  const ListedTask task = {*FindTask("layers"), "", LayersThereAre()};
  const std::string text = TaskAsText(task);
  EXPECT_THAT(text, HasSubstr("  conv2d: learned filters over channels, height and width\n"
                              "      channels: needed; integer, 1 to 1048576. filters, each of "
                              "which makes a channel\n"));
  EXPECT_THAT(text, HasSubstr("      padding: 0; integer, 0 to 1048576. "));
  EXPECT_THAT(text, HasSubstr("      share: needed; real, 0 to 0.95. of the numbers that become 0; "
                              "dropout: … alone is this\n"));
  EXPECT_THAT(text, HasSubstr("      join: \"concatenate\"; text, sum, concatenate. "));
  for (const LayerHelp& layer : LayersThereAre())
    EXPECT_THAT(text, HasSubstr("\n  " + layer.name + ": " + layer.help + "\n"));
  const auto json = nlohmann::json::parse(TasksAsJson({task}))["tasks"][0]["layers"];
  ASSERT_EQ(json.size(), LayersThereAre().size());
  EXPECT_EQ(json[0]["name"], "linear");
  EXPECT_EQ(json[0]["bare"], "size");
  EXPECT_EQ(json[0]["parameters"][0]["max"], 1048576);
  EXPECT_FALSE(json[0]["parameters"][0].contains("default"));
  EXPECT_EQ(json[0]["parameters"][1]["default"], true);
}

// It was the text "[]" within JSON.
TEST(TaskTextTest, AStructureIsOneForProgramsToo) {
  TaskInfo info{.name = "net", .help = "of blocks"};
  info.parameters = {TaskParameter::Structure("blocks", R"([{"size":3},"relu"])", "in order"),
                     TaskParameter::Text("note", "[1]", {}, "any")};
  const auto parameters =
      nlohmann::json::parse(TasksAsJson({{info, "net.so"}}))["tasks"][0]["parameters"];
  EXPECT_EQ(parameters[0]["type"], "structure");
  EXPECT_EQ(parameters[0]["default"], nlohmann::json::parse(R"([{"size":3},"relu"])"));
  EXPECT_EQ(parameters[1]["type"], "text");
  EXPECT_EQ(parameters[1]["default"], "[1]") << "a text stays one";
  EXPECT_THAT(TaskAsText({info, "net.so"}),
              HasSubstr("  blocks: [{\"size\":3},\"relu\"]\n      lists and mappings. in order\n"));
}

TEST(TaskTextTest, WhatAPluginTellsNeedNotBeUtf8) {
  TaskInfo info{.name = "odd", .help = "h\xe9"};
  info.parameters = {TaskParameter::Text("a", "caf\xe9", {"caf\xe9", "tea"}, "d\xe9")};
  const std::vector<ListedTask> tasks = {{info, "odd\xe9.so"}};
  const auto json = nlohmann::json::parse(TasksAsJson(tasks));
  EXPECT_EQ(json["tasks"][0]["plugin"], "odd\xef\xbf\xbd.so");
  EXPECT_EQ(json["tasks"][0]["parameters"][0]["choices"][0], "caf\xef\xbf\xbd");
  EXPECT_EQ(json["tasks"][0]["parameters"][0]["choices"][1], "tea");
  EXPECT_THAT(TaskAsText(tasks[0]), HasSubstr("a: \"caf\xef\xbf\xbd\"\n"));
}

TEST(TaskTextTest, EveryTaskOfOursIsToldToPrograms) {
  std::vector<ListedTask> tasks;
  for (const TaskInfo& info : Tasks()) tasks.push_back({info, ""});
  const auto json = nlohmann::json::parse(TasksAsJson(tasks));
  ASSERT_EQ(json["tasks"].size(), Tasks().size());
  for (size_t i = 0; i < tasks.size(); ++i) {
    EXPECT_EQ(json["tasks"][i]["name"], tasks[i].info.name);
    EXPECT_EQ(json["tasks"][i]["parameters"].size(), tasks[i].info.parameters.size());
    EXPECT_FALSE(json["tasks"][i].contains("plugin"));
    EXPECT_THAT(TaskAsText(tasks[i]), HasSubstr(tasks[i].info.help));
  }
}

}  // namespace
}  // namespace muster::worker
