#include "lib/data/decoder/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "tests/lib/data/written_files.h"

namespace muster {
namespace {

using testing::HasSubstr;

Image Decoded(const std::string& encoded) {
  const absl::StatusOr<Image> image = DecodeImage(encoded);
  EXPECT_TRUE(image.ok()) << image.status();
  return image.ok() ? *image : Image();
}

std::string Text(const Image& image) { return {image.pixels.begin(), image.pixels.end()}; }

TEST(Png, GivesBackItsPixels) {
  const Picture picture = Slope(7, 5);
  const Image image = Decoded(Png(picture));
  EXPECT_EQ(image.size, (ImageSize{7, 5}));
  EXPECT_EQ(Text(image), picture.pixels);
}

TEST(Png, GrayBecomesThreeEqualChannels) {
  const Image image = Decoded(Png({1, 2, 1, "\x10\x20"}));
  EXPECT_EQ(Text(image), "\x10\x10\x10\x20\x20\x20");
}

TEST(Png, TextsThatUnpackToTooMuchAreItsFaultAndFewAreNot) {
  const Picture picture = Slope(7, 5);
  EXPECT_EQ(Text(Decoded(WithTextsThatUnpack(Png(picture), 2))), picture.pixels);
  const std::string many = WithTextsThatUnpack(Png(picture), 100);
  for (const absl::Status& status : {DecodeImage(many).status(), SizeOfImage(many).status()}) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("more than 67108864 bytes of memory"));
  }
}

// Quality 100 rounds whole numbers only, and the slopes have no edges that sharing colours blurs.
TEST(JpegFile, IsCloseToWhatWasPacked) {
  const Picture picture = Slope(64, 64);
  const Image image = Decoded(Jpeg(picture, 100));
  ASSERT_EQ(image.pixels.size(), picture.pixels.size());
  int furthest = 0;
  for (size_t i = 0; i < image.pixels.size(); ++i)
    furthest = std::max(
        furthest, std::abs(int{image.pixels[i]} - int{static_cast<uint8_t>(picture.pixels[i])}));
  EXPECT_LE(furthest, 6);
}

TEST(JpegFile, ProgressiveHasTheSamePixels) {
  const Picture picture = Slope(33, 47);
  EXPECT_EQ(Text(Decoded(Jpeg(picture, 80, true))), Text(Decoded(Jpeg(picture, 80, false))));
}

TEST(JpegFile, GrayOnesHaveThreeEqualChannels) {
  const Image image = Decoded(Jpeg(Slope(16, 16, 1)));
  for (size_t i = 0; i < image.pixels.size(); i += 3) {
    EXPECT_EQ(image.pixels[i], image.pixels[i + 1]);
    EXPECT_EQ(image.pixels[i], image.pixels[i + 2]);
  }
}

// What Pillow makes of each colour: 255 says that there is none of an ink.
TEST(JpegFile, InksBecomeColours) {
  struct Colour {
    std::vector<uint8_t> inks, expected;
  };
  const std::vector<Colour> colours = {
      {{255, 255, 255, 255}, {255, 255, 255}}, {{255, 255, 255, 0}, {0, 0, 0}},
      {{0, 255, 255, 255}, {0, 255, 255}},     {{255, 0, 255, 255}, {255, 0, 255}},
      {{200, 100, 50, 128}, {100, 50, 25}},    {{17, 203, 90, 251}, {17, 200, 89}}};
  for (const J_COLOR_SPACE stored : {JCS_CMYK, JCS_YCCK}) {
    for (const auto& [inks, expected] : colours) {
      Picture picture{16, 16, 4, ""};
      for (int i = 0; i < 16 * 16; ++i) picture.pixels.append(inks.begin(), inks.end());
      const Image image = Decoded(Jpeg(picture, 100, false, stored));
      ASSERT_EQ(image.pixels.size(), size_t{16 * 16 * 3});
      for (size_t i = 0; i < image.pixels.size(); ++i)
        ASSERT_NEAR(image.pixels[i], expected[i % 3], stored == JCS_CMYK ? 0 : 2)
            << i << " of " << testing::PrintToString(inks);
    }
  }
}

// Of one of the size that is asked for it goes another way.
TEST(FormImage, HasThePlanesOfWhatIsDecoded) {
  for (const std::string& encoded :
       {Jpeg(Slope(33, 47)), Jpeg(Slope(16, 16, 1)), Jpeg(Slope(33, 47, 4)),
        Jpeg(Slope(9, 9, 4), 80, true), Jpeg(Slope(40, 30), 80, true), Png(Slope(33, 47))}) {
    const Image image = Decoded(encoded);
    const ImageForm form{.size = image.size, .may_resize = false};
    std::vector<uint8_t> planes(static_cast<size_t>(form.Bytes()));
    const absl::Status formed = FormImage(encoded, form, absl::MakeSpan(planes));
    ASSERT_TRUE(formed.ok()) << formed;
    const size_t pixels = planes.size() / 3;
    for (size_t i = 0; i < planes.size(); ++i)
      ASSERT_EQ(planes[i % 3 * pixels + i / 3], image.pixels[i]) << i;
    EXPECT_TRUE(absl::IsDataLoss(
        FormImage(encoded.substr(0, encoded.size() / 2), form, absl::MakeSpan(planes))));
    const ImageForm other{.size = {image.size.width, image.size.height + 1}, .may_resize = false};
    std::vector<uint8_t> room(static_cast<size_t>(other.Bytes()));
    EXPECT_TRUE(absl::IsFailedPrecondition(FormImage(encoded, other, absl::MakeSpan(room))));
  }
}

TEST(SizeOfImage, NeedsTheHeaderAlone) {
  EXPECT_EQ(SizeOfImage(Png(Slope(7, 5)).substr(0, 60)).value(), (ImageSize{7, 5}));
  EXPECT_EQ(SizeOfImage(Jpeg(Slope(70, 50)).substr(0, 650)).value(), (ImageSize{70, 50}));
}

// Each byte of a file changed, and each length: an error or an image, and nothing else.
TEST(DecodeImage, BrokenFilesAreErrors) {
  for (const std::string& sound :
       {Png(Slope(9, 9)), Jpeg(Slope(9, 9)), Jpeg(Slope(9, 9), 50, true), Jpeg(Slope(9, 9, 4))}) {
    int refused = 0;
    for (size_t at = 0; at < sound.size(); ++at) {
      refused += !DecodeImage(sound.substr(0, at)).ok();
      for (const char other : {'\0', '\xff', '\x7f'}) {
        std::string changed = sound;
        changed[at] = other;
        refused += !DecodeImage(changed).ok();
      }
    }
    EXPECT_GT(refused, 100);
  }
}

// The dumb twin: the triangle over both axes at once, in reals.
double At(const Image& image, double y, double x, double half_height, double half_width, size_t c) {
  double sum = 0, weights = 0;
  for (int64_t row = 0; row < image.size.height; ++row)
    for (int64_t column = 0; column < image.size.width; ++column) {
      const double down =
          std::max(0.0, 1 - std::abs(static_cast<double>(row) + 0.5 - y) / half_height);
      const double right =
          std::max(0.0, 1 - std::abs(static_cast<double>(column) + 0.5 - x) / half_width);
      sum +=
          down * right *
          image.pixels[static_cast<size_t>((row * image.size.width + column) * image.channels) + c];
      weights += down * right;
    }
  return sum / weights;
}

TEST(Resized, IsWithinALevelOfItsDumbTwin) {
  std::mt19937 random(1);
  for (const auto& [from, to] : std::vector<std::pair<ImageSize, ImageSize>>{{{1, 1}, {3, 3}},
                                                                             {{7, 5}, {3, 2}},
                                                                             {{4, 9}, {8, 9}},
                                                                             {{16, 16}, {5, 7}},
                                                                             {{3, 4}, {6, 2}}}) {
    Image image{from, 3, {}};
    for (int64_t i = 0; i < from.height * from.width * 3; ++i)
      image.pixels.push_back(static_cast<uint8_t>(random()));
    const Image resized = Resized(image, to, ImageFit::kStretch);
    ASSERT_EQ(resized.size, to);
    const double down = static_cast<double>(from.height) / static_cast<double>(to.height);
    const double right = static_cast<double>(from.width) / static_cast<double>(to.width);
    for (int64_t y = 0; y < to.height; ++y)
      for (int64_t x = 0; x < to.width; ++x)
        for (size_t c = 0; c < 3; ++c)
          EXPECT_NEAR(resized.pixels[static_cast<size_t>((y * to.width + x) * 3) + c],
                      At(image, (static_cast<double>(y) + 0.5) * down,
                         (static_cast<double>(x) + 0.5) * right, std::max(1.0, down),
                         std::max(1.0, right), c),
                      1.01);
  }
}

TEST(Resized, CropsTheMiddleAndStretchesAll) {
  const Image image = Decoded(Png({1, 4, 3, "aaabbbcccddd"}));
  EXPECT_EQ(Text(Resized(image, {1, 2}, ImageFit::kCrop)).size(), 6u);
  EXPECT_EQ(
      Text(Resized(Decoded(Png({2, 4, 3, "aaabbbcccdddaaabbbcccddd"})), {2, 2}, ImageFit::kCrop)),
      "bbbcccbbbccc");
  EXPECT_EQ(Text(Resized(image, {1, 4}, ImageFit::kStretch)), "aaabbbcccddd");
}

// Its width alone would make 45 million pixels of it.
TEST(Resized, MakesLittleOfANarrowImageOnTheWay) {
  std::mt19937 random(1);
  Image image{{200'000, 2}, 1, {}};
  for (int i = 0; i < 400'000; ++i) image.pixels.push_back(static_cast<uint8_t>(random()));
  const Image shorter = Resized(image, {16, 2}, ImageFit::kStretch);
  EXPECT_EQ(Text(Resized(image, {16, 224}, ImageFit::kStretch)),
            Text(Resized(shorter, {16, 224}, ImageFit::kStretch)));
}

// Where it fails for want of memory another machine would have read it: that is no bad image.
#ifndef __SANITIZE_ADDRESS__
TEST(JpegFile, WantOfMemoryIsNoFaultOfItsBytes) {
  // In a process that has not held and freed anything yet, whatever tests ran before.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string encoded = Jpeg(Slope(3000, 3000), 60, /*progressive=*/true);
  const auto decode = [&encoded] {
    malloc_trim(0);  // what was freed is room, too
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    // Room for the pixels, and not for the coefficients besides.
    const rlim_t most = static_cast<rlim_t>(pages * getpagesize()) + (rlim_t{40} << 20);
    const rlimit few = {most, most};
    if (setrlimit(RLIMIT_AS, &few) != 0) std::_Exit(2);
    const absl::Status status = DecodeImage(encoded).status();
    std::cerr << status;
    std::_Exit(absl::IsResourceExhausted(status) ? 0 : 1);
  };
  EXPECT_EXIT(decode(), testing::ExitedWithCode(0), "no memory to decode a JPEG");
}
#endif

TEST(ImageDecoders, AreNamedWithTheirVersions) {
  EXPECT_THAT(ImageDecoders(), HasSubstr("libjpeg-turbo 2."));
  EXPECT_THAT(ImageDecoders(), HasSubstr("libpng 1.6."));
}

}  // namespace
}  // namespace muster
