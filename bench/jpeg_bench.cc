// How fast libjpeg-turbo alone decodes JPEG files to red, green and blue, by one thread, in this
// process and not by way of muster-decoder: what a reader of images has as its limit.
// bench/data_peers.py gives it the files that data_bench reads. Files lie in memory before the time
// begins, and one decompressor takes them one after the other.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

// After <cstdio>, which it needs.
#include <jpeglib.h>

#include "bench/statistics.h"
#include "lib/base/time.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kChannels = 3;

struct Settings {
  std::string folder;
  int pictures = 100;
  int rounds = 5;
  double seconds = 3;
  double warm_up = 1;
  std::string json;
};

struct Encoded {
  std::string name;
  std::vector<uint8_t> bytes;
};

// What cannot be decoded ends the benchmark.
[[noreturn]] void Refuse(j_common_ptr of) {
  char said[JMSG_LENGTH_MAX];
  of->err->format_message(of, said);
  std::fprintf(stderr, "%s: %s\n", static_cast<const char*>(of->client_data), said);
  std::exit(1);
}

class Decoder {
 public:
  // `fast`: the settings that give up exactness for speed, where libjpeg-turbo has such. Without it
  // its own, which are those of lib/data/decoder: both give the same pixels.
  explicit Decoder(bool fast) : fast_(fast) {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = Refuse;
    jpeg_create_decompress(&jpeg_);
  }
  ~Decoder() { jpeg_destroy_decompress(&jpeg_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Bytes of pixels() that the picture has.
  size_t Decode(const Encoded& encoded) {
    jpeg_.client_data = const_cast<char*>(encoded.name.c_str());  // NOLINT: Refuse only reads it
    jpeg_mem_src(&jpeg_, encoded.bytes.data(),
                 static_cast<unsigned long>(encoded.bytes.size()));  // NOLINT: its type
    jpeg_read_header(&jpeg_, TRUE);
    jpeg_.out_color_space = JCS_RGB;
    jpeg_.dct_method = fast_ ? JDCT_IFAST : JDCT_ISLOW;
    jpeg_.do_fancy_upsampling = fast_ ? FALSE : TRUE;
    jpeg_start_decompress(&jpeg_);
    const size_t row_bytes = size_t{jpeg_.output_width} * kChannels;
    const size_t bytes = row_bytes * jpeg_.output_height;
    if (pixels_.size() < bytes) pixels_.resize(bytes);
    rows_.resize(jpeg_.output_height);
    for (size_t row = 0; row < rows_.size(); ++row) rows_[row] = pixels_.data() + row * row_bytes;
    while (jpeg_.output_scanline < jpeg_.output_height)
      jpeg_read_scanlines(&jpeg_, rows_.data() + jpeg_.output_scanline,
                          jpeg_.output_height - jpeg_.output_scanline);
    jpeg_finish_decompress(&jpeg_);
    return bytes;
  }

  const std::vector<uint8_t>& pixels() const { return pixels_; }

 private:
  const bool fast_;
  jpeg_error_mgr errors_{};
  jpeg_decompress_struct jpeg_{};
  std::vector<uint8_t> pixels_;
  std::vector<JSAMPROW> rows_;
};

// A picture of slopes and noise, as bench/data_peers.py makes them.
Encoded MakePicture(uint32_t number) {
  constexpr JDIMENSION kHeight = 240;
  constexpr JDIMENSION kWidth = 320;
  std::mt19937 random(number);
  std::vector<uint8_t> row(size_t{kWidth} * kChannels);
  jpeg_error_mgr errors{};
  jpeg_compress_struct jpeg{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's
  jpeg_mem_dest(&jpeg, &memory, &size);
  jpeg.image_width = kWidth;
  jpeg.image_height = kHeight;
  jpeg.input_components = kChannels;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 90, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  for (uint32_t y = 0; y < kHeight; ++y) {
    for (uint32_t x = 0; x < kWidth; ++x)
      for (uint32_t c = 0; c < kChannels; ++c)
        row[x * kChannels + c] =
            static_cast<uint8_t>((y * (number % 7) + x) * (c + 1) + random() % 40);
    JSAMPROW of_row = row.data();
    jpeg_write_scanlines(&jpeg, &of_row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  Encoded encoded{"a picture of its own", {memory, memory + size}};
  std::free(memory);
  return encoded;
}

std::vector<Encoded> Pictures(const Settings& settings) {
  std::vector<Encoded> pictures;
  if (settings.folder.empty()) {
    for (int i = 0; i < settings.pictures; ++i)
      pictures.push_back(MakePicture(static_cast<uint32_t>(i)));
    return pictures;
  }
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(settings.folder)) {
    const std::string ending = entry.path().extension();
    if (entry.is_regular_file() && (ending == ".jpg" || ending == ".jpeg"))
      names.push_back(entry.path());
  }
  std::sort(names.begin(), names.end());
  for (std::string& name : names) {
    std::ifstream in(name, std::ios::binary);
    std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
    pictures.push_back({std::move(name), std::move(bytes)});
  }
  return pictures;
}

struct Pass {
  double seconds = 0;
  double megabytes = 0;  // of red, green and blue
};

// All pictures, as often as takes so many seconds; once at least.
Pass DecodeFor(Decoder& decoder, const std::vector<Encoded>& pictures, double seconds) {
  Pass pass;
  size_t seen = 0;
  do {
    const auto begin = Clock::now();
    for (const Encoded& picture : pictures) {
      const size_t bytes = decoder.Decode(picture);
      pass.megabytes += static_cast<double>(bytes) / 1e6;
      seen += decoder.pixels()[bytes / 2];
    }
    pass.seconds += Seconds(Clock::now() - begin);
  } while (pass.seconds < seconds);
  if (seen == SIZE_MAX) std::printf("\n");  // nobody could foresee it, so nothing is left out
  return pass;
}

int Run(const Settings& settings) {
  const std::vector<Encoded> pictures = Pictures(settings);
  if (pictures.empty()) {
    std::fprintf(stderr, "%s: no .jpg and no .jpeg lies in it\n", settings.folder.c_str());
    return 1;
  }
  Decoder exact(/*fast=*/false);
  Decoder fast(/*fast=*/true);
  const double megabytes = DecodeFor(exact, pictures, 0).megabytes;
  std::printf("%zu pictures, %.1f MB of red, green and blue\n", pictures.size(), megabytes);
  Figure rate_of_exact{"MB/s, libjpeg-turbo alone", ""};
  Figure rate_of_fast{"MB/s, libjpeg-turbo alone, less exact", ""};
  for (int round = 0; round < settings.rounds; ++round)
    for (const auto& [decoder, rate] :
         {std::pair(&exact, &rate_of_exact), std::pair(&fast, &rate_of_fast)}) {
      if (settings.warm_up > 0) DecodeFor(*decoder, pictures, settings.warm_up);
      const Pass pass = DecodeFor(*decoder, pictures, settings.seconds);
      rate->values.push_back(pass.megabytes / pass.seconds);
    }
  nlohmann::json record = {{"pictures", pictures.size()}, {"mb", megabytes}};
  for (const Figure* rate : {&rate_of_exact, &rate_of_fast}) {
    rate->Print();
    record["figures"][rate->name] = rate->Record();
  }
  if (!settings.json.empty()) std::ofstream(settings.json) << record.dump(1) << "\n";
  return 0;
}

int Main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Measures how fast libjpeg-turbo alone decodes JPEG files, by one thread.");
  app.add_option("folder", settings.folder,
                 "where .jpg and .jpeg files lie; without it pictures are made in memory")
      ->check(CLI::ExistingDirectory);
  app.add_option("--pictures", settings.pictures, "how many are made")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--rounds", settings.rounds, "for each setting")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", settings.seconds, "of a round at least, in whole passes")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--warm-up", settings.warm_up, "seconds at least before a round, not counted")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--json", settings.json, "a file for the figures");
  CLI11_PARSE(app, argc, argv);
  return Run(settings);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) { return muster::bench::Main(argc, argv); }
