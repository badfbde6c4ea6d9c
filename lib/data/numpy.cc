#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/data/array_set.h"
#include "lib/data/checksum.h"
#include "lib/data/data_memory.h"
#include "lib/data/formats.h"
#include "lib/data/held_files.h"
#include "lib/data/numbers_in_bytes.h"
#include "lib/data/zip.h"

namespace muster {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr uint64_t kMostHeaderBytes = uint64_t{64} << 10;
constexpr size_t kMostDimensions = 32;

struct Header {
  std::string type;  // "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
  uint64_t data_at = 0;
};

// The dictionary of a header: a literal of Python with three keys.
class Dictionary {
 public:
  explicit Dictionary(absl::string_view text) : text_(text) {}

  // False: it is none of these.
  bool Read(Header& header) {
    bool has[3] = {};
    if (!Take('{')) return false;
    while (!Take('}')) {
      std::string key;
      if (!Text(key) || !Take(':')) return false;
      const size_t which = key == "descr" ? 0 : key == "fortran_order" ? 1 : 2;
      if ((which == 2 && key != "shape") || std::exchange(has[which], true)) return false;
      const bool read = which == 0   ? Text(header.type)
                        : which == 1 ? Boolean(header.fortran_order)
                                     : Shape(header.shape);
      if (!read) return false;
      if (!Take(',')) {
        if (!Take('}')) return false;
        break;
      }
    }
    Blanks();
    return has[0] && has[1] && has[2] && text_.empty();
  }

 private:
  void Blanks() { text_ = absl::StripLeadingAsciiWhitespace(text_); }

  bool Take(char c) {
    Blanks();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  bool Text(std::string& into) {
    Blanks();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return false;
    const size_t end = text_.find(text_[0], 1);
    if (end == absl::string_view::npos) return false;
    into = std::string(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return true;
  }

  bool Boolean(bool& into) {
    Blanks();
    into = absl::ConsumePrefix(&text_, "True");
    return into || absl::ConsumePrefix(&text_, "False");
  }

  bool Shape(std::vector<int64_t>& into) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      Blanks();
      size_t digits = 0;
      while (digits < text_.size() &&
             absl::ascii_isdigit(static_cast<unsigned char>(text_[digits])))
        ++digits;
      if (digits == 0 || into.size() == kMostDimensions ||
          !absl::SimpleAtoi(text_.substr(0, digits), &into.emplace_back()))
        return false;
      text_.remove_prefix(digits);
      absl::ConsumePrefix(&text_, "L");  // of Python 2
      if (!Take(',')) return Take(')');
    }
    return true;
  }

  absl::string_view text_;
};

absl::StatusOr<Header> ReadHeader(const ByteSource& npy) {
  std::byte begin[12] = {};
  if (npy.size() < sizeof(begin)) return BadAt(npy, npy.size(), "it is too short for a .npy file");
  MUSTER_RETURN_IF_ERROR(npy.ReadAt(0, begin));
  if (absl::string_view(reinterpret_cast<const char*>(begin), kMagic.size()) != kMagic)
    return BadAt(npy, 0, "it is no .npy file");
  const int version = static_cast<int>(begin[6]);
  if (version < 1 || version > 3)
    return BadAt(npy, 6, absl::StrCat("version ", version, " of .npy is not known"));
  const uint64_t bytes =
      version == 1 ? LittleEndian<uint16_t>(begin + 8) : LittleEndian<uint32_t>(begin + 8);
  const uint64_t at = version == 1 ? 10 : 12;
  if (bytes > kMostHeaderBytes || bytes > npy.size() - at)
    return BadAt(
        npy, 8,
        absl::StrCat("its header would have ", bytes, " bytes; the file has ", npy.size() - at,
                     ", and ", kMostHeaderBytes, " are allowed; it is cut off, or no .npy file"));
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadString(npy, at, bytes));
  Header header;
  if (!Dictionary(text).Read(header))
    return BadAt(npy, at, "its header is no dictionary of descr, fortran_order and shape");
  header.data_at = at + bytes;
  return header;
}

struct NumpyType {
  absl::string_view letters;
  TensorType type;
};
constexpr NumpyType kTypes[] = {
    {"f4", TensorType::kFloat32}, {"f8", TensorType::kFloat64}, {"f2", TensorType::kFloat16},
    {"i8", TensorType::kInt64},   {"i4", TensorType::kInt32},   {"i2", TensorType::kInt16},
    {"i1", TensorType::kInt8},    {"u1", TensorType::kUint8},   {"b1", TensorType::kBool}};

// Where in a sample of this shape the element stands that is number `column` in Fortran's order.
uint64_t PlaceInSample(uint64_t column, const std::vector<int64_t>& shape) {
  uint64_t step = 1, place = 0;
  for (const int64_t size : shape) step *= static_cast<uint64_t>(size);
  for (const int64_t size : shape) {
    step /= static_cast<uint64_t>(size);
    place += column % static_cast<uint64_t>(size) * step;
    column /= static_cast<uint64_t>(size);
  }
  return place;
}

// Rows from what lies in Fortran's order from `at`, where all of it is there: one element of all
// samples after the other. A block at a time, so that little is held twice.
absl::Status ReadTurned(const ByteSource& npy, uint64_t at, uint64_t rows, const DataField& field,
                        std::string& into) {
  constexpr uint64_t kRowsAtOnce = uint64_t{1} << 16;
  constexpr uint64_t kBytesAtOnce = uint64_t{4} << 20;
  const auto row_bytes = static_cast<uint64_t>(field.Bytes());
  const auto element = static_cast<uint64_t>(BytesOfElement(field.type));
  const uint64_t columns = row_bytes / element;
  const uint64_t rows_at_once = std::min(rows, kRowsAtOnce);
  const uint64_t columns_at_once =
      std::clamp<uint64_t>(kBytesAtOnce / (rows_at_once * element), 1, columns);
  std::vector<std::byte> block(rows_at_once * columns_at_once * element);
  for (uint64_t row = 0; row < rows; row += rows_at_once) {
    const uint64_t column_bytes = std::min(rows_at_once, rows - row) * element;
    for (uint64_t column = 0; column < columns; column += columns_at_once) {
      const uint64_t some = std::min(columns_at_once, columns - column);
      std::vector<Piece> pieces;
      std::vector<uint64_t> places;
      for (uint64_t c = 0; c < some; ++c) {
        pieces.push_back({at + ((column + c) * rows + row) * element,
                          absl::MakeSpan(block).subspan(c * column_bytes, column_bytes)});
        places.push_back(PlaceInSample(column + c, field.shape) * element);
      }
      // Whole columns lie side by side.
      if (column_bytes == rows * element)
        pieces = {{pieces[0].offset, absl::MakeSpan(block).first(some * column_bytes)}};
      MUSTER_RETURN_IF_ERROR(npy.ReadEach(pieces));
      for (uint64_t from = 0; from < column_bytes; from += element) {
        char* const sample = into.data() + (row + from / element) * row_bytes;
        for (uint64_t c = 0; c < some; ++c)
          std::memcpy(sample + places[c], block.data() + c * column_bytes + from, element);
      }
    }
  }
  return absl::OkStatus();
}

// The same samples one after the other, in memory. kResourceExhausted: there is not enough.
absl::StatusOr<SourcePtr> InRows(const SourcePtr& npy, uint64_t at, uint64_t rows,
                                 const DataField& field) {
  const uint64_t bytes = rows * static_cast<uint64_t>(field.Bytes());
  DataMemory memory;
  if (const absl::Status taken = memory.Take(npy->name(), bytes); !taken.ok())
    return absl::ResourceExhaustedError(absl::StrCat(
        taken.message(), "; it lies in Fortran's order, which is turned in memory: save ",
        "numpy.ascontiguousarray of it, which is read in place"));
  std::string turned(bytes, '\0');
  MUSTER_RETURN_IF_ERROR(ReadTurned(*npy, at, rows, field, turned));
  MUSTER_RETURN_IF_ERROR(CheckChecksum(*npy));  // nobody reads it in passing
  return HeldSource(npy->name(), std::move(turned), CheckInTurn({npy}), std::move(memory));
}

// `is_used`: whether anyone wants its rows.
absl::Status AddNpy(const SourcePtr& npy, const std::string& key, bool is_used,
                    std::vector<Array>& arrays) {
  MUSTER_ASSIGN_OR_RETURN(Header header, ReadHeader(*npy));
  const absl::string_view type = header.type;
  const auto* known =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const NumpyType& candidate) {
        return type.size() == 3 && type.substr(1) == candidate.letters &&
               absl::StrContains("<>|=", type.substr(0, 1));
      });
  if (known == std::end(kTypes))
    return Bad(*npy, absl::StrCat("its elements are '", Cut(type, 40),
                                  "'; float16, 32 and 64, int8, 16, 32 and 64, uint8 and bool can "
                                  "be read"));
  if (header.shape.empty())
    return Bad(*npy, "it holds a single number; its first dimension must be that of the samples");
  const auto rows = static_cast<uint64_t>(header.shape.front());
  header.shape.erase(header.shape.begin());
  const DataField field{key, known->type, std::move(header.shape)};
  MUSTER_ASSIGN_OR_RETURN(const uint64_t row_bytes, RowBytes(*npy, field));
  const bool swapped = type[0] == '>' && BytesOfElement(field.type) > 1;
  // Where some of it is missing AddPart says so.
  const bool is_there = rows > 0 && rows <= (npy->size() - header.data_at) / row_bytes;
  if (!header.fortran_order || field.shape.empty() || !is_used || !is_there)
    return AddPart(arrays, field, swapped, {npy, header.data_at, rows, row_bytes});
  MUSTER_ASSIGN_OR_RETURN(const SourcePtr turned, InRows(npy, header.data_at, rows, field));
  return AddPart(arrays, field, swapped, {turned, 0, rows, row_bytes});
}

}  // namespace

absl::StatusOr<StoredSet> OpenNumpy(const DataFiles& files, const DataSpec& data) {
  std::vector<Array> found;
  std::vector<std::string> others;
  for (const DataFile& file : files) {
    if (!absl::EndsWith(file.source->name(), ".npz")) {
      const std::string key = file.place.path.stem().string();
      MUSTER_RETURN_IF_ERROR(AddNpy(file.source, key, IsAskedFor(key, data), found));
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ReadZip(*file.source));
    std::set<std::string> keys;
    for (const ZipMember& member : members) {
      const std::string key(absl::StripSuffix(member.name, ".npy"));
      // Arrays of one key are joined only where they are in files of their own.
      if (!keys.insert(key).second)
        return Bad(*file.source,
                   absl::StrCat("array '", key.substr(0, 100), "' stands there twice"));
      if (!IsAskedFor(key, data)) {
        others.push_back(key);
        continue;
      }
      MUSTER_ASSIGN_OR_RETURN(const SourcePtr npy, OpenMember(file.source, member));
      MUSTER_RETURN_IF_ERROR(AddNpy(npy, key, /*is_used=*/true, found));
    }
  }
  MUSTER_ASSIGN_OR_RETURN(std::vector<Array> chosen, ChooseArrays(std::move(found), data, others));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StoredDataSet> set, MakeArraySet(std::move(chosen)));
  return StoredSet{std::move(set), !data.label.empty()};
}

}  // namespace muster
