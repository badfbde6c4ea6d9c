#include "lib/data/decoder/png.h"

#include <png.h>

#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "lib/base/status.h"

namespace muster {
namespace {

constexpr png_uint_32 kMostSide = 1 << 20;
constexpr png_alloc_size_t kMostChunkBytes = 8 << 20;
// Texts of a few bytes may unpack to a chunk each. The widest image takes 17 MiB of libpng.
constexpr png_uint_32 kMostTexts = 64;
constexpr png_alloc_size_t kMostBytesTaken = 64 << 20;

// What of the file is not read yet, and what went wrong.
struct Reading {
  absl::string_view left;
  char said[200] = {};
  bool no_memory = false;      // it is no fault of the bytes
  png_alloc_size_t taken = 0;  // of memory, by libpng itself and in all
  bool wants_too_much = false;
};

[[noreturn]] void Leave(png_structp png, png_const_charp why) {
  auto* reading = static_cast<Reading*>(png_get_error_ptr(png));
  std::strncpy(reading->said, why, sizeof(reading->said) - 1);
  png_longjmp(png, 1);
}

// libpng goes on without a text for which it got no memory, to the next one.
void Warn(png_structp png, png_const_charp why) {
  if (static_cast<Reading*>(png_get_error_ptr(png))->wants_too_much) png_error(png, why);
}

// NOLINTBEGIN(cppcoreguidelines-no-malloc): as libpng does itself
png_voidp Allocate(png_structp png, png_alloc_size_t bytes) {
  auto* reading = static_cast<Reading*>(png_get_mem_ptr(png));
  if (bytes > kMostBytesTaken - reading->taken) {
    reading->wants_too_much = true;
    return nullptr;
  }
  reading->taken += bytes;
  png_voidp memory = std::malloc(bytes);
  if (memory == nullptr) reading->no_memory = true;
  return memory;
}
void Free(png_structp, png_voidp memory) { std::free(memory); }
// NOLINTEND(cppcoreguidelines-no-malloc)

void Take(png_structp png, png_bytep into, size_t bytes) {
  auto* reading = static_cast<Reading*>(png_get_io_ptr(png));
  if (bytes > reading->left.size()) png_error(png, "it is cut off");
  std::memcpy(into, reading->left.data(), bytes);
  reading->left.remove_prefix(bytes);
}

// Nothing in these two has a destructor, since longjmp would leave it out. False: `said` tells.
bool ReadHeader(png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_user_limits(png, kMostSide, kMostSide);
  png_set_chunk_malloc_max(png, kMostChunkBytes);
  png_set_chunk_cache_max(png, kMostTexts);
  png_read_info(png, info);
  return true;
}

bool ReadPixels(png_structp png, png_infop info, png_bytepp rows, size_t row_bytes) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != row_bytes) png_error(png, "its channels are not known");
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

class Decoder {
 public:
  explicit Decoder(absl::string_view encoded)
      : reading_{encoded, {}},
        png_(png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &reading_, Leave, Warn, &reading_,
                                      Allocate, Free)),
        info_(png_ == nullptr ? nullptr : png_create_info_struct(png_)) {}
  ~Decoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  absl::StatusOr<Image> Decode(bool size_alone) {
    if (info_ == nullptr) return NoMemory();
    png_set_read_fn(png_, &reading_, Take);
    if (!ReadHeader(png_, info_) || reading_.wants_too_much) return Failed();
    Image image{{png_get_image_height(png_, info_), png_get_image_width(png_, info_)}, 3, {}};
    MUSTER_RETURN_IF_ERROR(CheckPixels("PNG", image.size));
    if (size_alone) return image;
    const auto row_bytes = static_cast<size_t>(image.size.width) * 3;
    image.pixels.resize(row_bytes * static_cast<size_t>(image.size.height));
    std::vector<png_bytep> rows;
    for (size_t y = 0; y < static_cast<size_t>(image.size.height); ++y)
      rows.push_back(image.pixels.data() + y * row_bytes);
    if (!ReadPixels(png_, info_, rows.data(), row_bytes) || reading_.wants_too_much)
      return Failed();
    return image;
  }

 private:
  static absl::Status NoMemory() {
    return absl::ResourceExhaustedError("no memory to decode a PNG");
  }
  absl::Status Failed() const {
    if (reading_.no_memory) return NoMemory();
    if (reading_.wants_too_much)
      return absl::DataLossError(absl::StrCat("a PNG that takes more than ", kMostBytesTaken,
                                              " bytes of memory besides its pixels"));
    return absl::DataLossError(absl::StrCat("a broken PNG: ", reading_.said));
  }

  Reading reading_;
  png_structp png_;
  png_infop info_;
};

}  // namespace

absl::StatusOr<Image> DecodePng(absl::string_view encoded, bool size_alone) {
  return Decoder(encoded).Decode(size_alone);
}

std::string PngDecoder() { return absl::StrCat("libpng ", png_get_libpng_ver(nullptr)); }

}  // namespace muster
