#include "lib/data/decoder/jpeg.h"

#include <csetjmp>
#include <cstdio>
#include <vector>

// After <cstdio>, which it needs.
#include <jerror.h>
#include <jpeglib.h>

#include "lib/base/status.h"
#include "lib/kernels/planes.h"

namespace muster {
namespace {

// A progressive file may name any number of passes over all pixels.
constexpr int kMostScans = 32;
constexpr size_t kChannels = 3;  // red, green and blue, also of a gray one
constexpr int kInks = 4;         // cyan, magenta, yellow and black

struct Errors {
  jpeg_error_mgr manager{};  // first, so that a pointer to it is one to this
  jpeg_progress_mgr progress{};
  std::jmp_buf back{};
  char said[JMSG_LENGTH_MAX] = {};
  bool no_memory = false;  // it is no fault of the bytes
};

Errors& ErrorsOf(j_common_ptr of) { return *reinterpret_cast<Errors*>(of->err); }

[[noreturn]] void Leave(j_common_ptr of) {
  of->err->format_message(of, ErrorsOf(of).said);
  ErrorsOf(of).no_memory = of->err->msg_code == JERR_OUT_OF_MEMORY;
  std::longjmp(ErrorsOf(of).back, 1);
}

// libjpeg goes on with gray where the data has ended. Other warnings are of what does no harm.
void Warn(j_common_ptr of, int level) {
  if (level >= 0) return;
  ++of->err->num_warnings;
  if (of->err->msg_code == JWRN_JPEG_EOF || of->err->msg_code == JWRN_HIT_MARKER) Leave(of);
}

void CountScans(j_common_ptr of) {
  if (reinterpret_cast<j_decompress_ptr>(of)->input_scan_number <= kMostScans) return;
  std::snprintf(ErrorsOf(of).said, sizeof(ErrorsOf(of).said), "it has more than %d scans",
                kMostScans);
  std::longjmp(ErrorsOf(of).back, 1);
}

// Nothing here has a destructor, since longjmp would leave it out. False: `errors.said` tells.
bool Begin(jpeg_decompress_struct& jpeg, Errors& errors, absl::string_view encoded) {
  jpeg.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = Leave;
  errors.manager.emit_message = Warn;
  errors.progress.progress_monitor = CountScans;
  if (setjmp(errors.back) != 0) return false;
  jpeg_create_decompress(&jpeg);
  jpeg.progress = &errors.progress;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(encoded.data()),
               static_cast<unsigned long>(encoded.size()));  // NOLINT(google-runtime-int): its type
  jpeg_read_header(&jpeg, TRUE);
  return true;
}

// `row(y)` says where row y is to be written, `wrote(y)` hears that it is. Neither may throw.
template <typename Row, typename Wrote>
bool ReadRows(jpeg_decompress_struct& jpeg, Errors& errors, const Row& row, const Wrote& wrote) {
  if (setjmp(errors.back) != 0) return false;
  jpeg.out_color_space = jpeg.num_components == kInks ? JCS_CMYK : JCS_RGB;
  jpeg.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    const size_t y = jpeg.output_scanline;
    JSAMPROW to = row(y);
    jpeg_read_scanlines(&jpeg, &to, 1);
    wrote(y);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

// Of four bytes for each pixel, which say where there is no ink, as Adobe's programs write them and
// everybody after them. By whole numbers, to the nearest one, as Pillow does it.
void ColoursOf(absl::Span<const uint8_t> inks, absl::Span<uint8_t> colours) {
  const uint8_t* of = inks.data();
  for (size_t pixel = 0; pixel < inks.size() / size_t{kInks}; ++pixel, of += kInks) {
    const uint32_t light = of[3];  // that black ink leaves
    for (size_t c = 0; c < kChannels; ++c) {
      const uint32_t taken = (255u - of[c]) * light + 128;
      colours[pixel * kChannels + c] = static_cast<uint8_t>(light - (taken + (taken >> 8)) / 256);
    }
  }
}

class Decoder {
 public:
  ~Decoder() { jpeg_destroy_decompress(&jpeg_); }

  // First.
  absl::StatusOr<ImageSize> Begin(absl::string_view encoded) {
    if (!muster::Begin(jpeg_, errors_, encoded)) return Failed();
    const ImageSize size{jpeg_.image_height, jpeg_.image_width};
    MUSTER_RETURN_IF_ERROR(CheckPixels("JPEG", size));
    const int channels = jpeg_.num_components;
    if (channels != 1 && channels != 3 && channels != kInks)
      return absl::DataLossError(absl::StrCat("a JPEG with ", channels,
                                              " channels; gray ones, those of red, green and ",
                                              "blue, and those of four inks (CMYK) can be read"));
    if (channels == kInks) inks_.resize(size_t{jpeg_.image_width} * size_t{kInks});
    return size;
  }

  absl::Status Decode(absl::Span<uint8_t> pixels) {
    const size_t row_bytes = size_t{jpeg_.image_width} * kChannels;
    return ReadColours([&](size_t y) { return pixels.subspan(y * row_bytes, row_bytes); },
                       [](size_t) {});
  }

  // A row is turned while it is near.
  absl::Status DecodePlanes(absl::Span<uint8_t> planes) {
    const size_t width = jpeg_.image_width;
    const size_t plane = width * jpeg_.image_height;
    std::vector<uint8_t> pixels(width * kChannels);
    return ReadColours([&](size_t) { return absl::MakeSpan(pixels); },
                       [&](size_t y) { ThreePlanes(pixels, planes.subspan(y * width), plane); });
  }

 private:
  // As ReadRows; `row(y)` are the colours of row y.
  template <typename Row, typename Wrote>
  absl::Status ReadColours(const Row& row, const Wrote& wrote) {
    const bool has_inks = !inks_.empty();
    const auto to = [&](size_t y) { return has_inks ? inks_.data() : row(y).data(); };
    const auto turned = [&](size_t y) {
      if (has_inks) ColoursOf(inks_, row(y));
      wrote(y);
    };
    return ReadRows(jpeg_, errors_, to, turned) ? absl::OkStatus() : Failed();
  }

  absl::Status Failed() const {
    if (errors_.no_memory) return absl::ResourceExhaustedError("no memory to decode a JPEG");
    return absl::DataLossError(absl::StrCat("a broken JPEG: ", errors_.said));
  }

  Errors errors_;
  jpeg_decompress_struct jpeg_{};
  std::vector<uint8_t> inks_;  // of one row; empty: it has none
};

}  // namespace

absl::StatusOr<Image> DecodeJpeg(absl::string_view encoded, bool size_alone) {
  Decoder decoder;
  Image image;
  MUSTER_ASSIGN_OR_RETURN(image.size, decoder.Begin(encoded));
  if (size_alone) return image;
  image.pixels.resize(static_cast<size_t>(image.size.height * image.size.width) * kChannels);
  MUSTER_RETURN_IF_ERROR(decoder.Decode(absl::MakeSpan(image.pixels)));
  return image;
}

absl::StatusOr<bool> DecodeJpegPlanes(absl::string_view encoded, ImageSize size,
                                      absl::Span<uint8_t> planes) {
  Decoder decoder;
  MUSTER_ASSIGN_OR_RETURN(const ImageSize found, decoder.Begin(encoded));
  if (found != size) return false;
  MUSTER_RETURN_IF_ERROR(decoder.DecodePlanes(planes));
  return true;
}

std::string JpegDecoder() {
  constexpr int kNumber = LIBJPEG_TURBO_VERSION_NUMBER;  // 2001005 is 2.1.5
  return absl::StrCat("libjpeg-turbo ", kNumber / 1'000'000, ".", kNumber / 1000 % 1000, ".",
                      kNumber % 1000);
}

}  // namespace muster
