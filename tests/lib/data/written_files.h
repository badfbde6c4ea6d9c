// Files of each format, as tests and fuzz targets write them: by hand where the format is simple,
// so that the reader is not tried against itself.
#pragma once

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace muster {

template <class T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::string Little(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  return bytes;
}

inline std::string Big32(uint32_t value) {
  const std::string little = Little(value);
  return {little.rbegin(), little.rend()};
}

inline std::string Npy(const std::string& type, const std::vector<int64_t>& shape,
                       const std::string& data, const std::string& order = "False") {
  std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': ", order, ", 'shape': (",
                   absl::StrJoin(shape, ", "), shape.size() == 1 ? ",)" : ")", ", }");
  header.append(63 - (10 + header.size()) % 64, ' ');
  header.push_back('\n');
  return absl::StrCat(std::string("\x93NUMPY\x01\x00", 8),
                      Little(static_cast<uint16_t>(header.size())), header, data);
}

inline std::string Deflated(const std::string& bytes, int window = -15) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string Gzip(const std::string& bytes) { return Deflated(bytes, 15 + 16); }

// As numpy.savez writes it (with the field of zip64 in local headers), or savez_compressed.
inline std::string Zip(const std::vector<std::pair<std::string, std::string>>& files,
                       bool deflated) {
  std::string out, directory;
  for (const auto& [name, bytes] : files) {
    const std::string packed = deflated ? Deflated(bytes) : bytes;
    const auto crc = static_cast<uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
    const std::string method = Little<uint16_t>(deflated ? 8 : 0), time(4, '\0');
    const auto size = static_cast<uint32_t>(bytes.size());
    const auto packed_size = static_cast<uint32_t>(packed.size());
    const auto name_size = static_cast<uint16_t>(name.size());
    const auto at = static_cast<uint32_t>(out.size());
    absl::StrAppend(&out, "PK\x03\x04", Little<uint16_t>(45), Little<uint16_t>(0), method, time,
                    Little(crc));
    absl::StrAppend(&out, Little<uint32_t>(0xffffffff), Little<uint32_t>(0xffffffff),
                    Little(name_size), Little<uint16_t>(20), name, Little<uint16_t>(1),
                    Little<uint16_t>(16), Little<uint64_t>(size), Little<uint64_t>(packed_size));
    absl::StrAppend(&out, packed);
    absl::StrAppend(&directory, "PK\x01\x02", Little<uint16_t>(45), Little<uint16_t>(45),
                    Little<uint16_t>(0), method, time, Little(crc), Little(packed_size));
    absl::StrAppend(&directory, Little(size), Little(name_size), std::string(12, '\0'),
                    Little<uint32_t>(at), name);
  }
  const auto count = static_cast<uint16_t>(files.size());
  return absl::StrCat(out, directory, std::string("PK\x05\x06\0\0\0\0", 8), Little(count),
                      Little(count),
                      absl::StrCat(Little(static_cast<uint32_t>(directory.size())),
                                   Little(static_cast<uint32_t>(out.size())), Little<uint16_t>(0)));
}

inline std::string Safetensors(const std::string& header, const std::string& data) {
  return absl::StrCat(Little<uint64_t>(header.size()), header, data);
}

// A tensor in a pickle of torch.save, as that writes it but for what it puts aside for later.
struct PtTensor {
  std::string storage;  // "FloatStorage"
  std::string entry;
  int offset = 0;
  std::vector<int> shape, strides;
};

inline std::string PtText(const std::string& text) {
  return absl::StrCat("X", Little(static_cast<uint32_t>(text.size())), text);
}

inline std::string PtPickle(const PtTensor& tensor) {
  const auto number = [](int value) { return absl::StrCat("J", Little(value)); };
  const auto tuple = [&](const std::vector<int>& values) {
    std::string parts;
    for (const int value : values) parts += number(value);
    return absl::StrCat("(", parts, "t");
  };
  return absl::StrCat("ctorch._utils\n_rebuild_tensor_v2\n((", PtText("storage"), "ctorch\n",
                      tensor.storage, "\n", PtText(tensor.entry), PtText("cpu"), number(99), "tQ",
                      number(tensor.offset), tuple(tensor.shape), tuple(tensor.strides), "\x89",
                      "ccollections\nOrderedDict\n)RtR");
}

inline std::string PtDict(const std::vector<std::pair<std::string, std::string>>& values) {
  std::string items;
  for (const auto& [key, value] : values) absl::StrAppend(&items, PtText(key), value);
  return absl::StrCat("}(", items, "u");
}

// A module as TorchScript's archives have it, and as LibTorch's torch::save writes one.
inline std::string PtModule(const std::vector<std::pair<std::string, std::string>>& values,
                            const std::string& of = "__torch__\nModule") {
  return absl::StrCat("c", of, "\n)\x81", PtDict(values), "b");
}

// Of the value that `pickle` makes; entries 0, 1, … are `storages`.
inline std::string Pt(const std::string& pickle, const std::vector<std::string>& storages,
                      bool deflated = false, const std::string& order = "little") {
  std::vector<std::pair<std::string, std::string>> files = {
      {"a/data.pkl", absl::StrCat("\x80\x02", pickle, ".")}, {"a/byteorder", order}};
  for (size_t i = 0; i < storages.size(); ++i)
    files.emplace_back(absl::StrCat("a/data/", i), storages[i]);
  return Zip(files, deflated);
}

inline std::string Idx(int type, const std::vector<uint32_t>& shape, const std::string& data) {
  std::string out = {'\0', '\0', static_cast<char>(type), static_cast<char>(shape.size())};
  for (const uint32_t size : shape) out += Big32(size);
  return out + data;
}

inline std::string Tar(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string out;
  for (const auto& [name, bytes] : files) {
    std::string header(512, '\0');
    const auto put = [&](size_t at, const std::string& text) {
      header.replace(at, text.size(), text);
    };
    put(0, name.substr(0, 100));
    put(100, "0000644");
    put(124, absl::StrFormat("%011o", bytes.size()));
    put(148, std::string(8, ' '));
    put(156, "0");
    put(257, std::string("ustar\00000", 8));
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    put(148, absl::StrFormat("%06o", sum) + std::string("\0 ", 2));
    out += header + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
  }
  return out + std::string(1024, '\0');
}

// Pixels of red, green and blue (`channels` 3), gray ones (1), or those of four inks (4).
struct Picture {
  uint32_t height = 0;
  uint32_t width = 0;
  int channels = 3;
  std::string pixels;
};

// Colours that rise along both axes, so that a turned or moved picture is another one.
inline Picture Slope(uint32_t height, uint32_t width, int channels = 3) {
  Picture picture{height, width, channels, ""};
  for (uint32_t y = 0; y < height; ++y)
    for (uint32_t x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        picture.pixels.push_back(static_cast<char>((c == 0   ? 255 * y / height
                                                    : c == 1 ? 255 * x / width
                                                             : 128) &
                                                   0xff));
  return picture;
}

inline std::string Png(const Picture& picture) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_structp to, png_bytep bytes, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(to))
            ->append(reinterpret_cast<const char*>(bytes), size);
      },
      nullptr);
  png_set_IHDR(png, info, picture.width, picture.height, 8,
               picture.channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  const size_t row_bytes = picture.width * static_cast<size_t>(picture.channels);
  for (uint32_t y = 0; y < picture.height; ++y)
    png_write_row(png, reinterpret_cast<png_const_bytep>(picture.pixels.data() + y * row_bytes));
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

// With chunks of text that have a few kilobytes each, and 7 MiB when they are unpacked.
inline std::string WithTextsThatUnpack(const std::string& png, int texts) {
  const std::string body =
      absl::StrCat(std::string("zTXtk\0\0", 7), Deflated(std::string(size_t{7} << 20, 'x'), 15));
  const auto sum =
      static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size()));
  const std::string chunk =
      absl::StrCat(Big32(static_cast<uint32_t>(body.size() - 4)), body, Big32(sum));
  std::string bytes = png.substr(0, 33);  // its signature and IHDR
  for (int i = 0; i < texts; ++i) bytes += chunk;
  return bytes + png.substr(33);
}

// Of four channels it is one of inks, stored as it is or with their luminance apart.
inline std::string Jpeg(const Picture& picture, int quality = 95, bool progressive = false,
                        J_COLOR_SPACE stored_inks = JCS_CMYK) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): its type
  jpeg_mem_dest(&jpeg, &memory, &size);
  jpeg.image_width = picture.width;
  jpeg.image_height = picture.height;
  jpeg.input_components = picture.channels;
  jpeg.in_color_space = picture.channels == 4   ? JCS_CMYK
                        : picture.channels == 3 ? JCS_RGB
                                                : JCS_GRAYSCALE;
  jpeg_set_defaults(&jpeg);
  if (picture.channels == 4) jpeg_set_colorspace(&jpeg, stored_inks);
  jpeg_set_quality(&jpeg, quality, TRUE);
  if (progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  const size_t row_bytes = picture.width * static_cast<size_t>(picture.channels);
  while (jpeg.next_scanline < jpeg.image_height) {
    auto* row = reinterpret_cast<JSAMPROW>(
        const_cast<char*>(picture.pixels.data() + jpeg.next_scanline * row_bytes));
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string out(reinterpret_cast<const char*>(memory), size);
  jpeg_destroy_compress(&jpeg);
  std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc): libjpeg's
  return out;
}

}  // namespace muster
