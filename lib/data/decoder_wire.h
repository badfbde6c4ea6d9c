// What a worker and its muster-decoder (lib/data/decoder) say to one another, over a socket between
// the two: a message is its length in 8 bytes, and then numbers and texts in the order that its
// reader expects. Each request has one answer, in the order of requests; the worker need not wait
// for one before it sends the next. Both sides are of one version. Whoever reads believes no
// length. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// A request begins with one of these.
enum class DecoderRequest : uint64_t {
  // path, number of keys, keys → number of arrays, and of each: key, why it cannot be read (empty:
  // it can), type, rows, number of dimensions of a row, dimensions, whether its rows lie side by
  // side in the file as kHdf5Rows gives them, from which byte. All arrays of the file, and those
  // that a key leads to by a link inside of it.
  kHdf5Arrays = 1,
  kHdf5Rows = 2,     // path, key, first row, rows → their bytes
  kHdf5Version = 3,  // → "libhdf5 1.10.8"
  kHdf5Gather = 4,   // path, key, number of ranges, and of each first row, rows → all their bytes
  kImageVersions = 5,  // → "libjpeg-turbo 2.1.5, libpng 1.6.39"
  kImageSize = 6,      // an encoded image → height, width
  // An ImageForm (height, width, whether it may be resized, fit, channels), and an image as it is
  // encoded → its pixels. kFault: it may not be resized.
  kImage = 7,
};

// An answer begins with one of these, and what was asked for or a sentence that says why not.
enum class DecoderAnswer : uint64_t {
  kRead = 0,
  kBadBytes = 1,     // the bytes of these rows or this image are bad, wherever they are read
  kFault = 2,        // all else: of the machine, of the file, of the request
  kOutOfMemory = 3,  // as kFault; one that has nothing open may have enough
};

inline constexpr uint64_t kLengthBytes = 8;
inline constexpr uint64_t kMostRequestBytes = uint64_t{80} << 20;
inline constexpr uint64_t kMostAnswerBytes = uint64_t{320} << 20;

class WireWriter {
 public:
  WireWriter& Number(uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) bytes_.push_back(static_cast<char>(number >> (8 * byte)));
    return *this;
  }
  WireWriter& Text(absl::string_view text) {
    Number(text.size());
    bytes_.append(text.data(), text.size());
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

inline WireWriter Asking(DecoderRequest what) {
  return WireWriter().Number(static_cast<uint64_t>(what));
}

// What is told to people of an answer that is none.
inline constexpr char kDecoderTalksNonsense[] = "the process that decodes it talks nonsense";

// Views what it reads. After the first thing that is not there all are empty, and ok() is false.
class WireReader {
 public:
  explicit WireReader(absl::string_view bytes) : left_(bytes) {}

  uint64_t Number() {
    if (left_.size() < 8) return Fail();
    uint64_t number = 0;
    for (size_t byte = 8; byte-- > 0;)
      number = number << 8 | static_cast<unsigned char>(left_[byte]);
    left_.remove_prefix(8);
    return number;
  }
  absl::string_view Text() {
    const uint64_t bytes = Number();
    if (bytes > left_.size()) Fail();
    const absl::string_view text = left_.substr(0, ok_ ? static_cast<size_t>(bytes) : 0);
    left_.remove_prefix(text.size());
    return text;
  }
  bool ok() const { return ok_; }
  // Whether it was all there, and nothing follows.
  bool AtEnd() const { return ok_ && left_.empty(); }

 private:
  uint64_t Fail() {
    ok_ = false;
    left_ = {};
    return 0;
  }

  absl::string_view left_;
  bool ok_ = true;
};

}  // namespace muster
