// Which values a job starts from: names and shapes that fit and that do not, every type, and files
// that are broken.
#include "lib/data/initial_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "muster/corpus.h"
#include "tests/lib/data/written_files.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

StoredTensor Stored(const std::string& name, std::vector<int64_t> shape,
                    TensorType type = TensorType::kFloat32) {
  return {.name = name, .type = type, .shape = std::move(shape)};
}

const std::vector<TensorSpec> kModel = {
    {"body.weight", {2, 3}},
    {"head.weight", {4, 2}},
    {"head.bias", {4}},
    {"body.count", {}, TensorKind::kBuffer, TensorType::kInt64}};
const std::vector<StoredTensor> kSame = {Stored("body.weight", {2, 3}),
                                         Stored("head.weight", {4, 2}), Stored("head.bias", {4}),
                                         Stored("body.count", {}, TensorType::kInt64)};

InitialSpec Spec(std::vector<PrefixChange> map = {}, bool strict = true) {
  return {.file = "f", .map = std::move(map), .strict = strict};
}

TEST(MatchInitial, EqualNamesAndShapesBelongTogetherInAnyOrder) {
  const std::vector<StoredTensor> turned(kSame.rbegin(), kSame.rend());
  const auto match = MatchInitial(Spec(), turned, kModel);
  ASSERT_TRUE(match.ok()) << match.status();
  EXPECT_THAT(match->of_model, ElementsAre(3, 2, 1, 0));
  EXPECT_EQ(LeftOutOf(*match), "");
}

TEST(MatchInitial, TheFirstChangeThatFitsIsMadeAndNoOther) {
  const std::vector<StoredTensor> stored = {Stored("module.net.0.w", {1}), Stored("module.b", {2}),
                                            Stored("c", {3})};
  const std::vector<TensorSpec> model = {{"first.w", {1}}, {"b", {2}}, {"x.c", {3}}};
  const auto match = MatchInitial(
      Spec({{"module.net.0.", "first."}, {"module."}, {"first.", "second."}, {"", "x."}}, true),
      stored, model);
  // The third fits no name as it stands in the file.
  EXPECT_THAT(std::string(match.status().message()),
              HasSubstr("initial.map[2].from: no name in the file begins with 'first.'"));
  const auto without =
      MatchInitial(Spec({{"module.net.0.", "first."}, {"module."}, {"", "x."}}), stored, model);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_THAT(without->of_model, ElementsAre(0, 1, 2));
}

TEST(MatchInitial, WithoutStrictItSaysHowManyAndWhichAreLeftOut) {
  const std::vector<StoredTensor> stored = {Stored("body.weight", {2, 3}),
                                            Stored("head.weight", {9, 2}), Stored("old", {1})};
  const auto match = MatchInitial(Spec({}, false), stored, kModel);
  ASSERT_TRUE(match.ok()) << match.status();
  EXPECT_THAT(match->of_model, ElementsAre(0, std::nullopt, std::nullopt, std::nullopt));
  EXPECT_THAT(match->missing, ElementsAre("head.weight", "head.bias", "body.count"));
  EXPECT_THAT(match->unused, ElementsAre("head.weight", "old"));
  EXPECT_EQ(LeftOutOf(*match),
            "3 of 4 tensors begin at the task's own values: head.weight, head.bias, body.count; "
            "2 tensors of the file are not used: head.weight, old");
}

const std::vector<TensorSpec> kTied = {
    {.name = "embedding", .shape = {2, 3}, .aliases = {"head", "again"}},
    {.name = "bias", .shape = {2}}};

TEST(MatchInitial, ATensorOfSeveralNamesIsFoundUnderAnyOfThem) {
  const auto any = MatchInitial(Spec(), {Stored("bias", {2}), Stored("again", {2, 3})}, kTied);
  ASSERT_TRUE(any.ok()) << any.status();
  EXPECT_THAT(any->of_model, ElementsAre(1, 0));
  EXPECT_THAT(any->equal, testing::IsEmpty());
  const auto all = MatchInitial(
      Spec(), {Stored("again", {2, 3}), Stored("bias", {2}), Stored("embedding", {2, 3})}, kTied);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->of_model, ElementsAre(2, 1));
  EXPECT_THAT(all->equal, ElementsAre(testing::Pair(2, 0)));
  EXPECT_EQ(LeftOutOf(*all), "");
  const std::vector<StoredTensor> misfit = {Stored("embedding", {2, 3}), Stored("bias", {2}),
                                            Stored("head", {5, 3})};
  EXPECT_THAT(std::string(MatchInitial(Spec(), misfit, kTied).status().message()),
              HasSubstr("tensor 'head' is float32 of 2×3 in the model and float32 of 5×3"));
  const auto without = MatchInitial(Spec({}, false), misfit, kTied);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_THAT(without->unused, ElementsAre("head"));
  EXPECT_THAT(std::string(MatchInitial(Spec(), {Stored("bias", {2})}, kTied).status().message()),
              HasSubstr("the model has a tensor 'embedding' (also head, again), float32 of 2×3"));
}

TEST(MatchInitial, LongListsAreCut) {
  InitialMatch match;
  for (int i = 0; i < 12; ++i) match.unused.push_back(absl::StrCat("t", i));
  EXPECT_EQ(LeftOutOf(match),
            "12 tensors of the file are not used: t0, t1, t2, t3, t4, t5, t6, t7 and 4 more");
}

struct Misfit {
  const char* name;
  std::vector<StoredTensor> stored;
  InitialSpec spec;
  const char* message;
};
std::ostream& operator<<(std::ostream& out, const Misfit& misfit) { return out << misfit.name; }

class MisfitTest : public testing::TestWithParam<Misfit> {};

TEST_P(MisfitTest, IsRefusedWithTheTensorAndBothShapes) {
  const auto match = MatchInitial(GetParam().spec, GetParam().stored, kModel);
  EXPECT_EQ(match.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(match.status().message(), GetParam().message);
}

std::vector<StoredTensor> With(size_t tensor, StoredTensor other) {
  std::vector<StoredTensor> stored = kSame;
  stored[tensor] = std::move(other);
  return stored;
}

std::vector<StoredTensor> WithOneMore() {
  std::vector<StoredTensor> stored = kSame;
  stored.push_back(Stored("old.bias", {7}));
  return stored;
}

constexpr char kWayOut[] =
    "; change initial.map, or write initial.strict: false to leave out what does not fit";
const std::string kOtherShape = absl::StrCat(
    "initial.file: tensor 'head.weight' is float32 of 4×2 in the model and float32 of 2×4 in the "
    "file",
    kWayOut);
const std::string kOtherType = absl::StrCat(
    "initial.file: tensor 'body.count' is int64 (a single number) in the model and float32 (a "
    "single number) in the file",
    kWayOut);
const std::string kWholeForReal = absl::StrCat(
    "initial.file: tensor 'head.bias' is float32 of 4 in the model and int32 of 4 in the file",
    kWayOut);
const std::string kMissing = absl::StrCat(
    "initial.file: the model has a tensor 'head.weight', float32 of 4×2, and the file has none of "
    "that name; so it is with 2 more",
    kWayOut);
const std::string kLeftOver = absl::StrCat(
    "initial.file: tensor 'old.bias' of the file, float32 of 7, is none of the model", kWayOut);

INSTANTIATE_TEST_SUITE_P(
    Files, MisfitTest,
    testing::Values(
        Misfit{"shape", With(1, Stored("head.weight", {2, 4})), Spec(), kOtherShape.c_str()},
        Misfit{"type", With(3, Stored("body.count", {})), Spec(), kOtherType.c_str()},
        Misfit{"whole", With(2, Stored("head.bias", {4}, TensorType::kInt32)), Spec(),
               kWholeForReal.c_str()},
        Misfit{"missing", {Stored("body.weight", {2, 3})}, Spec(), kMissing.c_str()},
        Misfit{"left over", WithOneMore(), Spec(), kLeftOver.c_str()},
        Misfit{"nothing fits",
               {Stored("a", {1}), Stored("b", {1})},
               Spec({}, false),
               "initial.file: no tensor of the model is in it; the model has body.weight, "
               "head.weight, head.bias, body.count, and the file a, b; change initial.map"},
        Misfit{"no tensor",
               {},
               Spec({}, false),
               "initial.file: no tensor is in it; name another file"},
        Misfit{"one name for two", WithOneMore(), Spec({{"old.", "head."}}, false),
               "initial.map: 'head.bias' and 'old.bias' of the file both become 'head.bias'"},
        Misfit{"no such prefix",
               {Stored("a", {1})},
               Spec({{"module."}}, false),
               "initial.map[0].from: no name in the file begins with 'module.', or each is changed "
               "by an item before it; the file has a"}));

// ---- files

class InitialFile : public testing::Test {
 protected:
  ~InitialFile() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) {
    fs::create_directories(folder_);
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  struct Broken {
    const char* name;
    std::string bytes;
    const char* message;  // a part of the sentence that says so
  };
  void ExpectDataLoss(const Broken& broken) {
    SCOPED_TRACE(broken.name);
    const std::string file = Write(broken.name, broken.bytes);
    const absl::Status status = InitialValues::Open({.file = file}, {{"w", {2}}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("initial.file: ", file)));
    EXPECT_THAT(std::string(status.message()), HasSubstr(broken.message));
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) /
      absl::StrCat("initial-", testing::UnitTest::GetInstance()->current_test_info()->name());
};

// Tensors one after the other, each of its first dimension.
struct Part {
  std::string name, dtype, shape, bytes;
};
std::string File(const std::vector<Part>& parts) {
  std::vector<std::string> header;
  std::string data;
  for (const Part& part : parts) {
    header.push_back(absl::StrCat("\"", part.name, "\":{\"dtype\":\"", part.dtype, "\",\"shape\":[",
                                  part.shape, "],\"data_offsets\":[", data.size(), ",",
                                  data.size() + part.bytes.size(), "]}"));
    data += part.bytes;
  }
  return Safetensors(absl::StrCat("{", absl::StrJoin(header, ","), "}"), data);
}

FlatSpace SpaceOf(const std::vector<TensorSpec>& model) {
  FlatSpace space;
  for (const TensorSpec& spec : model) {
    space.tensors.push_back({spec, space.elements, (spec.Bytes() + 3) / 4});
    space.elements += (space.tensors.back().count + 15) / 16 * 16;
  }
  return space;
}

// The state after the file was read over one that was all 7.
std::vector<float> Loaded(const std::string& file, const std::vector<TensorSpec>& model,
                          bool strict = true) {
  const auto values = InitialValues::Open({.file = file, .strict = strict}, model);
  EXPECT_TRUE(values.ok()) << values.status();
  const FlatSpace space = SpaceOf(model);
  std::vector<float> state(static_cast<size_t>(space.elements), 7.0F);
  if (values.ok()) {
    EXPECT_EQ(values->Write(space, absl::MakeSpan(state)), absl::OkStatus());
  }
  return state;
}

TEST_F(InitialFile, RealTypesBecomeFloat32) {
  const auto tiny = std::numeric_limits<float>::denorm_min();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::string file =
      Write("a", File({{"single", "F32", "3", Bytes<float>({1.5F, tiny, nan})},
                       {"double", "F64", "3", Bytes<double>({0.1, 1e300, 1e-40})},
                       {"half", "F16", "3", Bytes<uint16_t>({0x3C00, 0xC500, 0x0001})},
                       {"brain", "BF16", "2", Bytes<uint16_t>({0x3F80, 0xC0A0})}}));
  const std::vector<float> state =
      Loaded(file, {{"single", {3}}, {"double", {3}}, {"half", {3}}, {"brain", {2}}});
  ASSERT_EQ(state.size(), 64u);
  EXPECT_EQ(std::memcmp(&state[1], &tiny, sizeof(tiny)), 0) << "bits of float32 stay";
  EXPECT_EQ(std::memcmp(&state[2], &nan, sizeof(nan)), 0);
  EXPECT_EQ(state[0], 1.5F);
  EXPECT_EQ(state[3], 7.0F) << "holes are not touched";
  EXPECT_EQ(state[16], 0.1F);
  EXPECT_EQ(state[17], std::numeric_limits<float>::infinity());
  EXPECT_EQ(state[18], 0.0F) << "below the normal range";
  EXPECT_EQ(state[32], 1.0F);
  EXPECT_EQ(state[33], -5.0F);
  EXPECT_EQ(state[34], 0x1p-24F);
  EXPECT_EQ(state[48], 1.0F);
  EXPECT_EQ(state[49], -5.0F);
}

TEST_F(InitialFile, BuffersAreReadAsTheirType) {
  const std::string file = Write("a", File({{"weight", "F32", "1", Bytes<float>({2})},
                                            {"count", "I64", "", Bytes<int64_t>({1LL << 40})},
                                            {"mask", "BOOL", "3", std::string("\1\0\1", 3)}}));
  const std::vector<float> state =
      Loaded(file, {{"weight", {1}},
                    {"count", {}, TensorKind::kBuffer, TensorType::kInt64},
                    {"mask", {3}, TensorKind::kBuffer, TensorType::kBool}});
  int64_t count = 0;
  std::memcpy(&count, &state[16], sizeof(count));
  EXPECT_EQ(count, 1LL << 40);
  EXPECT_EQ(std::memcmp(&state[32], "\1\0\1", 3), 0);
}

TEST_F(InitialFile, WhatIsOneTensorInTheModelMustBeEqual) {
  const std::vector<TensorSpec> model = {{.name = "a", .shape = {2}, .aliases = {"b"}}};
  const auto file = [&](float last) {
    return Write("a", File({{"a", "F32", "2", Bytes<float>({1, 2})},
                            {"b", "F32", "2", Bytes<float>({1, last})}}));
  };
  const std::vector<float> state = Loaded(file(2), model);
  EXPECT_EQ(state[0], 1);
  EXPECT_EQ(state[1], 2);
  for (const bool strict : {true, false}) {
    const absl::Status differ =
        InitialValues::Open({.file = file(3), .strict = strict}, model).status();
    EXPECT_EQ(differ.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(differ.message()),
                HasSubstr("initial.file: 'a' and 'b' of the file are one tensor in the model"));
  }
}

TEST_F(InitialFile, WhatDoesNotFitStaysAsTheTaskHasIt) {
  const std::string file = Write("a", File({{"body", "F32", "2", Bytes<float>({1, 2})},
                                            {"head", "F32", "1", Bytes<float>({3})}}));
  const std::vector<float> state = Loaded(file, {{"body", {2}}, {"head", {2}}}, false);
  EXPECT_EQ(state[0], 1);
  EXPECT_EQ(state[1], 2);
  EXPECT_EQ(state[16], 7);
  EXPECT_EQ(state[17], 7);
}

// More than is read at a time.
TEST_F(InitialFile, LargeTensorsAreReadInPieces) {
  std::vector<double> numbers(300'001);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i) / 2;
  const std::string file = Write("a", File({{"w", "F64", "300001", Bytes(numbers)}}));
  const std::vector<float> state = Loaded(file, {{"w", {300'001}}});
  for (size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(state[i], static_cast<float>(i) / 2) << i;
}

TEST_F(InitialFile, TheHashIsThatOfTheFilesBytes) {
  const std::string bytes = File({{"w", "F32", "1", Bytes<float>({2})}});
  const auto values = InitialValues::Open({.file = Write("a", bytes)}, {{"w", {1}}});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(values->content_hash(), ContentHash({bytes}));
  EXPECT_EQ(values->loaded(), 1u);
}

TEST_F(InitialFile, AFileThatChangedSinceItWasHashedIsNotRead) {
  const std::string file = Write("a", File({{"w", "F32", "1", Bytes<float>({2})}}));
  const std::vector<TensorSpec> model = {{"w", {1}}};
  const auto values = InitialValues::Open({.file = file}, model);
  ASSERT_TRUE(values.ok()) << values.status();
  Write("a", File({{"w", "F32", "2", Bytes<float>({3, 4})}}));
  std::vector<float> state(16);
  const absl::Status read = values->Write(SpaceOf(model), absl::MakeSpan(state));
  EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.message()), HasSubstr("has changed"));
}

TEST_F(InitialFile, BrokenFilesAreNamed) {
  const std::string good = File({{"w", "F32", "2", Bytes<float>({1, 2})}});
  const Broken kBroken[] = {
      {"empty", "", "too short"},
      {"text", "these are no tensors at all", "its header would have"},
      {"gigabyte", Little<uint64_t>(1 << 30) + "{}", "its header would have 1073741824 bytes"},
      {"json", Safetensors("{\"x\":", ""), "no JSON object"},
      {"cut", good.substr(0, good.size() - 1), "tensor 'w' ends at byte"},
      {"size", File({{"w", "F32", "3", Bytes<float>({1, 2})}}), "are not those of its shape"},
      {"overflow", File({{"w", "F32", "4611686018427387904,4611686018427387904", ""}}),
       "are not those of its shape"},
      {"type", File({{"w", "F8_E4M3", "2", "ab"}}), "is of type F8_E4M3, which cannot be read"}};
  for (const Broken& broken : kBroken) ExpectDataLoss(broken);
}

// Also of a storage that is too large to be looked at when it is opened.
TEST_F(InitialFile, AStorageThatIsNotAsItWasSavedIsNamed) {
  const std::string pickle = PtDict({{"w", PtPickle({"FloatStorage", "0", 0, {2}, {1}})}});
  const std::pair<const char*, size_t> kStorages[] = {{"small", 8}, {"large", size_t{2} << 20}};
  for (const auto& [name, bytes] : kStorages) {
    std::string pt = Pt(pickle, {std::string(bytes, '\0')});
    pt[pt.find("PK\x01\x02") - 1] = '\1';
    ExpectDataLoss({name, pt, "(a/data/0): its checksum differs"});
  }
}

// As torch.save writes a state_dict; two parameters are views of one storage.
TEST_F(InitialFile, WhatTorchSavedIsToldByItsFirstBytes) {
  const std::string half = "HalfStorage", real = "FloatStorage", whole = "LongStorage";
  const std::string dict = PtDict({{"weight", PtPickle({real, "0", 1, {2, 2}, {2, 1}})},
                                   {"bias", PtPickle({real, "0", 0, {1}, {1}})},
                                   {"scale", PtPickle({half, "1", 0, {2}, {1}})},
                                   {"count", PtPickle({whole, "2", 0, {}, {}})}});
  const std::vector<TensorSpec> model = {{"weight", {2, 2}},
                                         {"bias", {1}},
                                         {"scale", {2}},
                                         {"count", {}, TensorKind::kBuffer, TensorType::kInt64}};
  for (const bool deflated : {false, true}) {
    const std::string file = Write(
        "weights.bin",
        Pt(dict,
           {Bytes<float>({9, 1, 2, 3, 4}), Bytes<uint16_t>({0x3C00, 0xC500}), Bytes<int64_t>({7})},
           deflated));
    const std::vector<float> state = Loaded(file, model);
    EXPECT_THAT(std::vector(state.begin(), state.begin() + 4), ElementsAre(1, 2, 3, 4));
    EXPECT_EQ(state[16], 9);
    EXPECT_EQ(state[32], 1);
    EXPECT_EQ(state[33], -5);
    int64_t count = 0;
    std::memcpy(&count, &state[48], sizeof(count));
    EXPECT_EQ(count, 7);
  }
}

// Two tensors of float32, "w" and "b", of storages 0 and 1.
const std::string kW = PtPickle({"FloatStorage", "0", 0, {2}, {1}}),
                  kB = PtPickle({"FloatStorage", "1", 0, {1}, {1}});
const std::vector<std::string> kStorages = {Bytes<float>({1, 2}), Bytes<float>({3})};

TEST_F(InitialFile, AModelsStateIsFoundWhereItStands) {
  const std::string count = "K\7", on = "\x88", none = "N", list = "](K\1K\2e";
  const std::string numbers = "ctorch.jit._pickle\nbuild_intlist\n" + list + "\x85R";
  const struct {
    const char* name;
    std::string pickle;
    std::vector<std::string> names;  // of w and b
  } kFiles[] = {
      {"a dict", PtDict({{"net.w", kW}, {"b", kB}}), {"net.w", "b"}},
      {"beside an optimizer's",
       PtDict({{"epoch", count},
               {"model", PtDict({{"w", kW}, {"b", kB}})},
               {"optimizer", PtDict({{"state", PtDict({{"0", PtDict({{"step", kB}})}})}})},
               {"ema", PtDict({{"w", kB}})}}),
       {"w", "b"}},
      {"of a trainer", PtDict({{"state_dict", PtDict({{"w", kW}, {"b", kB}})}}), {"w", "b"}},
      {"of the tutorials",
       PtDict({{"model_state_dict", PtDict({{"w", kW}, {"b", kB}})}}),
       {"w", "b"}},
      {"a module called model", PtDict({{"model", kW}, {"b", kB}}), {"model", "b"}},
      {"of LibTorch",
       PtModule({{"training", on},
                 {"hook", none},
                 {"sizes", numbers},
                 {"net", PtModule({{"0", PtModule({{"w", kW}}, "__torch__.a.b\nLinear")}})},
                 {"b", kB}}),
       {"net.0.w", "b"}}};
  for (const auto& [name, pickle, names] : kFiles) {
    SCOPED_TRACE(name);
    const std::vector<float> state =
        Loaded(Write("a", Pt(pickle, kStorages)), {{names[0], {2}}, {names[1], {1}}});
    EXPECT_EQ(state[0], 1);
    EXPECT_EQ(state[1], 2);
    EXPECT_EQ(state[16], 3);
  }
}

TEST_F(InitialFile, BrokenModulesAreNamed) {
  // Modules in modules; in one that is in itself; and each of 40 twice in the one around it.
  std::string deep = PtModule({{"w", kW}}), twice = PtModule({{"w", kW}}) + "q\1";
  for (int i = 0; i < 70; ++i) deep = PtModule({{"m", deep}});
  for (int i = 0; i < 40; ++i) twice = PtModule({{"a", twice}, {"b", "h\1"}}) + "q\1";
  const std::string itself = "c__torch__\nM\n)\x81q\1}(" + PtText("m") + "h\1ub";
  // One name of half the pickle, of a hundred thousand tensors.
  std::string many = "}(" + PtText(std::string(400'000, 'n')) + "q\1" + kW + "q\2";
  for (int i = 0; i < 100'000; ++i) many += "h\1h\2";
  const Broken kBroken[] = {
      {"deep", Pt(deep, kStorages), "modules in modules, more than 64"},
      {"itself", Pt(itself, kStorages), "modules in modules, more than 64"},
      {"twice", Pt(twice, kStorages), "what it tells of its tensors comes to more than"},
      {"many", Pt(many + "u", kStorages), "what it tells of its tensors comes to more than"},
      {"other", Pt("cos\nsystem\n)\x81", kStorages), "asks for os.system"},
      {"made", Pt("ccollections\nOrderedDict\n)\x81", kStorages), "it is broken"},
      {"called", Pt("c__torch__\nM\n)R", kStorages), "it is broken"},
      {"built", Pt("](K\1e}b", kStorages), "it is broken"},
      {"typed", Pt("ctorch.jit._pickle\nbuild_tensor_from_id\nK\1\x85R", kStorages),
       "asks for torch.jit._pickle.build_tensor_from_id"},
      {"empty", Pt(PtModule({}), kStorages), "it holds no tensor"},
      {"state", Pt("c__torch__\nM\n)\x81K\1b", kStorages), "it holds no tensor"}};
  for (const Broken& broken : kBroken) ExpectDataLoss(broken);
  const std::string good = Pt(PtModule({{"w", kW}}), {Bytes<float>({1, 2})});
  EXPECT_EQ(Loaded(Write("good", good), {{"w", {2}}})[1], 2);
  for (size_t bytes = 0; bytes < good.size(); ++bytes)
    EXPECT_EQ(InitialValues::Open({.file = Write("cut", good.substr(0, bytes))}, {{"w", {2}}})
                  .status()
                  .code(),
              absl::StatusCode::kDataLoss)
        << bytes;
}

TEST_F(InitialFile, BrokenFilesOfTorchAreNamed) {
  const auto saved = [](const PtTensor& tensor, const std::string& order = "little") {
    return Pt(PtDict({{"w", PtPickle(tensor)}}), {Bytes<float>({1, 2, 3, 4})}, false, order);
  };
  const Broken kBroken[] = {
      {"old", "\x80\x02\x8a\x0alF", "before PyTorch 1.6"},
      {"zip", Zip({{"a/b", "c"}}, false), "a zip file without data.pkl"},
      {"runs", Pt("cos\nsystem\n(" + PtText("true") + "tR", {}), "asks for os.system"},
      {"turned", saved({"FloatStorage", "0", 0, {2, 2}, {1, 2}}), "lie mixed in memory"},
      {"repeated", saved({"FloatStorage", "0", 0, {2, 2}, {0, 1}}), "lie mixed in memory"},
      {"long", saved({"FloatStorage", "0", 0, {5}, {1}}), "more elements than the 4 of its"},
      {"behind", saved({"FloatStorage", "0", 3, {2}, {1}}), "more elements than the 4 of its"},
      {"huge", saved({"FloatStorage", "0", 2147483647, {2147483647, 2147483647}, {2147483647, 1}}),
       "more elements than the 4 of its"},
      {"type", saved({"ComplexFloatStorage", "0", 0, {2}, {1}}), "whose type cannot be read"},
      {"missing", saved({"FloatStorage", "7", 0, {2}, {1}}), "holds no data/7"},
      {"big", saved({"FloatStorage", "0", 0, {2}, {1}}, "big"), "big-endian"}};
  for (const Broken& broken : kBroken) ExpectDataLoss(broken);
}

TEST_F(InitialFile, ABooleanIsZeroOrOne) {
  const std::string file = Write("a", File({{"w", "F32", "1", Bytes<float>({1})},
                                            {"mask", "BOOL", "2", std::string("\1\2")}}));
  const std::vector<TensorSpec> model = {{"w", {1}},
                                         {"mask", {2}, TensorKind::kBuffer, TensorType::kBool}};
  const auto values = InitialValues::Open({.file = file}, model);
  ASSERT_TRUE(values.ok()) << values.status();
  std::vector<float> state(32);
  EXPECT_THAT(std::string(values->Write(SpaceOf(model), absl::MakeSpan(state)).message()),
              HasSubstr("no boolean, in tensor 'mask'"));
}

TEST_F(InitialFile, WhatIsNoFileOrOursIsRefused) {
  const std::string file = Write("a", File({{"w", "F32", "1", Bytes<float>({1})}}));
  const auto error = [](const std::string& path) {
    const absl::Status status = InitialValues::Open({.file = path}, {{"w", {1}}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(error(file + "x"),
            absl::StrCat("initial.file: ", file,
                         "x does not exist; it must lie on the host of every worker"));
  EXPECT_EQ(error(folder_), absl::StrCat("initial.file: ", folder_.string(), " is not a file"));
  EXPECT_EQ(error("/dev/zero"), "initial.file: /dev/zero is not a file");
  Write("muster-folder", "");
  EXPECT_THAT(error(file), HasSubstr("the folder of a run or a cluster"));
}

}  // namespace
}  // namespace muster
