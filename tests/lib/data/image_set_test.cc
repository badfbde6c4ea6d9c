// Images that are read by way of muster-decoder.
#include "lib/data/image_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/data/decoder/image.h"
#include "lib/data/decoder_wire.h"
#include "lib/data/read_good.h"
#include "lib/kernels/sha256.h"
#include "tests/lib/data/opened_set.h"
#include "tests/lib/data/scripted_decoder.h"
#include "tests/lib/data/written_files.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kPatience = std::chrono::milliseconds(2000);

// Of files "image0", "image1", …, whose labels are 0, 1, ….
std::vector<EncodedImage> Images(const std::vector<std::string>& encoded) {
  std::vector<EncodedImage> images;
  for (size_t i = 0; i < encoded.size(); ++i)
    images.push_back({MemorySource(absl::StrCat("image", i), encoded[i]), static_cast<int64_t>(i)});
  return images;
}

std::unique_ptr<StoredDataSet> SetOf(
    const std::vector<std::string>& encoded, const DataSpec& data,
    std::shared_ptr<Decoders> decoders = std::make_shared<Decoders>()) {
  absl::StatusOr<StoredSet> made =
      MakeImageSet(Images(encoded), /*has_label=*/true, data, std::move(decoders));
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? std::move(made->set) : nullptr;
}

std::string Text(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Formed(const std::string& encoded, const DataSpec& data) {
  const ImageForm form{.size = {data.image_size[0], data.image_size[1]},
                       .fit = data.fit,
                       .channels = static_cast<int64_t>(data.channels)};
  std::string planes(static_cast<size_t>(form.Bytes()), '\0');
  const absl::Status formed = FormImage(
      encoded, form, absl::MakeSpan(reinterpret_cast<uint8_t*>(planes.data()), planes.size()));
  EXPECT_TRUE(formed.ok()) << formed;
  return planes;
}

TEST(ImageSet, HasThePixelsThatDecodingInThisProcessGives) {
  const std::vector<std::string> encoded = {Jpeg(Slope(40, 50)), Png(Slope(9, 70)),
                                            Jpeg(Slope(33, 17, 1)), Jpeg(Slope(64, 64), 50, true),
                                            Png(Slope(3, 3, 1))};
  for (const ImageFit fit : {ImageFit::kCrop, ImageFit::kStretch})
    for (const uint64_t channels : {1, 3}) {
      const DataSpec data{.image_size = {16, 12}, .fit = fit, .channels = channels};
      const auto set = SetOf(encoded, data);
      ASSERT_NE(set, nullptr);
      const std::vector<uint64_t> ids = {4, 0, 1, 2, 3, 0};
      const absl::StatusOr<Batch> batch = set->Read(0, ids);
      ASSERT_TRUE(batch.ok()) << batch.status();
      for (size_t i = 0; i < ids.size(); ++i)
        EXPECT_EQ(Text(batch->row(0, i)), Formed(encoded[ids[i]], data)) << ids[i];
      EXPECT_THAT(Values<int64_t>(batch->of(1)), ElementsAre(4, 0, 1, 2, 3, 0));
    }
}

TEST(ImageSet, HasTheHashOfTheLibrariesAndTheFiles) {
  const std::vector<std::string> encoded = {Jpeg(Slope(4, 5)), Png(Slope(4, 5))};
  const absl::StatusOr<StoredSet> made = MakeImageSet(Images(encoded), true, {});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->decoder, ImageDecoders());
  EXPECT_EQ(made->set->ComputeHash([](uint64_t) {}).value(),
            HexSha256(absl::StrCat(ImageDecoders(), encoded[0].size(), " 0\n", encoded[0],
                                   encoded[1].size(), " 1\n", encoded[1])));
}

TEST(ImageSet, RefusesASizeThatNoAnswerHolds) {
  for (const int64_t height : {int64_t{0}, int64_t{-1}, int64_t{8193}, INT64_MAX}) {
    const absl::Status status =
        MakeImageSet(Images({Png(Slope(4, 4))}), false, {.image_size = {height, 8192}}).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("data.image_size: ["));
  }
}

// The answer of a decoder that knows one pixel and no image.
std::string Pixel(const std::string& channels) {
  return Answered(static_cast<uint64_t>(DecoderAnswer::kRead), channels);
}

std::shared_ptr<Decoders> Telling(const Files& files, const std::string& told) {
  return std::make_shared<Decoders>(
      DecoderOptions{.program = Script(files, absl::StrCat(Printf(Answered(0, "libraries")), "; ",
                                                           Printf(told), "; cat >/dev/null")),
                     .patience = kPatience});
}

// It answers only once it has read all of them: the first has no answer before the last is asked
// for.
TEST(ImageSet, AsksForTheNextImagesBeforeItHasTheFirst) {
  const Files files;
  const size_t bytes_of_a_request = kLengthBytes + 7 * 8 + 1;
  const auto decoders = std::make_shared<Decoders>(DecoderOptions{
      .program = Script(
          files,
          absl::StrCat("dd bs=1 count=16 >/dev/null 2>&1; ", Printf(Answered(0, "libraries")),
                       "; dd bs=1 count=", 3 * bytes_of_a_request, " >/dev/null 2>&1; ",
                       Printf(Pixel("123") + Pixel("456") + Pixel("789")), "; cat >/dev/null")),
      .patience = kPatience});
  const auto set = SetOf({"a", "b", "c"}, {.image_size = {1, 1}}, decoders);
  ASSERT_NE(set, nullptr);
  const absl::StatusOr<Batch> batch = set->Read(0, std::vector<uint64_t>{2, 0, 1});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(Text(batch->of(0)), "123456789");
  EXPECT_THAT(Values<int64_t>(batch->of(1)), ElementsAre(2, 0, 1));
}

// More than any socket holds, both ways.
TEST(ImageSet, NeitherSideWaitsForTheOtherForEver) {
  std::vector<std::string> encoded;
  for (int i = 0; i < 40; ++i)
    encoded.push_back(Png(Slope(300 + i, 300)) + std::string(100'000, 'x'));
  const DataSpec data{.image_size = {400, 400}};
  const auto set = SetOf(encoded, data);
  ASSERT_NE(set, nullptr);
  std::vector<uint64_t> ids(encoded.size());
  std::iota(ids.begin(), ids.end(), uint64_t{0});
  const absl::StatusOr<Batch> batch = set->Read(0, ids);
  ASSERT_TRUE(batch.ok()) << batch.status();
  for (const size_t id : {0, 39}) EXPECT_EQ(Text(batch->row(0, id)), Formed(encoded[id], data));
}

TEST(ImageSet, GivesEachSampleAsItIsRead) {
  const std::vector<std::string> encoded = {Png(Slope(4, 4)), Jpeg(Slope(9, 9)), Png(Slope(5, 6))};
  const DataSpec data{.image_size = {4, 4}};
  const auto set = SetOf(encoded, data);
  ASSERT_NE(set, nullptr);
  const std::vector<uint64_t> ids = {2, 0, 2, 1};
  std::vector<size_t> taken;
  const absl::Status status =
      set->ReadEach(0, ids, [&](size_t i, absl::Span<const absl::Span<const std::byte>> rows) {
        taken.push_back(i);
        EXPECT_EQ(Text(rows[0]), Formed(encoded[ids[i]], data));
        EXPECT_THAT(Values<int64_t>(rows[1]), ElementsAre(static_cast<int64_t>(ids[i])));
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(taken, ElementsAre(0, 1, 2, 3));
}

TEST(ImageSet, BelievesNoAnswer) {
  const auto message = [](const std::string& body) {
    return WireWriter().Number(body.size()).bytes() + body;
  };
  for (const std::string& told :
       {message(""), Pixel("123") + Pixel("45"), Pixel("1234") + Pixel("456"),
        Pixel("123") + message(WireWriter().Number(0).Text("456").bytes() + "x"),
        Answered(9, "123") + Pixel("123"),
        Pixel("123") + message(WireWriter().Number(0).Number(~uint64_t{0}).bytes())}) {
    const Files files;
    const auto set = SetOf({"a", "b"}, {.image_size = {1, 1}}, Telling(files, told));
    ASSERT_NE(set, nullptr);
    const absl::Status status = set->Read(0, std::vector<uint64_t>{0, 1}).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("talks nonsense"));
    EXPECT_FALSE(IsBadSample(status));
  }
}

std::vector<uint32_t> BadOnes(const DataSet& set, const std::vector<uint64_t>& ids, Batch& batch) {
  const absl::StatusOr<std::vector<uint32_t>> bad = ReadGood(set, 0, ids, batch, 0);
  EXPECT_TRUE(bad.ok()) << bad.status();
  return bad.ok() ? *bad : std::vector<uint32_t>();
}

TEST(ImageSet, ABadOneIsNamedAndItsNeighboursArriveFromTheSameDecoder) {
  const Files files;
  const std::string starts = files.root() + "/starts";
  const auto decoders = std::make_shared<Decoders>(DecoderOptions{
      .program = Script(files, absl::StrCat("echo >> ", starts, "; ", ExecTheRealOne()))});
  const std::string png = Png(Slope(4, 4));
  const std::vector<std::string> encoded = {png, "GIF89a", Jpeg(Slope(9, 9)),
                                            png.substr(0, png.size() - 20)};
  const DataSpec data{.image_size = {4, 4}};
  const auto set = SetOf(encoded, data, decoders);
  ASSERT_NE(set, nullptr);
  const std::vector<uint64_t> ids = {0, 1, 2, 3};
  const absl::Status status = set->Read(0, ids).status();
  EXPECT_TRUE(IsBadSample(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("sample 1: image1: it is neither JPEG nor PNG"));
  Batch batch(set->Fields(), ids.size());
  EXPECT_THAT(BadOnes(*set, ids, batch), ElementsAre(1, 3));
  for (const size_t good : {0, 2}) EXPECT_EQ(Text(batch.row(0, good)), Formed(encoded[good], data));
  EXPECT_EQ(std::filesystem::file_size(starts), 1u) << "none has ended";
}

// The system of a machine that is short of memory does that.
TEST(ImageSet, ADecoderThatIsKilledInTheMidstOfImagesIsReplaced) {
  const Files files;
  const std::string mark = files.root() + "/started";
  const auto decoders = std::make_shared<Decoders>(DecoderOptions{
      .program =
          Script(files, absl::StrCat("[ -e ", mark, " ] || { : > ", mark, "; ",
                                     Printf(Answered(0, "libraries")),
                                     "; dd bs=1 count=100 >/dev/null 2>&1; kill -KILL $$; }\n",
                                     ExecTheRealOne()))});
  const std::vector<std::string> encoded = {Jpeg(Slope(40, 50)), Png(Slope(30, 30))};
  const DataSpec data{.image_size = {8, 8}};
  const auto set = SetOf(encoded, data, decoders);
  ASSERT_NE(set, nullptr);
  const std::vector<uint64_t> ids = {0, 1};
  Batch batch(set->Fields(), ids.size());
  EXPECT_THAT(BadOnes(*set, ids, batch), IsEmpty());
  for (const size_t i : {0, 1}) EXPECT_EQ(Text(batch.row(0, i)), Formed(encoded[i], data));
}

// A decoder that notes in `starts` that it was started, answers requests for "good1" and "good2",
// and does something else with any other.
std::string AnswersGoodOnes(const std::string& starts, const std::string& with_others) {
  const size_t bytes_of_a_good_one = 7 * 8 + std::string("good1").size();  // of the request
  return absl::StrCat(
      "echo >> ", starts, "\nwhile :; do\n",
      "n=$(dd bs=1 count=8 2>/dev/null | od -An -tu8 | tr -d ' ')\n[ -n \"$n\" ] || exit 0\n",
      "dd bs=1 count=$n of=/dev/null 2>/dev/null\ncase $n in\n", "8) ",
      Printf(Answered(0, "libraries")), " ;;\n", bytes_of_a_good_one, ") ", Printf(Pixel("123")),
      " ;;\n*) ", with_others, " ;;\nesac\ndone");
}

// It ends each decoder that sees it, with others or alone; once that is known it ends none.
TEST(ImageSet, OneThatEndsDecodersIsABadSampleAndItsNeighboursArrive) {
  const Files files;
  const std::string starts = files.root() + "/starts";
  const std::vector<std::string> encoded = {"good1", "hostile one", "good2"};
  const std::string script = AnswersGoodOnes(starts, "kill -SEGV $$");
  const auto decoders =
      std::make_shared<Decoders>(DecoderOptions{.program = Script(files, script)});
  const auto set = SetOf(encoded, {.image_size = {1, 1}}, decoders);
  ASSERT_NE(set, nullptr);
  const std::vector<uint64_t> ids = {0, 1, 2};
  for (int round = 0; round < 3; ++round) {
    Batch batch(set->Fields(), ids.size());
    EXPECT_THAT(BadOnes(*set, ids, batch), ElementsAre(1));
    for (const size_t good : {0, 2}) EXPECT_EQ(Text(batch.row(0, good)), "123");
    EXPECT_EQ(std::filesystem::file_size(starts), 4u) << "it has ended three";
  }
  EXPECT_THAT(std::string(set->Read(0, std::vector<uint64_t>{1}).status().message()),
              HasSubstr("sample 1: image1: the process that decodes it ended by signal 11"));
}

// Each decoder that sees the second one hangs. It is waited for twice, with the others and alone,
// and never again.
TEST(ImageSet, OneThatHoldsDecodersUpIsABadSampleAndItsNeighboursArrive) {
  const Files files;
  const std::string starts = files.root() + "/starts";
  const std::vector<std::string> encoded = {"good1", "endless one", "good2"};
  const std::string script = AnswersGoodOnes(starts, "kill -STOP $$");
  std::vector<std::string> warned;
  const auto decoders = std::make_shared<Decoders>(
      DecoderOptions{.program = Script(files, script),
                     .patience = kPatience,
                     .warns = [&](const std::string& text) { warned.push_back(text); }});
  const auto set = SetOf(encoded, {.image_size = {1, 1}}, decoders);
  ASSERT_NE(set, nullptr);
  const std::vector<uint64_t> ids = {0, 1, 2};
  for (int round = 0; round < 2; ++round) {
    Batch batch(set->Fields(), ids.size());
    EXPECT_THAT(BadOnes(*set, ids, batch), ElementsAre(1));
    for (const size_t good : {0, 2}) EXPECT_EQ(Text(batch.row(0, good)), "123");
    EXPECT_EQ(std::filesystem::file_size(starts), 3u) << "two were held up";
  }
  EXPECT_THAT(warned, testing::Each(HasSubstr("no answer for sample 1: image1 within 2 s")));
  EXPECT_EQ(warned.size(), 2u);
  EXPECT_THAT(std::string(set->Read(0, std::vector<uint64_t>{1}).status().message()),
              HasSubstr("sample 1: image1: two processes that were to decode it"));
}

// It would unpack to 700 MiB, and any number of such texts would fit into a file.
TEST(ImageSet, OneThatUnpacksToTooMuchIsABadSampleAndItsNeighboursArriveFromTheSameDecoder) {
  const Files files;
  const std::string starts = files.root() + "/starts";
  const auto decoders = std::make_shared<Decoders>(DecoderOptions{
      .program = Script(files, absl::StrCat("echo >> ", starts, "; ", ExecTheRealOne()))});
  const std::vector<std::string> encoded = {
      Png(Slope(4, 4)), WithTextsThatUnpack(Png(Slope(4, 4)), 100), Jpeg(Slope(9, 9))};
  const DataSpec data{.image_size = {4, 4}};
  const auto set = SetOf(encoded, data, decoders);
  ASSERT_NE(set, nullptr);
  const std::vector<uint64_t> ids = {0, 1, 2};
  Batch batch(set->Fields(), ids.size());
  EXPECT_THAT(BadOnes(*set, ids, batch), ElementsAre(1));
  for (const size_t good : {0, 2}) EXPECT_EQ(Text(batch.row(0, good)), Formed(encoded[good], data));
  EXPECT_EQ(std::filesystem::file_size(starts), 1u) << "none has ended";
}

// Another machine may have more of it. What an image may need has room in the limit that is real.
TEST(ImageSet, WantOfMemoryIsNoBadSampleAndItsNeighboursArrive) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes more address space than any limit";
#endif
  const auto decoders = std::make_shared<Decoders>(DecoderOptions{.memory = uint64_t{64} << 20});
  const DataSpec data{.image_size = {4, 4}};
  const std::vector<std::string> encoded = {
      Png(Slope(4, 4)), Jpeg(Slope(3000, 3000), 60, /*progressive=*/true), Png(Slope(5, 5))};
  const auto set = SetOf(encoded, data, decoders);
  ASSERT_NE(set, nullptr);
  const absl::Status status = set->Read(0, std::vector<uint64_t>{0, 1, 2}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_FALSE(IsBadSample(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("sample 1: image1: it needs more than the 67108864 bytes of memory"));
  const absl::StatusOr<Batch> others = set->Read(0, std::vector<uint64_t>{0, 2});
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_EQ(Text(others->row(0, 1)), Formed(encoded[2], data));
  const auto whole = SetOf(encoded, data);
  ASSERT_NE(whole, nullptr);
  EXPECT_TRUE(whole->Read(0, std::vector<uint64_t>{0, 1, 2}).ok());
}

}  // namespace
}  // namespace muster
