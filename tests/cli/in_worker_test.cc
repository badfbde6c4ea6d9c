#include "cli/in_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace muster::cli {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<WorkerCommand> Inspect(const std::string& what,
                                      std::vector<std::string> settings = {}) {
  return DataCommand({.what = {what}, .settings = std::move(settings)}, {});
}

TEST(DataCommand, AFileIsReadAsItsNameEnds) {
  struct Named {
    const char* name;
    const char* format;
  };
  for (const Named& named :
       {Named{"/a/b.csv", "csv"}, Named{"/a/b.npz", "numpy"},
        Named{"/a/b.safetensors", "safetensors"}, Named{"/a/b.pth", "pt"}, Named{"/a/b.h5", "hdf5"},
        Named{"/a/b.tar", "webdataset"}, Named{"/a/t10k-labels-idx1-ubyte.gz", "idx"}}) {
    SCOPED_TRACE(named.name);
    const auto command = Inspect(named.name);
    ASSERT_TRUE(command.ok()) << command.status();
    EXPECT_THAT(command->words, ElementsAre("data-inspect"));
    const json data = json::parse(command->input)["data"];
    EXPECT_EQ(data["format"], named.format);
    EXPECT_EQ(data["paths"], json::array({named.name}));
  }
  EXPECT_FALSE(json::parse(Inspect("/a/b.txt")->input)["data"].contains("format"));
}

TEST(DataCommand, AFolderIsOneOfImagesUnlessASettingSaysOtherwise) {
  const std::string folder = testing::TempDir();
  EXPECT_EQ(json::parse(Inspect(folder)->input)["data"]["format"], "images");
  const auto numpy = Inspect(folder, {"data.format=numpy", "data.label=y"});
  ASSERT_TRUE(numpy.ok()) << numpy.status();
  const json data = json::parse(numpy->input)["data"];
  EXPECT_EQ(data["format"], "numpy");
  EXPECT_EQ(data["label"], "y");
}

TEST(DataCommand, ASpecificationIsThatOfItsJob) {
  const std::string path = testing::TempDir() + "job.yaml";
  std::ofstream(path) << "task: any\nsteps: 7\ndata: {paths: [/a/b], format: cifar10}\n";
  const auto command = DataCommand({.command = DataArguments::Command::kHash,
                                    .what = {path},
                                    .settings = {"data.verify=quick"},
                                    .json = true},
                                   {});
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_THAT(command->words, ElementsAre("data-hash", "--json"));
  const json spec = json::parse(command->input);
  EXPECT_EQ(spec["steps"], 7);
  EXPECT_EQ(spec["data"]["format"], "cifar10");
  EXPECT_EQ(spec["data"]["verify"], "quick");
}

TEST(DataCommand, FilesAreConvertedTogether) {
  const auto command = DataCommand({.command = DataArguments::Command::kConvert,
                                    .what = {"/a/b.csv", "/a/c.csv"},
                                    .output = "/o/./d",
                                    .format = "numpy",
                                    .shard_mib = 7},
                                   {});
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_THAT(command->words, ElementsAre("data-convert", "--output", "/o/./d", "--format", "numpy",
                                          "--shard-mib", "7"));
  const json data = json::parse(command->input)["data"];
  EXPECT_EQ(data["format"], "csv");
  EXPECT_EQ(data["paths"], json::parse(R"(["/a/b.csv", "/a/c.csv"])"));
  EXPECT_THAT(
      std::string(DataCommand({.what = {"/a/b.csv", "/a/job.yaml"}}, {}).status().message()),
      HasSubstr("/a/job.yaml: a specification stands alone"));
}

TEST(DataCommand, WhatCannotBeIsNamed) {
  EXPECT_THAT(std::string(Inspect("/no/such/job.yaml").status().message()),
              HasSubstr("/no/such/job.yaml"));
  EXPECT_THAT(std::string(Inspect("/a/b.npy", {"data.verify=often"}).status().message()),
              HasSubstr("data.verify"));
}

}  // namespace
}  // namespace muster::cli
