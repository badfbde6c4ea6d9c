#include "worker/torch/libtorch_archive.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "lib/data/initial_values.h"
#include "tests/worker/tasks/lane_rig.h"
#include "worker/torch/flat_module.h"

namespace muster::worker {
namespace {

torch::nn::Sequential Net() {
  return torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4),
                               torch::nn::Linear(4, 2));
}

TEST(LibTorchArchive, AModuleOfTheSameMakeLoadsIt) {
  const std::string path = testing::TempDir() + "archive-" + std::to_string(getpid());
  torch::nn::Sequential saved = Net(), loaded = Net();
  saved->named_buffers()["1.num_batches_tracked"].fill_(77);
  CopyCounter copied{0};
  FlatModule flat(saved.ptr(), 1, copied);
  const Layout layout = Layout::Make(flat.tensors(), 64).value();
  ASSERT_EQ(flat.Bind(layout.space()), absl::OkStatus());
  FlatMemory state(layout.elements());
  ASSERT_EQ(flat.Store(*saved, state.span()), absl::OkStatus());
  ASSERT_EQ(WriteLibTorchArchive(layout.space(), state.span(), path), absl::OkStatus());
  torch::serialize::InputArchive archive;
  archive.load_from(path);
  loaded->load(archive);
  const auto expected = saved->named_parameters(), found = loaded->named_parameters();
  ASSERT_EQ(expected.size(), 6u);
  for (const auto& parameter : expected)
    EXPECT_TRUE(at::equal(parameter.value(), found[parameter.key()])) << parameter.key();
  const auto buffers = loaded->named_buffers();
  EXPECT_EQ(buffers["1.num_batches_tracked"].item<int64_t>(), 77);
  std::filesystem::remove(path);
}

TEST(LibTorchArchive, ATensorOfTwoNamesStandsUnderBoth) {
  const std::string path = testing::TempDir() + "tied-archive-" + std::to_string(getpid());
  const std::vector<TensorSpec> tied = {
      {.name = "0.weight", .shape = {4, 4}, .aliases = {"1.weight"}}};
  const Layout layout = Layout::Make(tied, 64).value();
  FlatMemory state(layout.elements());
  std::fill(state.span().begin(), state.span().end(), 0.5F);
  ASSERT_EQ(WriteLibTorchArchive(layout.space(), state.span(), path), absl::OkStatus());
  const auto linear = [] { return torch::nn::LinearOptions(4, 4).bias(false); };
  torch::nn::Sequential loaded{torch::nn::Linear(linear()), torch::nn::Linear(linear())};
  torch::load(loaded, path);
  for (const auto& parameter : loaded->named_parameters())
    EXPECT_TRUE(parameter.value().eq(0.5).all().item<bool>()) << parameter.key();
  std::filesystem::remove(path);
}

// A job's initial.file is read without LibTorch.
TEST(LibTorchArchive, AJobBeginsWithItBitForBit) {
  const std::string path = testing::TempDir() + "initial-archive-" + std::to_string(getpid());
  torch::nn::Sequential saved = Net();
  saved->named_buffers()["1.num_batches_tracked"].fill_(int64_t{1} << 40);
  CopyCounter copied{0};
  FlatModule flat(saved.ptr(), 1, copied);
  const Layout layout = Layout::Make(flat.tensors(), 64).value();
  ASSERT_EQ(flat.Bind(layout.space()), absl::OkStatus());
  FlatMemory state(layout.elements()), begun(layout.elements());
  ASSERT_EQ(flat.Store(*saved, state.span()), absl::OkStatus());
  ASSERT_EQ(WriteLibTorchArchive(layout.space(), state.span(), path), absl::OkStatus());
  const auto read_back = [&] {
    std::fill(begun.span().begin(), begun.span().end(), 0.0F);
    const auto values = InitialValues::Open({.file = path}, flat.tensors());
    ASSERT_TRUE(values.ok()) << values.status();
    ASSERT_EQ(values->Write(layout.space(), begun.span()), absl::OkStatus());
    EXPECT_EQ(std::memcmp(begun.span().data(), state.span().data(), state.span().size() * 4), 0);
  };
  read_back();
  torch::save(saved, path);  // what somebody else's program writes
  read_back();
  std::filesystem::remove(path);
}

TEST(LibTorchArchive, AWordOfTorchScriptIsNoName) {
  const Layout layout = Layout::Make({{"block.in.weight", {2}}}, 64).value();
  FlatMemory state(layout.elements());
  const absl::Status status = WriteLibTorchArchive(layout.space(), state.span(), "unused");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("'in' is a word of TorchScript"));
}

TEST(LibTorchArchive, AFileThatCannotBeWrittenIsAnError) {
  CopyCounter copied{0};
  FlatModule flat(Net().ptr(), 1, copied);
  const Layout layout = Layout::Make(flat.tensors(), 64).value();
  FlatMemory state(layout.elements());
  EXPECT_EQ(WriteLibTorchArchive(layout.space(), state.span(), "/nonexistent/file").code(),
            absl::StatusCode::kNotFound);
}

// LibTorch itself would end this process.
TEST(LibTorchArchive, AFileThatMayNotGrowIsAnErrorWhereverItEnds) {
  const std::string path = testing::TempDir() + "short-archive-" + std::to_string(getpid());
  CopyCounter copied{0};
  FlatModule flat(Net().ptr(), 1, copied);
  const Layout layout = Layout::Make(flat.tensors(), 64).value();
  FlatMemory state(layout.elements());
  ASSERT_EQ(WriteLibTorchArchive(layout.space(), state.span(), path), absl::OkStatus());
  const auto whole = static_cast<rlim_t>(std::filesystem::file_size(path));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);  // write says EFBIG instead
  for (const rlim_t most : {rlim_t{0}, rlim_t{1}, rlim_t{100}, whole / 2, whole - 1}) {
    const rlimit limit{most, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const absl::Status written = WriteLibTorchArchive(layout.space(), state.span(), path);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(written.code(), absl::StatusCode::kUnavailable) << most << ": " << written;
    EXPECT_THAT(std::string(written.message()), testing::HasSubstr("write '" + path + "'"));
  }
  signal(SIGXFSZ, handler);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace muster::worker
