#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/status.h"
#include "lib/data/array_set.h"
#include "lib/data/decoder_process.h"
#include "lib/data/decoder_wire.h"
#include "lib/data/formats.h"

namespace muster {
namespace {

constexpr size_t kMostDimensions = 32;
constexpr uint64_t kMostArrays = 20'000;                 // twice what a decoder tells of
constexpr size_t kMostWords = 500;                       // of an error
constexpr uint64_t kMostRowBytes = uint64_t{256} << 20;  // that pass through one answer
constexpr uint64_t kBytesOfAnswer = uint64_t{8} << 20;
constexpr size_t kMostRanges = 1 << 16;  // of one request
constexpr int kMostFailedGathers = 3;
// Deflate makes at most 1032 bytes of one; who tells of more has nothing there.
constexpr uint64_t kMostBytesOfOne = 1100;

struct Hdf5Array {
  std::string key;
  std::string why_not;  // it cannot be read; empty: it can
  TensorType type = TensorType::kFloat32;
  uint64_t rows = 0;
  std::vector<int64_t> shape;  // of a row
  // The rows lie there in the file side by side, and need no library.
  std::optional<uint64_t> offset;
};

// The bytes of one array, row after row, which a decoder gives.
class Hdf5Source final : public ByteSource {
 public:
  Hdf5Source(SourcePtr file, const std::string& key, uint64_t row_bytes, uint64_t rows,
             std::shared_ptr<Decoders> decoders)
      : file_(std::move(file)),
        key_(key),
        name_(absl::StrCat(file_->name(), " (", key, ")")),
        row_bytes_(row_bytes),
        size_(row_bytes * rows),
        decoders_(std::move(decoders)) {}

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }

  absl::Status ReadEach(absl::Span<const Piece> pieces) const override {
    for (const Piece& piece : pieces) MUSTER_RETURN_IF_ERROR(CheckPlace(piece));
    while (!pieces.empty()) {
      const size_t together = FitIntoOneAnswer(pieces);
      const absl::Span<const Piece> now = pieces.first(together);
      if (together == 1 || !Gather(now))
        for (const Piece& piece : now) MUSTER_RETURN_IF_ERROR(ReadPiece(piece));
      pieces.remove_prefix(together);
    }
    return file_->ReadEach({});  // it has not changed meanwhile
  }

 private:
  uint64_t FirstRow(const Piece& piece) const { return piece.offset / row_bytes_; }
  uint64_t RowsOf(const Piece& piece) const {
    return (piece.offset % row_bytes_ + piece.into.size() + row_bytes_ - 1) / row_bytes_;
  }

  std::string RowsFrom(uint64_t first) const { return absl::StrCat(name_, ": rows from ", first); }

  // At least one.
  size_t FitIntoOneAnswer(absl::Span<const Piece> pieces) const {
    uint64_t bytes = 0;
    size_t fit = 0;
    for (const Piece& piece : pieces) {
      const uint64_t more = RowsOf(piece) * row_bytes_;
      if (fit > 0 && (more > kBytesOfAnswer - bytes || fit == kMostRanges)) break;
      bytes = std::min(bytes + more, kBytesOfAnswer);
      ++fit;
    }
    return fit;
  }

  // By one request, as each one costs the way to another process and back. False: some of them
  // cannot be read; asked for one by one, they say which. So one wait for all is enough. Whoever
  // ends decoders this way is not asked so for long, since there may not be many deaths.
  bool Gather(absl::Span<const Piece> pieces) const {
    if (failed_gathers_ >= kMostFailedGathers) return false;
    WireWriter request = Asking(DecoderRequest::kHdf5Gather);
    request.Text(file_->name()).Text(key_).Number(pieces.size());
    uint64_t bytes = 0;
    for (const Piece& piece : pieces) {
      request.Number(FirstRow(piece)).Number(RowsOf(piece));
      bytes += RowsOf(piece) * row_bytes_;
    }
    const absl::StatusOr<std::string> read = decoders_->Ask(
        request.bytes(), absl::StrCat(RowsFrom(FirstRow(pieces.front())), " and others"),
        /*takes=*/1);
    if (!read.ok() || read->size() != bytes) {
      ++failed_gathers_;
      return false;
    }
    const char* from = read->data();
    for (const Piece& piece : pieces) {
      std::memcpy(piece.into.data(), from + piece.offset % row_bytes_, piece.into.size());
      from += RowsOf(piece) * row_bytes_;
    }
    return true;
  }

  absl::Status ReadPiece(Piece piece) const {
    const uint64_t most_rows = std::max<uint64_t>(1, kBytesOfAnswer / row_bytes_);
    while (!piece.into.empty()) {
      const uint64_t first = FirstRow(piece), skipped = piece.offset % row_bytes_;
      const uint64_t rows = std::min(most_rows, RowsOf(piece));
      absl::StatusOr<std::string> read = decoders_->Ask(Asking(DecoderRequest::kHdf5Rows)
                                                            .Text(file_->name())
                                                            .Text(key_)
                                                            .Number(first)
                                                            .Number(rows)
                                                            .bytes(),
                                                        RowsFrom(first));
      if (read.ok() && read->size() != rows * row_bytes_)
        read = absl::DataLossError("it gives another number of bytes than it tells of");
      // Of a file that is another one now, nothing is the fault of a sample.
      if (IsBadSample(read.status())) MUSTER_RETURN_IF_ERROR(file_->ReadEach({}));
      if (!read.ok()) return Prefix(RowsFrom(first), read.status());
      const size_t bytes = std::min<size_t>(piece.into.size(), read->size() - skipped);
      std::memcpy(piece.into.data(), read->data() + skipped, bytes);
      piece.into.remove_prefix(bytes);
      piece.offset += bytes;
    }
    return absl::OkStatus();
  }

  const SourcePtr file_;
  const std::string key_;
  const std::string name_;
  const uint64_t row_bytes_;
  const uint64_t size_;
  const std::shared_ptr<Decoders> decoders_;
  mutable std::atomic<int> failed_gathers_ = 0;
};

absl::StatusOr<std::vector<Hdf5Array>> ArraysOf(const ByteSource& file, const DataSpec& data,
                                                Decoders& decoders) {
  std::vector<std::string> keys = data.keys;
  if (!data.label.empty()) keys.push_back(data.label);
  WireWriter request = Asking(DecoderRequest::kHdf5Arrays);
  request.Text(file.name()).Number(keys.size());
  for (const std::string& key : keys) request.Text(key);
  const absl::StatusOr<std::string> told = decoders.Ask(request.bytes(), file.name());
  if (!told.ok()) return Prefix(file.name(), told.status());
  WireReader reader(*told);
  std::vector<Hdf5Array> arrays;
  const uint64_t count = reader.Number();
  if (count > kMostArrays) return Bad(file, kDecoderTalksNonsense);
  for (uint64_t left = count; reader.ok() && left > 0; --left) {
    Hdf5Array& array = arrays.emplace_back();
    array.key = std::string(reader.Text());
    array.why_not = std::string(reader.Text().substr(0, kMostWords));
    const uint64_t type = reader.Number();
    array.rows = reader.Number();
    const uint64_t dimensions = reader.Number();
    if (type > static_cast<uint64_t>(TensorType::kBool) || dimensions > kMostDimensions)
      return Bad(file, kDecoderTalksNonsense);
    array.type = static_cast<TensorType>(type);
    for (uint64_t d = 0; d < dimensions; ++d)
      array.shape.push_back(static_cast<int64_t>(reader.Number()));
    const bool lies_in_one_piece = reader.Number() != 0;
    const uint64_t offset = reader.Number();
    if (lies_in_one_piece) array.offset = offset;
  }
  if (!reader.AtEnd()) return Bad(file, kDecoderTalksNonsense);
  return arrays;
}

// Whether a file may have been replaced is answered by what was read of it here, and so no part of
// it may be read by a decoder while another is read here.
void ReadInOneWay(std::vector<Hdf5Array>& arrays, const DataSpec& data) {
  const bool all_in_place = std::all_of(arrays.begin(), arrays.end(), [&](const Hdf5Array& array) {
    return array.offset.has_value() || !IsAskedFor(array.key, data);
  });
  if (all_in_place) return;
  for (Hdf5Array& array : arrays) array.offset.reset();
}

absl::Status AddArray(const SourcePtr& file, const Hdf5Array& array, bool all_are_asked_for,
                      const std::shared_ptr<Decoders>& decoders, std::vector<Array>& found) {
  const auto bad = [&](absl::string_view why) {
    return Bad(*file, absl::StrCat("'", array.key.substr(0, 100), "' ", why));
  };
  if (!array.why_not.empty())
    return bad(absl::StrCat(array.why_not,
                            all_are_asked_for ? "; name those that you want in data.keys" : ""));
  const DataField field{array.key, array.type, array.shape};
  MUSTER_ASSIGN_OR_RETURN(const uint64_t row_bytes, RowBytes(*file, field));
  if (row_bytes > kMostRowBytes)
    return bad(absl::StrCat("has samples of ", row_bytes, " bytes; at most ", kMostRowBytes,
                            " are allowed"));
  if (array.rows > file->size() * kMostBytesOfOne / row_bytes)
    return bad(absl::StrCat("has ", array.rows, " samples of ", row_bytes,
                            " bytes, more than a file of ", file->size(), " can hold"));
  if (array.offset.has_value())
    return AddPart(found, field, false, {file, *array.offset, array.rows, row_bytes});
  const auto source =
      std::make_shared<Hdf5Source>(file, array.key, row_bytes, array.rows, decoders);
  return AddPart(found, field, false, {source, 0, array.rows, row_bytes});
}

}  // namespace

absl::StatusOr<StoredSet> OpenHdf5(const DataFiles& files, const DataSpec& data) {
  const auto decoders = std::make_shared<Decoders>();
  const absl::StatusOr<std::string> version =
      decoders->Ask(Asking(DecoderRequest::kHdf5Version).bytes());
  if (!version.ok()) return Prefix(files.front().source->name(), version.status());
  std::vector<Array> found;
  std::vector<std::string> others;
  for (const DataFile& file : files) {
    MUSTER_ASSIGN_OR_RETURN(std::vector<Hdf5Array> arrays, ArraysOf(*file.source, data, *decoders));
    ReadInOneWay(arrays, data);
    for (const Hdf5Array& array : arrays)
      if (!IsAskedFor(array.key, data))
        others.push_back(array.key);
      else
        MUSTER_RETURN_IF_ERROR(AddArray(file.source, array, data.keys.empty(), decoders, found));
  }
  MUSTER_ASSIGN_OR_RETURN(std::vector<Array> chosen, ChooseArrays(std::move(found), data, others));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StoredDataSet> set,
                          MakeArraySet(std::move(chosen), data.on_bad_sample, *version));
  return StoredSet{std::move(set), !data.label.empty(), false, *version};
}

}  // namespace muster
