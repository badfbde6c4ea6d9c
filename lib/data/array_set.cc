#include "lib/data/array_set.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/data/checksum.h"
#include "lib/data/element.h"
#include "lib/data/samples_text.h"
#include "lib/domain/tensor_type.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

constexpr uint64_t kMostRowBytes = uint64_t{1} << 31;
constexpr size_t kHashedAtOnce = size_t{1} << 20;

void SwapElements(absl::Span<std::byte> row, size_t element) {
  for (size_t at = 0; at + element <= row.size(); at += element)
    std::reverse(row.begin() + static_cast<std::ptrdiff_t>(at),
                 row.begin() + static_cast<std::ptrdiff_t>(at + element));
}

// An array, and where each of its parts begins.
class PlacedArray {
 public:
  PlacedArray(Array array, OnBadSample on_bad_sample)
      : array_(std::move(array)), on_bad_sample_(on_bad_sample) {
    uint64_t rows = 0;
    for (const ArrayPart& part : array_.parts) {
      first_rows_.push_back(rows);
      rows += part.rows;
    }
  }

  const DataField& field() const { return array_.field; }
  const std::vector<ArrayPart>& parts() const { return array_.parts; }

  std::string PlaceOf(uint64_t row) const {
    const size_t p = PartOf(row);
    return absl::StrCat(array_.parts[p].source->name(), ": row ", row - first_rows_[p],
                        " (from 0)");
  }

  // Rows side by side; each is below Rows(). Part by part, so that a file is opened once for all.
  absl::Status ReadRows(absl::Span<const uint64_t> rows, absl::Span<std::byte> into) const {
    const auto row_bytes = static_cast<size_t>(array_.field.Bytes());
    std::vector<std::pair<size_t, Piece>> pieces;  // with the part of each
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t p = PartOf(rows[i]);
      const ArrayPart& part = array_.parts[p];
      pieces.push_back({p,
                        {part.offset + (rows[i] - first_rows_[p]) * part.stride,
                         into.subspan(i * row_bytes, row_bytes)}});
    }
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Piece> of_part;
    for (size_t i = 0; i < pieces.size(); ++i) {
      of_part.push_back(pieces[i].second);
      if (i + 1 < pieces.size() && pieces[i + 1].first == pieces[i].first) continue;
      MUSTER_RETURN_IF_ERROR(array_.parts[pieces[i].first].source->ReadEach(of_part));
      of_part.clear();
    }
    if (array_.swapped) SwapElements(into, static_cast<size_t>(BytesOfElement(array_.field.type)));
    if (array_.field.type == TensorType::kBool) MakeBooleans(into);
    return absl::OkStatus();
  }

  // What distinguishes it from others, without where it lies. The checksums of its sources are
  // looked at on the way, but for those that were `checked`.
  absl::Status HashInto(Sha256& hash, const std::function<void(uint64_t)>& told,
                        std::set<const ByteSource*>& checked) const {
    const std::string head =
        absl::StrCat(array_.field.name.size(), " ", array_.field.name, " ",
                     static_cast<int>(array_.field.type), " ", ShapeText(array_.field.shape), " ",
                     array_.Rows(), " ", array_.swapped ? "swapped" : "", "\n");
    hash.Update(BytesOf(head));
    const auto row_bytes = static_cast<uint64_t>(array_.field.Bytes());
    const std::function<void()> goes_on = [&] { told(0); };
    for (const ArrayPart& part : array_.parts) {
      const bool checks = part.source->crc() && checked.insert(part.source.get()).second;
      ChecksumInPassing checksum(*part.source, goes_on);
      std::vector<std::byte> piece;
      const uint64_t rows_at_once = std::max<uint64_t>(1, kHashedAtOnce / part.stride);
      for (uint64_t row = 0; row < part.rows; row += rows_at_once) {
        const uint64_t rows = std::min(rows_at_once, part.rows - row);
        piece.resize(static_cast<size_t>((rows - 1) * part.stride + row_bytes));
        const absl::Status read =
            part.source->ReadAt(part.offset + row * part.stride, absl::MakeSpan(piece));
        if (on_bad_sample_ == OnBadSample::kSkip && IsBadSample(read)) {
          MUSTER_RETURN_IF_ERROR(HashOneByOne(part, row, rows, hash));
          told(rows * row_bytes);
          continue;
        }
        MUSTER_RETURN_IF_ERROR(read);
        if (checks) MUSTER_RETURN_IF_ERROR(checksum.Saw(part.offset + row * part.stride, piece));
        for (uint64_t r = 0; r < rows; ++r)
          hash.Update(absl::MakeConstSpan(piece).subspan(static_cast<size_t>(r * part.stride),
                                                         static_cast<size_t>(row_bytes)));
        told(rows * row_bytes);
      }
      if (checks) MUSTER_RETURN_IF_ERROR(checksum.Finish());
    }
    return absl::OkStatus();
  }

 private:
  size_t PartOf(uint64_t row) const {
    const auto after = std::upper_bound(first_rows_.begin(), first_rows_.end(), row);
    return static_cast<size_t>(after - first_rows_.begin()) - 1;
  }

  // Some of these rows are bad.
  absl::Status HashOneByOne(const ArrayPart& part, uint64_t first, uint64_t rows,
                            Sha256& hash) const {
    std::vector<std::byte> bytes(static_cast<size_t>(array_.field.Bytes()));
    for (uint64_t row = first; row < first + rows; ++row) {
      const absl::Status read =
          part.source->ReadAt(part.offset + row * part.stride, absl::MakeSpan(bytes));
      if (!read.ok() && !IsBadSample(read)) return read;
      hash.Update(read.ok() ? absl::MakeConstSpan(bytes) : BytesOf("a bad row"));
    }
    return absl::OkStatus();
  }

  const Array array_;
  const OnBadSample on_bad_sample_;
  std::vector<uint64_t> first_rows_;  // by part
};

class ArraySet final : public StoredDataSet {
 public:
  ArraySet(std::vector<PlacedArray> arrays, uint64_t rows, std::string decoder)
      : arrays_(std::move(arrays)), rows_(rows), decoder_(std::move(decoder)) {
    for (const PlacedArray& array : arrays_) fields_.push_back(array.field());
  }

  const std::vector<DataField>& Fields() const override { return fields_; }
  uint64_t Samples() const override { return rows_; }
  // Its label's, where there is one.
  std::string PlaceOf(uint64_t id) const override {
    return id < rows_ ? arrays_.back().PlaceOf(id) : "";
  }

  uint64_t BytesToHash() const override {
    uint64_t bytes = 0;
    for (const DataField& field : fields_) bytes += rows_ * static_cast<uint64_t>(field.Bytes());
    return bytes;
  }

  absl::StatusOr<std::string> ComputeHash(
      const std::function<void(uint64_t)>& told) const override {
    Sha256 hash;
    if (!decoder_.empty()) hash.Update(BytesOf(decoder_));
    std::set<const ByteSource*> checked;
    for (const PlacedArray& array : arrays_)
      MUSTER_RETURN_IF_ERROR(array.HashInto(hash, told, checked));
    return hash.HexFinish();
  }

  absl::Status CheckChecksums() const override {
    std::set<const ByteSource*> checked;
    for (const PlacedArray& array : arrays_)
      for (const ArrayPart& part : array.parts())
        if (checked.insert(part.source.get()).second)
          MUSTER_RETURN_IF_ERROR(CheckChecksum(*part.source));
    return absl::OkStatus();
  }

  absl::Status ReadInto(int64_t, absl::Span<const uint64_t> ids, Batch& batch,
                        size_t first) const override {
    MUSTER_RETURN_IF_ERROR(CheckIds(ids, rows_));
    for (size_t f = 0; f < arrays_.size(); ++f) {
      const size_t row_bytes = batch.row(f, first).size();
      MUSTER_RETURN_IF_ERROR(
          arrays_[f].ReadRows(ids, batch.of(f).subspan(first * row_bytes, ids.size() * row_bytes)));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<PlacedArray> arrays_;
  std::vector<DataField> fields_;
  const uint64_t rows_;
  const std::string decoder_;
};

}  // namespace

uint64_t Array::Rows() const {
  uint64_t rows = 0;
  for (const ArrayPart& part : parts) rows += part.rows;
  return rows;
}

absl::StatusOr<uint64_t> RowBytes(const ByteSource& source, const DataField& field) {
  auto bytes = static_cast<uint64_t>(BytesOfElement(field.type));
  for (const int64_t size : field.shape) {
    if (size < 1)
      return Bad(source, absl::StrCat("a sample of '", field.name, "' has the shape ",
                                      ShapeText(field.shape), ", which holds nothing"));
    if (static_cast<uint64_t>(size) > kMostRowBytes / bytes)
      return Bad(source, absl::StrCat("a sample of '", field.name, "' has the shape ",
                                      ShapeText(field.shape), "; at most ", kMostRowBytes,
                                      " bytes are allowed"));
    bytes *= static_cast<uint64_t>(size);
  }
  return bytes;
}

absl::Status AddPart(std::vector<Array>& arrays, const DataField& field, bool swapped,
                     ArrayPart part) {
  const ByteSource& source = *part.source;
  MUSTER_ASSIGN_OR_RETURN(const uint64_t row_bytes, RowBytes(source, field));
  if (part.stride < row_bytes) return Bad(source, "its rows overlap");
  const uint64_t left = part.offset > source.size() ? 0 : source.size() - part.offset;
  const uint64_t fit = left < row_bytes ? 0 : (left - row_bytes) / part.stride + 1;
  if (part.rows > fit)
    return BadAt(source, source.size(),
                 absl::StrCat("'", field.name, "' has ", part.rows, " rows of ", row_bytes,
                              " bytes from byte ", part.offset, ", and the file ends before"));
  const auto same = std::find_if(arrays.begin(), arrays.end(),
                                 [&](const Array& a) { return a.field.name == field.name; });
  if (same == arrays.end()) {
    arrays.push_back({field, swapped, {std::move(part)}});
    return absl::OkStatus();
  }
  if (same->field != field || same->swapped != swapped)
    return Bad(source, absl::StrCat("'", field.name, "' has another type or shape, ",
                                    ShapeText(field.shape), ", than in ",
                                    same->parts.front().source->name(), ", ",
                                    ShapeText(same->field.shape)));
  same->parts.push_back(std::move(part));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StoredDataSet>> MakeArraySet(std::vector<Array> arrays,
                                                            OnBadSample on_bad_sample,
                                                            std::string decoder) {
  if (arrays.empty() || arrays.front().Rows() == 0) return absl::InvalidArgumentError("no sample");
  const uint64_t rows = arrays.front().Rows();
  std::vector<PlacedArray> placed;
  for (Array& array : arrays) {
    if (array.Rows() != rows)
      return Bad(*array.parts.front().source,
                 absl::StrCat("'", array.field.name, "' has ", array.Rows(), " samples, and '",
                              arrays.front().field.name, "' has ", rows));
    placed.emplace_back(array, on_bad_sample);
  }
  return std::make_unique<ArraySet>(std::move(placed), rows, std::move(decoder));
}

bool IsAskedFor(const std::string& key, const DataSpec& data) {
  return data.keys.empty() || key == data.label ||
         std::find(data.keys.begin(), data.keys.end(), key) != data.keys.end();
}

namespace {

absl::Status CheckUsed(const std::vector<Array>& arrays, const std::string& field,
                       const std::string& name) {
  std::vector<std::string> names;
  for (const Array& array : arrays) names.push_back(array.field.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return absl::OkStatus();
  names.resize(std::min<size_t>(names.size(), 20));
  return absl::FailedPreconditionError(absl::StrCat(
      field, ": '", name, "' is no key that is used; these are: ", absl::StrJoin(names, ", ")));
}

// All parts of an array are alike, so that the first speaks for all.
absl::Status CheckDeclared(const std::vector<Array>& arrays, const DataSpec& data) {
  for (const auto& [name, type] : data.types)
    MUSTER_RETURN_IF_ERROR(CheckUsed(arrays, "data.types", name));
  for (const auto& [name, shape] : data.shapes)
    MUSTER_RETURN_IF_ERROR(CheckUsed(arrays, "data.shapes", name));
  for (const Array& array : arrays) {
    const std::string& name = array.field.name;
    const auto type = data.types.find(name);
    if (type != data.types.end() && type->second != array.field.type)
      return Bad(*array.parts.front().source,
                 absl::StrCat("'", name, "' is ", NameOf(array.field.type), ", and data.types.",
                              name, " declares ", NameOf(type->second)));
    const auto shape = data.shapes.find(name);
    if (shape != data.shapes.end() && shape->second != array.field.shape)
      return Bad(
          *array.parts.front().source,
          absl::StrCat("a sample of '", name, "' has the shape ", ShapeText(array.field.shape),
                       ", and data.shapes.", name, " declares ", ShapeText(shape->second)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Array>> ChooseArrays(std::vector<Array> found, const DataSpec& data,
                                                const std::vector<std::string>& others) {
  std::vector<std::string> names = data.keys;
  if (names.empty())
    for (const Array& array : found) names.push_back(array.field.name);
  std::erase(names, data.label);
  if (!data.label.empty()) names.push_back(data.label);
  std::vector<Array> chosen;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto named = std::find_if(found.begin(), found.end(),
                                    [&](const Array& a) { return a.field.name == names[i]; });
    if (named == found.end()) {
      std::vector<std::string> there;
      for (const Array& array : found) there.push_back(array.field.name);
      there.insert(there.end(), others.begin(), others.end());
      there.resize(std::min<size_t>(there.size(), 20));
      const bool is_label = !data.label.empty() && i + 1 == names.size();
      return absl::FailedPreconditionError(
          absl::StrCat(is_label ? "data.label" : "data.keys", ": the files hold no array '",
                       names[i], "'; they hold: ", absl::StrJoin(there, ", ")));
    }
    chosen.push_back(*named);
  }
  MUSTER_RETURN_IF_ERROR(CheckDeclared(chosen, data));
  return chosen;
}

}  // namespace muster
