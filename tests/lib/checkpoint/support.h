// A small model of ugly sizes, its states, and checkpoints of them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/hash.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/load.h"
#include "lib/checkpoint/segment.h"

namespace muster {

inline const char kJob[] = "job-1";
inline constexpr int32_t kSlots = 2;

inline std::vector<TensorSpec> UglyTensors() {
  return {{"z.first", {1}, TensorKind::kParameter},       {"mean", {7}, TensorKind::kBuffer},
          {"a.weight", {13, 11}, TensorKind::kParameter}, {"scalar", {}, TensorKind::kParameter},
          {"b.large", {89, 3}, TensorKind::kParameter},   {"count", {}, TensorKind::kBuffer}};
}
inline constexpr int64_t kUglyChunkBytes = 320;

inline Layout UglyLayout() { return *Layout::Make(UglyTensors(), kUglyChunkBytes); }

// Values and optimizer slots in memory.
struct State {
  std::vector<std::vector<float>> slots;
  bool operator==(const State&) const = default;
};

inline State EmptyState(const Layout& layout, int32_t slots = kSlots) {
  State state;
  state.slots.emplace_back(static_cast<size_t>(layout.elements()));
  for (int32_t i = 0; i < slots; ++i)
    state.slots.emplace_back(static_cast<size_t>(layout.parameter_elements()));
  return state;
}

// The state that a seed stands for: any two differ in every element.
inline State MakeState(const Layout& layout, uint64_t seed, int32_t slots = kSlots) {
  State state = EmptyState(layout, slots);
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    for (size_t i = 0; i < state.slots[slot].size(); ++i)
      state.slots[slot][i] =
          static_cast<float>(Mix64(slot, i) % 1000) + static_cast<float>(seed) / 16;
  }
  return state;
}

// Every part of the state, in (slot, chunk) order, pointing into it.
template <class Part, class AnyState>
std::vector<Part> PartsOf(const Layout& layout, AnyState& state) {
  std::vector<Part> parts;
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    const int32_t chunks = slot == 0 ? layout.chunk_count() : layout.parameter_chunk_count();
    for (ChunkId c{0}; c.value() < chunks; ++c) {
      const Chunk& chunk = layout.chunk(c);
      parts.push_back(
          {static_cast<int32_t>(slot),
           c,
           {state.slots[slot].data() + chunk.offset, static_cast<size_t>(chunk.count)}});
    }
  }
  return parts;
}

// The whole checkpoint as a state.
inline absl::StatusOr<State> LoadWhole(const CheckpointFiles& files, const Manifest& manifest,
                                       const Layout& layout) {
  State state = EmptyState(layout, manifest.slots);
  const absl::Status status = LoadParts(files, manifest, layout, PartsOf<PartDest>(layout, state));
  if (!status.ok()) return status;
  return state;
}

// What the writers have written, as a manifest that nobody has committed yet.
inline Manifest MakeManifest(LineageNumber lineage, Step step, std::vector<Segment> segments,
                             std::vector<TensorSpec> tensors = UglyTensors(),
                             int64_t chunk_bytes = kUglyChunkBytes) {
  Manifest manifest;
  manifest.job = kJob;
  manifest.lineage = lineage;
  manifest.step = step;
  for (const Segment& segment : segments) manifest.total_bytes += segment.bytes;
  manifest.segments = std::move(segments);
  manifest.spec = R"({"name":"job-1"})";
  manifest.tensors = std::move(tensors);
  manifest.chunk_bytes = chunk_bytes;
  manifest.slots = kSlots;
  manifest.unix_seconds = 1;
  return manifest;
}

// A state of the ugly model; part i goes to writer i % writers.
inline absl::StatusOr<Manifest> Save(CheckpointFiles& files, const Layout& layout,
                                     const State& state, int64_t lineage, int64_t step,
                                     size_t writers = 2, int64_t chunk_bytes = kUglyChunkBytes,
                                     const std::vector<TensorSpec>& tensors = UglyTensors()) {
  const std::vector<PartView> parts = PartsOf<PartView>(layout, state);
  std::vector<Segment> segments;
  for (size_t writer = 0; writer < writers; ++writer) {
    std::vector<PartView> part;
    for (size_t i = writer; i < parts.size(); i += writers) part.push_back(parts[i]);
    auto segment = WriteSegment(
        files, SegmentFile(LineageNumber(lineage), Step(step), "w" + std::to_string(writer)),
        {kJob, LineageNumber(lineage), Step(step)}, part);
    if (!segment.ok()) return segment.status();
    segments.push_back(*std::move(segment));
  }
  return MakeManifest(LineageNumber(lineage), Step(step), std::move(segments), tensors,
                      chunk_bytes);
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
// Turns over the bits of `mask` in one byte; doing it again heals.
inline void FlipBits(const std::string& path, size_t at, int mask) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ mask));
  ASSERT_TRUE(file.good()) << path << " byte " << at;
}
inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Every file under the directory, relative to it, sorted.
inline std::vector<std::string> FilesUnder(const std::string& dir) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (!entry.is_directory())
      files.push_back(std::filesystem::relative(entry.path(), dir).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// A directory of the running test.
class DirTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = testing::TempDir() + "/" + info->test_suite_name() + "." + info->name() + "." +
           std::to_string(getpid());
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    files_ = CheckpointFilesIn(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string dir_;
  std::unique_ptr<CheckpointFiles> files_;  // there
};

}  // namespace muster
