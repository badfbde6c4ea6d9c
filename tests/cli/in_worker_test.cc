#include "cli/in_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/support/memory_files.h"

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

TEST(DataCommand, AFolderIsNamedWhereSettingsAreForOtherFiles) {
  const std::string folder = testing::TempDir() + "dir.csv";
  std::filesystem::create_directory(folder);
  for (const std::string setting : {"data.label=y", "data.keys=[x]"}) {
    const absl::Status status = Inspect(folder, {setting}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(folder + " is a folder, which is taken for one of images"));
  }
  EXPECT_TRUE(Inspect(folder, {"data.format=csv", "data.label=y"}).ok());
  EXPECT_THAT(std::string(Inspect(folder, {"data.format=csv", "data.keys=[x]"}).status().message()),
              testing::Not(HasSubstr("is a folder")));
}

TEST(DataCommand, AFileWhoseNameIsNoUtf8IsRefused) {
  const absl::Status status = Inspect("/a/\xff\xfe.csv").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("its name is no UTF-8"));
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

// A script in the worker's place, as the words after it say.
absl::StatusOr<int> CodeOf(const std::string& script,
                           std::shared_ptr<const CheckpointFiles> files = nullptr) {
  const std::string program = testing::TempDir() + "worker-" + std::to_string(getpid());
  std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  return RunInWorker(program, {{"check", "--json", "--", "word"}, "the job", std::move(files)});
}

// Which stands where `--last-word` says.
constexpr char kHasEnded[] = "printf ended >&$3; ";

TEST(RunInWorker, TheWorkersCodeIsOursOnceItHasComeToItsEnd) {
  for (const int code : {0, 64})
    EXPECT_EQ(CodeOf(std::string(kHasEnded) + "exit " + std::to_string(code)).value(), code);
  // Its words, and what it reads.
  const absl::StatusOr<int> code = CodeOf(
      "test \"$1 $2 $4 $5 $6\" = 'check --last-word --json -- word' || exit 3\n"
      "test \"$(cat)\" = 'the job' || exit 4\n" +
      std::string(kHasEnded));
  EXPECT_EQ(code.value(), 0);
}

// A request as lib/checkpoint/served_files.cc has it: offset, bytes and the length of the name.
TEST(RunInWorker, ItReadsFilesThatItDoesNotSee) {
  const auto files = std::make_shared<MemoryFiles>();
  files->content["file"] = std::make_shared<const std::string>("0123456789");
  const absl::StatusOr<int> code = CodeOf(
      "test \"$1 $2 $4 $6\" = 'check --last-word --files --json' || exit 3\n"
      "printf '\\2\\0\\0\\0\\0\\0\\0\\0\\5\\0\\0\\0\\4\\0\\0\\0file' >&$5\n"
      "test \"$(head -c 21 <&$5 | tail -c 5)\" = 23456 || exit 4\n" +
          std::string(kHasEnded),
      files);
  EXPECT_EQ(code.value(), 0);
  // One that dies, or that says what is no request, is let go.
  EXPECT_EQ(CodeOf("kill -KILL $$", files).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(
      CodeOf("printf 'give me all of your files' >&$5; cat <&$5; " + std::string(kHasEnded), files)
          .value(),
      0);
}

TEST(RunInWorker, OneThatIsKilledOrEndedIsNoAnswerAndWhatItRanIsNamed) {
  const absl::Status aborted =
      CodeOf("printf 'runs task a of plug-in b.so' >&$3; kill -ABRT $$").status();
  EXPECT_EQ(aborted, absl::InternalError("the worker was killed by SIGABRT while it ran task a of "
                                         "plug-in b.so"));
  const absl::Status killed = CodeOf("kill -KILL $$").status();
  EXPECT_EQ(killed, absl::InternalError("the worker was killed by SIGKILL; perhaps there was no "
                                        "memory left"));
  const absl::Status left = CodeOf("printf 'runs task a' >&$3; exit 0").status();
  EXPECT_EQ(left.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(left.message()),
              HasSubstr("has ended with exit code 0 while it ran task a, before it had come"));
}

TEST(RunInWorker, ASignalThatOthersSendEndsUsLikewise) {
  for (const char* name : {"INT", "TERM"})
    EXPECT_EXIT((void)CodeOf(std::string("kill -") + name + " $$"),
                testing::KilledBySignal(name == std::string("INT") ? SIGINT : SIGTERM), "");
}

TEST(RunInWorker, OneThatIsNotThereIsNotFound) {
  EXPECT_EQ(RunInWorker("/no/such/muster-worker", {{"check"}, ""}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster::cli
