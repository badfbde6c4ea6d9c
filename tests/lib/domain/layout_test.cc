#include "lib/domain/layout.h"

#include <algorithm>
#include <functional>
#include <random>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TensorSpec Parameter(const std::string& name, std::vector<int64_t> shape) {
  return {name, std::move(shape), TensorKind::kParameter};
}
TensorSpec Buffer(const std::string& name, std::vector<int64_t> shape) {
  return {name, std::move(shape), TensorKind::kBuffer};
}

// 3 parameters of 20, 1 and 33 elements with two buffers between them.
std::vector<TensorSpec> Model() {
  return {Parameter("first", {4, 5}), Buffer("mean", {3}), Parameter("scale", {}),
          Buffer("count", {}), Parameter("last", {33})};
}

Layout Make(const std::vector<TensorSpec>& tensors, int64_t chunk_bytes) {
  absl::StatusOr<Layout> layout = Layout::Make(tensors, chunk_bytes);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return layout.ok() ? *layout : Layout();
}

std::string ErrorOf(const std::vector<TensorSpec>& tensors, int64_t chunk_bytes = 64) {
  const absl::StatusOr<Layout> layout = Layout::Make(tensors, chunk_bytes);
  EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(layout.status().message());
}

TEST(Layout, ParametersLieInReverseOrderThenTheBuffers) {
  const Layout layout = Make(Model(), 64);
  std::vector<int64_t> offsets, counts;
  for (const Placed& p : layout.tensors()) {
    offsets.push_back(p.offset);
    counts.push_back(p.count);
  }
  EXPECT_THAT(offsets, ElementsAre(64, 112, 48, 96, 0));
  EXPECT_THAT(counts, ElementsAre(20, 3, 1, 1, 33));
  EXPECT_EQ(layout.parameter_elements(), 96);
  EXPECT_EQ(layout.elements(), 128);
}

TEST(Layout, ATensorOfSeveralNamesStandsOnceAndEachNameIsItsAlone) {
  std::vector<TensorSpec> tied = Model();
  tied[4].aliases = {"head", "again"};
  const Layout layout = Make(tied, 64);
  EXPECT_EQ(layout.elements(), Make(Model(), 64).elements());
  EXPECT_THAT(layout.tensors()[4].spec.Names(), ElementsAre("last", "head", "again"));
  EXPECT_NE(layout.Hash(), Make(Model(), 64).Hash());
  tied[4].aliases = {"head", "first"};
  EXPECT_THAT(ErrorOf(tied), HasSubstr("'first' occurs twice"));
  tied[4].aliases = {""};
  EXPECT_THAT(ErrorOf(tied), HasSubstr("no name"));
  tied[4].aliases = {"caf\xe9"};
  EXPECT_THAT(ErrorOf(tied), HasSubstr("not UTF-8"));
}

// The specification and the member refuse what is too large by the same number.
TEST(Layout, AMemberNeedsFourBuffersAndTheSlots) {
  EXPECT_EQ(LeastMemoryOfMember(1000, 0), 16'000);
  EXPECT_EQ(LeastMemoryOfMember(1000, 2), 24'000);
  EXPECT_EQ(LeastMemoryOfMember(int64_t{1} << 40, 2), 24.0 * (int64_t{1} << 40));
}

// A stranger's Join may say so: nothing may be allocated for it.
TEST(Layout, MoreChunksThanAllowedAreRefusedBeforeTheyAreMade) {
  EXPECT_THAT(ErrorOf({Parameter("a", {int64_t{1} << 40})}),
              HasSubstr("chunk_bytes: the model has 68719476736 chunks of 64 bytes"));
  EXPECT_THAT(ErrorOf({Parameter("a", {1}), Buffer("b", {(int64_t{1} << 22) * 16})}),
              HasSubstr("at most 4194304 are allowed"));
}

TEST(Layout, ChunksAreAGridAndBuffersHaveTheirOwn) {
  const Layout layout = Make(Model(), 256);  // 64 elements
  ASSERT_EQ(layout.chunk_count(), 3);
  EXPECT_EQ(layout.parameter_chunk_count(), 2);
  std::vector<std::tuple<int64_t, int64_t, TensorKind>> chunks;
  for (const Chunk& c : layout.chunks()) chunks.emplace_back(c.offset, c.count, c.kind);
  EXPECT_THAT(chunks, ElementsAre(std::tuple(0, 64, TensorKind::kParameter),
                                  std::tuple(64, 32, TensorKind::kParameter),
                                  std::tuple(96, 32, TensorKind::kBuffer)));
}

// Sums are one chunk; each phase begins a chunk of its own, and none of them is in a task's space.
TEST(Layout, PhasesStandBehindTheSumsInTheirOrder) {
  const Layout layout = Make({Parameter("p", {20}),
                              {"sync/a/forward", {40}, TensorKind::kPhase},
                              {"sum", {3}, TensorKind::kSum},
                              {"sync/a/backward", {16}, TensorKind::kPhase},
                              Buffer("b", {2})},
                             64);
  std::vector<std::tuple<int64_t, int64_t, TensorKind>> chunks;
  for (const Chunk& c : layout.chunks()) chunks.emplace_back(c.offset, c.count, c.kind);
  EXPECT_THAT(
      chunks,
      ElementsAre(std::tuple(0, 16, TensorKind::kParameter),
                  std::tuple(16, 16, TensorKind::kParameter),
                  std::tuple(32, 16, TensorKind::kBuffer), std::tuple(48, 16, TensorKind::kSum),
                  std::tuple(64, 16, TensorKind::kPhase), std::tuple(80, 16, TensorKind::kPhase),
                  std::tuple(96, 16, TensorKind::kPhase),  // 40 floats and 8 of no tensor
                  std::tuple(112, 16, TensorKind::kPhase)));
  EXPECT_EQ(layout.model_elements(), 48);
  EXPECT_EQ(layout.ModelSpace().tensors.size(), 2u);
  ASSERT_EQ(layout.phases().size(), 2u);
  EXPECT_EQ(layout.phases()[0].tensor, 1u);
  EXPECT_EQ(layout.phases()[0].first_chunk, ChunkId(4));
  EXPECT_EQ(layout.phases()[0].chunks, 3);
  EXPECT_EQ(layout.phases()[1].tensor, 3u);
  EXPECT_EQ(layout.phases()[1].first_chunk, ChunkId(7));
  EXPECT_EQ(layout.tensors()[3].offset, 112);
  EXPECT_THAT(layout.TensorsIn(64, 64), ElementsAre(1u, 3u));
  EXPECT_THAT(
      ErrorOf({Parameter("p", {1}), {"phase", {(int64_t{1} << 22) * 16}, TensorKind::kPhase}}),
      HasSubstr("at most 4194304 are allowed"));
}

TEST(Layout, APhaseNamesItsLayer) {
  EXPECT_EQ(LayerOfPhase("sync/layer4.0.bn1/forward"), "layer4.0.bn1");
  EXPECT_EQ(LayerOfPhase("sync/a/b/backward"), "a/b");
  EXPECT_EQ(LayerOfPhase("sync/forward"), "sync/forward");
  EXPECT_EQ(LayerOfPhase("totals"), "totals");
}

// What must hold of every layout, on random models.
TEST(Layout, IsAlignedWholeAndWithoutOverlap) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<TensorSpec> tensors = {Parameter("p", {static_cast<int64_t>(1 + random() % 50)})};
    for (uint64_t i = random() % 12; i > 0; --i)
      tensors.push_back(
          {absl::StrCat("t", i),
           {static_cast<int64_t>(1 + random() % 7), static_cast<int64_t>(1 + random() % 9)},
           random() % 3 == 0 ? TensorKind::kBuffer : TensorKind::kParameter});
    const int64_t chunk_elements = 16 * static_cast<int64_t>(1 + random() % 5);
    const Layout layout = Make(tensors, 4 * chunk_elements);

    std::vector<int> used(static_cast<size_t>(layout.elements()), 0);
    for (const Placed& p : layout.tensors()) {
      EXPECT_EQ(p.offset % kAlignElements, 0);
      EXPECT_EQ(p.spec.kind == TensorKind::kBuffer, p.offset >= layout.parameter_elements());
      for (int64_t e = 0; e < p.count; ++e) ++used[static_cast<size_t>(p.offset + e)];
    }
    EXPECT_THAT(used, testing::Each(testing::Le(1)));

    int64_t at = 0;
    for (const Chunk& c : layout.chunks()) {
      EXPECT_EQ(c.offset, at);
      EXPECT_GT(c.count, 0);
      EXPECT_LE(c.count, chunk_elements);
      EXPECT_EQ(c.kind == TensorKind::kBuffer, c.offset >= layout.parameter_elements());
      EXPECT_TRUE(c.count == chunk_elements || c.offset + c.count == layout.elements() ||
                  c.offset + c.count == layout.parameter_elements());
      at += c.count;
    }
    EXPECT_EQ(at, layout.elements());

    for (int probe = 0; probe < 20; ++probe) {
      const auto offset = static_cast<int64_t>(random() % static_cast<uint64_t>(layout.elements()));
      const auto count = static_cast<int64_t>(1 + random() % 100);
      std::vector<size_t> slow;
      for (size_t i = 0; i < tensors.size(); ++i) {
        const Placed& p = layout.tensors()[i];
        if (p.offset < offset + count && offset < p.offset + p.count) slow.push_back(i);
      }
      std::sort(slow.begin(), slow.end(), [&](size_t a, size_t b) {
        return layout.tensors()[a].offset < layout.tensors()[b].offset;
      });
      EXPECT_EQ(layout.TensorsIn(offset, count), slow);
    }
  }
}

TEST(Layout, HolesBelongToNoTensor) {
  const Layout layout = Make(Model(), 64);
  EXPECT_TRUE(layout.TensorsIn(33, 15).empty());  // between "last" and "scale"
  EXPECT_THAT(layout.TensorsIn(32, 16), ElementsAre(4));
  EXPECT_THAT(layout.TensorsIn(33, 16), ElementsAre(2));
}

TEST(Layout, ErrorsNameTheTensor) {
  EXPECT_EQ(ErrorOf({}), "the model has no parameter");
  EXPECT_EQ(ErrorOf({Buffer("mean", {3})}), "the model has no parameter");
  EXPECT_EQ(ErrorOf({Parameter("a", {1}), Buffer("a", {2})}), "tensor 'a' occurs twice");
  EXPECT_EQ(ErrorOf({Parameter("", {1})}), "a tensor has no name");
  EXPECT_EQ(ErrorOf({Parameter("ok", {1}), Buffer("caf\xe9\n", {1})}),
            "the name of tensor 'caf?\\n' is not UTF-8");
  EXPECT_TRUE(Layout::Make({Parameter("caf\xc3\xa9", {1})}, 64).ok());
  EXPECT_EQ(ErrorOf({Parameter("a", {3, 0})}), "tensor 'a': dimension 0 is out of range");
  EXPECT_EQ(ErrorOf({Parameter("a", {-2})}), "tensor 'a': dimension -2 is out of range");
  EXPECT_EQ(ErrorOf({Parameter("a", {int64_t{1} << 39, 3})}),
            "tensor 'a': dimension 3 is out of range");
  const int64_t half = int64_t{1} << 39;
  EXPECT_THAT(ErrorOf({Parameter("a", {half}), Parameter("b", {half}), Parameter("c", {1})}),
              HasSubstr("2^40"));
  for (int64_t bytes : {int64_t{0}, int64_t{32}, int64_t{100}, kMaxChunkBytes + 64})
    EXPECT_THAT(ErrorOf({Parameter("a", {1})}, bytes), HasSubstr("chunk_bytes"));
}

// A member could not tell its coordinator of such a model.
TEST(Layout, MoreTensorsThanOneFrameTellsAreRefused) {
  const auto many = [](int64_t count, size_t name_bytes) {
    std::vector<TensorSpec> tensors;
    for (int64_t i = 0; i < count; ++i) {
      std::string name = absl::StrCat(i, "-");
      name.resize(std::max(name.size(), name_bytes), 'x');
      tensors.push_back(Parameter(name, {1}));
    }
    return tensors;
  };
  const auto longest = static_cast<size_t>(kLongestTensorName);
  EXPECT_TRUE(Layout::Make(many(100, 200), kMaxChunkBytes).ok());
  EXPECT_TRUE(Layout::Make(many(1, longest), kMaxChunkBytes).ok());
  EXPECT_EQ(ErrorOf(many(kMostTensors + 1, 1)),
            "the model has 100001 tensors, with what is measured of it; at most 100000 are "
            "allowed: make fewer and larger ones");
  EXPECT_EQ(ErrorOf(many(1, longest + 1)),
            absl::StrCat("the name of tensor '0-", std::string(59, 'x'),
                         "...' has 65537 bytes; at most 65536 are allowed"));
  EXPECT_THAT(ErrorOf(many(100, longest)),
              HasSubstr("the names and shapes of the model's 100 tensors take 6557000 bytes"));
  EXPECT_TRUE(Layout::Make({Parameter("a", std::vector<int64_t>(16, 1))}, 64).ok());
  EXPECT_EQ(ErrorOf({Parameter("a", std::vector<int64_t>(17, 1))}),
            "tensor 'a' has 17 dimensions; at most 16 are allowed");
}

TEST(Layout, EqualLayoutsHaveEqualHashesAndOthersDiffer) {
  const uint64_t hash = Make(Model(), 64).Hash();
  EXPECT_EQ(Make(Model(), 64).Hash(), hash);
  EXPECT_NE(Make(Model(), 128).Hash(), hash);
  auto changed = [&](const std::function<void(std::vector<TensorSpec>&)>& change) {
    std::vector<TensorSpec> model = Model();
    change(model);
    return Make(model, 64).Hash();
  };
  EXPECT_NE(changed([](auto& m) { m[0].name = "other"; }), hash);
  EXPECT_NE(changed([](auto& m) { m[0].shape = {5, 4}; }), hash);
  EXPECT_NE(changed([](auto& m) { m[0].shape = {20}; }), hash);
  EXPECT_NE(changed([](auto& m) { m[2].kind = TensorKind::kBuffer; }), hash);
  EXPECT_NE(changed([](auto& m) { std::swap(m[0], m[2]); }), hash);
}

// Parameters that fill less than one chunk, buffers that fill more: the grid shows in the buffers
// alone.
TEST(Layout, AGridThatDiffersOnlyInTheBuffersIsAnotherOne) {
  const std::vector<TensorSpec> model = {Parameter("p", {16}), Buffer("b", {80})};
  const Layout narrow = Make(model, 4 * 48), wide = Make(model, 4 * 64);
  ASSERT_EQ(narrow.chunk_count(), wide.chunk_count());
  ASSERT_NE(narrow.chunk(ChunkId(1)).count, wide.chunk(ChunkId(1)).count);
  EXPECT_NE(narrow.Hash(), wide.Hash());
}

TEST(Layout, ABufferOfAnotherTypeTakesItsBytesInFloats) {
  const auto count = [](TensorType type, int64_t elements) {
    const TensorSpec buffer{"b", {elements}, TensorKind::kBuffer, type};
    return Make({Parameter("p", {1}), buffer}, 64).tensors()[1].count;
  };
  EXPECT_EQ(count(TensorType::kInt64, 3), 6);
  EXPECT_EQ(count(TensorType::kBool, 5), 2);
  EXPECT_EQ(count(TensorType::kFloat16, 3), 2);
  EXPECT_EQ(count(TensorType::kFloat32, 3), 3);
}

TEST(Layout, ATypeIsPartOfTheHashAndAParameterHasOne) {
  std::vector<TensorSpec> model = Model();
  const uint64_t before = Make(model, 64).Hash();
  model[1].type = TensorType::kInt32;
  EXPECT_NE(Make(model, 64).Hash(), before);
  model[0].type = TensorType::kFloat16;
  EXPECT_THAT(ErrorOf(model), HasSubstr("'first' is a parameter of float16"));
}

TEST(TensorSpec, AScalarHasOneElement) {
  EXPECT_EQ(Parameter("a", {}).Elements(), 1);
  EXPECT_EQ(Parameter("a", {2, 3, 4}).Elements(), 24);
}

}  // namespace
}  // namespace muster
