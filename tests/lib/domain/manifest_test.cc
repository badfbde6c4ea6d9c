#include "lib/domain/manifest.h"

#include <gtest/gtest.h>

#include <functional>

namespace muster {
namespace {

constexpr int32_t kSlots = 2;

std::vector<TensorSpec> Tensors() {
  return {{"a", {100}, TensorKind::kParameter},
          {"b", {30}, TensorKind::kParameter},
          {"mean", {5}, TensorKind::kBuffer}};
}
Layout SmallLayout() { return *Layout::Make(Tensors(), 256); }

// Complete: slot by slot, one file each.
Manifest Complete() {
  const Layout layout = SmallLayout();
  Manifest manifest;
  manifest.job = "job-1";
  manifest.tensors = Tensors();
  manifest.chunk_bytes = 256;
  manifest.slots = kSlots;
  for (int32_t slot = 0; slot <= kSlots; ++slot) {
    Segment segment;
    segment.file = "folder/slot-" + std::to_string(slot);
    segment.bytes = 64;
    for (ChunkId c{0};
         c.value() < (slot == 0 ? layout.chunk_count() : layout.parameter_chunk_count()); ++c) {
      const auto bytes = static_cast<uint64_t>(layout.chunk(c).count) * 4;
      segment.entries.push_back({slot, c, segment.bytes, bytes, 0});
      segment.bytes += bytes;
    }
    manifest.total_bytes += segment.bytes;
    manifest.segments.push_back(segment);
  }
  return manifest;
}

TEST(ManifestTest, ACompleteOneIsAccepted) {
  const absl::Status status = CheckComplete(Complete(), SmallLayout(), kSlots);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ManifestTest, EveryFaultIsNamed) {
  const auto refused = [](const char* says, const std::function<void(Manifest&)>& spoil) {
    Manifest manifest = Complete();
    spoil(manifest);
    const absl::Status status = CheckComplete(manifest, SmallLayout(), kSlots);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << says << ": " << status;
    EXPECT_NE(status.message().find(says), absl::string_view::npos) << status;
  };
  const auto first = [](Manifest& m) -> SegmentEntry& { return m.segments[1].entries[0]; };
  refused("names no job", [](Manifest& m) { m.job.clear(); });
  refused("not a safe file name", [](Manifest& m) { m.segments[0].file = "../x"; });
  refused("named twice", [](Manifest& m) { m.segments[0].file = m.segments[1].file; });
  refused("parts (slot, chunk) are missing", [](Manifest& m) { m.segments[2].entries.pop_back(); });
  refused("parts (slot, chunk) are missing", [](Manifest& m) { m.segments.clear(); });
  refused("'folder/slot-1', slot 1, chunk 1: is there twice",
          [&](Manifest& m) { first(m) = m.segments[1].entries[1]; });
  refused("slot 3, chunk 0: there is no such slot", [&](Manifest& m) { first(m).slot = 3; });
  refused("slot -1, chunk 0: there is no such slot", [&](Manifest& m) { first(m).slot = -1; });
  refused("the slot has no such chunk", [&](Manifest& m) {
    // A buffer's: it has no optimizer slots.
    first(m).chunk = ChunkId(SmallLayout().parameter_chunk_count());
  });
  refused("the slot has no such chunk", [&](Manifest& m) { first(m).chunk = ChunkId(-1); });
  refused("the chunk has 256", [&](Manifest& m) { first(m).bytes = 252; });
  refused("lies outside its file",
          [&](Manifest& m) { first(m).offset_in_file = m.segments[1].bytes - 255; });
  refused("lies outside its file", [&](Manifest& m) { first(m).offset_in_file = ~uint64_t{0}; });
  refused("total_bytes", [](Manifest& m) { ++m.total_bytes; });
}

TEST(ManifestTest, AnotherLayoutIsAnotherError) {
  const Layout other = *Layout::Make(Tensors(), 512);
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckComplete(Complete(), other, kSlots)));
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckComplete(Complete(), SmallLayout(), 1)));
}

TEST(ManifestTest, SafeNamesStayInTheirDirectory) {
  for (const char* name : {"a", "a/b", "lineage-1-step-2/w0-00ff.segment", "A_9.x"})
    EXPECT_TRUE(IsSafeRelativeName(name)) << name;
  for (const char* name : {"", ".", "..", "a/..", "../a", "/", "/a", "a/", "a//b", "a/b/c", ".a",
                           "a/.b", "a b", "a\\b", "\xc3\xa9"})
    EXPECT_FALSE(IsSafeRelativeName(name)) << name;
  EXPECT_FALSE(IsSafeRelativeName(std::string("a\0b", 3)));
  EXPECT_FALSE(IsSafeRelativeName(std::string(300, 'a')));
}

TEST(ManifestTest, ItsLayoutComesBackWithoutTheModel) {
  EXPECT_EQ(LayoutOf(Complete())->Hash(), SmallLayout().Hash());
  Manifest broken = Complete();
  broken.chunk_bytes = 3;
  EXPECT_TRUE(absl::IsInvalidArgument(LayoutOf(broken).status()));
}

}  // namespace
}  // namespace muster
