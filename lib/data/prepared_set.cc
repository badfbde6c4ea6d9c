#include "lib/data/prepared_set.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "lib/base/hash.h"
#include "lib/base/status.h"
#include "lib/data/element.h"
#include "lib/data/samples_text.h"

namespace muster {
namespace {

constexpr uint64_t kChangeSalt = 0x6368616e6765u;  // "change"

// How an image is changed: it moves by (down, right), and zeros come in.
struct Change {
  int64_t down = 0;
  int64_t right = 0;
  bool mirrored = false;
};

Change ChangeOf(const DataSpec& data, uint64_t seed, int64_t epoch, uint64_t id) {
  const uint64_t random = Mix64(Mix64(kChangeSalt, seed), static_cast<uint64_t>(epoch), id);
  const auto places = 2 * data.crop + 1;
  const auto move = [&](uint64_t draw) {
    return static_cast<int64_t>(Mix64(random, draw) % places) - static_cast<int64_t>(data.crop);
  };
  return {move(1), move(2), data.flip && Mix64(random, 3) % 2 == 1};
}

// `from` and `to` are (channels, height, width) of elements of so many bytes.
void Apply(const Change& change, const std::vector<int64_t>& shape, int64_t element,
           const std::byte* from, std::byte* to) {
  const int64_t height = shape[1], width = shape[2];
  for (int64_t c = 0; c < shape[0]; ++c)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x, to += element) {
        const int64_t old_y = y - change.down;
        const int64_t old_x = (change.mirrored ? width - 1 - x : x) - change.right;
        const bool inside = old_y >= 0 && old_y < height && old_x >= 0 && old_x < width;
        if (inside)
          std::memcpy(to, from + ((c * height + old_y) * width + old_x) * element,
                      static_cast<size_t>(element));
        else
          std::memset(to, 0, static_cast<size_t>(element));
      }
}

// (value - mean) ÷ deviation, for each of the first dimension's places (channels) or, where one
// mean and one deviation hold for all, as if there were one place.
class Normalisation {
 public:
  Normalisation(const DataSpec& data, const DataField& field, bool bytes_are_shares)
      : channels_(data.mean.size() <= 1 && data.deviation.size() <= 1 ? 1 : field.shape[0]),
        type_(field.type),
        share_(bytes_are_shares && field.type == TensorType::kUint8 ? 255 : 1) {
    for (int64_t c = 0; c < channels_; ++c) {
      mean_.push_back(Of(data.mean, c, 0));
      deviation_.push_back(Of(data.deviation, c, 1));
    }
    if (type_ != TensorType::kUint8) return;
    for (int64_t c = 0; c < channels_; ++c)
      for (size_t value = 0; value < 256; ++value)
        of_byte_.push_back(Normal(static_cast<double>(value), static_cast<size_t>(c)));
  }

  void Apply(absl::Span<const std::byte> from, absl::Span<std::byte> to) const {
    const auto element = static_cast<size_t>(BytesOfElement(type_));
    const size_t each = from.size() / element / static_cast<size_t>(channels_);
    auto* out = reinterpret_cast<float*>(to.data());
    const std::byte* in = from.data();
    for (size_t c = 0; c < static_cast<size_t>(channels_); ++c) {
      if (type_ == TensorType::kUint8) {
        const float* table = &of_byte_[c * 256];
        for (size_t i = 0; i < each; ++i) *out++ = table[static_cast<size_t>(*in++)];
      } else {
        for (size_t i = 0; i < each; ++i, in += element)
          *out++ = Normal(ElementAsReal(type_, in), c);
      }
    }
  }

 private:
  static double Of(const std::vector<double>& given, int64_t c, double otherwise) {
    return given.empty() ? otherwise : given[given.size() == 1 ? 0 : static_cast<size_t>(c)];
  }
  float Normal(double value, size_t c) const {
    return ToFloat((value / share_ - mean_[c]) / deviation_[c]);
  }

  const int64_t channels_;
  const TensorType type_;
  const double share_;
  std::vector<double> mean_, deviation_;  // by channel
  std::vector<float> of_byte_;            // by channel and byte
};

enum class Turn { kAsStored, kToWhole, kToReal, kNormal };

class PreparedSet final : public DataSet {
 public:
  PreparedSet(std::unique_ptr<StoredDataSet> stored, DataSpec data, uint64_t seed, bool at_random,
              std::vector<DataField> fields, std::vector<Turn> turns, bool is_picture)
      : stored_(std::move(stored)),
        data_(std::move(data)),
        seed_(seed),
        changes_(at_random && (data_.crop > 0 || data_.flip)),
        fields_(std::move(fields)),
        turns_(std::move(turns)),
        normal_(data_, InStoredType(),
                is_picture || !data_.mean.empty() || !data_.deviation.empty()) {}

  const std::vector<DataField>& Fields() const override { return fields_; }
  uint64_t Samples() const override { return stored_->Samples(); }
  std::string ContentHash() const override { return stored_->ContentHash(); }
  std::string LeftOut() const override { return stored_->LeftOut(); }
  std::string PlaceOf(uint64_t id) const override { return stored_->PlaceOf(id); }

  absl::Status ReadInto(int64_t epoch, absl::Span<const uint64_t> ids, Batch& batch,
                        size_t first) const override {
    const bool changes = changes_ && epoch >= 0;
    if (!changes && IsAsStored()) return stored_->ReadInto(epoch, ids, batch, first);
    const DataField& input = stored_->Fields()[0];
    std::vector<std::byte> changed(changes ? static_cast<size_t>(input.Bytes()) : 0);
    const auto take = [&](size_t i, absl::Span<const absl::Span<const std::byte>> rows) {
      absl::Span<const std::byte> read = rows[0];
      if (changes) {
        Apply(ChangeOf(data_, seed_, epoch, ids[i]), fields_[0].shape, BytesOfElement(input.type),
              read.data(), changed.data());
        read = changed;
      }
      TurnInto(0, read, batch.row(0, first + i));
      for (size_t f = 1; f < fields_.size(); ++f) TurnInto(f, rows[f], batch.row(f, first + i));
    };
    return stored_->ReadEach(epoch, ids, take);
  }

 private:
  bool IsAsStored() const {
    return std::all_of(turns_.begin(), turns_.end(),
                       [](Turn turn) { return turn == Turn::kAsStored; });
  }
  DataField InStoredType() const {
    DataField field = fields_[0];
    field.type = stored_->Fields()[0].type;
    return field;
  }

  void TurnInto(size_t f, absl::Span<const std::byte> from, absl::Span<std::byte> to) const {
    const TensorType type = stored_->Fields()[f].type;
    const auto element = static_cast<size_t>(BytesOfElement(type));
    switch (turns_[f]) {
      case Turn::kAsStored: std::copy(from.begin(), from.end(), to.begin()); return;
      case Turn::kNormal: normal_.Apply(from, to); return;
      case Turn::kToWhole:
        for (size_t i = 0; i * element < from.size(); ++i)
          reinterpret_cast<int64_t*>(to.data())[i] = ElementAsWhole(type, &from[i * element]);
        return;
      case Turn::kToReal:
        for (size_t i = 0; i * element < from.size(); ++i)
          reinterpret_cast<float*>(to.data())[i] = ToFloat(ElementAsReal(type, &from[i * element]));
    }
  }

  const std::unique_ptr<StoredDataSet> stored_;
  const DataSpec data_;
  const uint64_t seed_;
  const bool changes_;
  const std::vector<DataField> fields_;
  const std::vector<Turn> turns_;  // by field
  const Normalisation normal_;     // of the first field
};

class SetPart final : public DataSet {
 public:
  SetPart(std::unique_ptr<DataSet> whole, std::vector<uint64_t> ids)
      : whole_(std::move(whole)), ids_(std::move(ids)) {}

  const std::vector<DataField>& Fields() const override { return whole_->Fields(); }
  uint64_t Samples() const override { return ids_.size(); }
  std::string ContentHash() const override { return whole_->ContentHash(); }
  std::string LeftOut() const override { return whole_->LeftOut(); }
  std::string PlaceOf(uint64_t id) const override {
    return id < ids_.size() ? whole_->PlaceOf(ids_[id]) : "";
  }

  absl::Status ReadInto(int64_t epoch, absl::Span<const uint64_t> ids, Batch& batch,
                        size_t first) const override {
    MUSTER_RETURN_IF_ERROR(CheckIds(ids, ids_.size()));
    std::vector<uint64_t> among_all;
    for (const uint64_t id : ids) among_all.push_back(ids_[id]);
    return whole_->ReadInto(epoch, among_all, batch, first);
  }

 private:
  const std::unique_ptr<DataSet> whole_;
  const std::vector<uint64_t> ids_;  // among all
};

absl::Status GiveShape(const DataSpec& data, DataField& input) {
  if (data.shape.empty()) return absl::OkStatus();
  DataField shaped{input.name, input.type, data.shape};
  int64_t left = input.Bytes() / BytesOfElement(input.type);
  for (const int64_t size : data.shape) left = size < 1 || left % size != 0 ? 0 : left / size;
  if (left != 1)
    return absl::FailedPreconditionError(
        absl::StrCat("data.shape: '", input.name, "' has the shape ", ShapeText(input.shape),
                     ", which cannot become ", ShapeText(data.shape)));
  input = std::move(shaped);
  return absl::OkStatus();
}

absl::Status CheckNormalisation(const DataSpec& data, const DataField& input) {
  const size_t channels = input.shape.empty() ? 1 : static_cast<size_t>(input.shape[0]);
  const auto check = [&](const char* field, const std::vector<double>& given) -> absl::Status {
    if (given.size() <= 1 || given.size() == channels) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(field, ": ", given.size(), " numbers; '", input.name, "' has the shape ",
                     ShapeText(input.shape), " and takes one, or ", channels));
  };
  MUSTER_RETURN_IF_ERROR(check("data.mean", data.mean));
  MUSTER_RETURN_IF_ERROR(check("data.deviation", data.deviation));
  for (const double deviation : data.deviation)
    if (!(deviation >= 1e-30))
      return absl::FailedPreconditionError(absl::StrCat(
          "data.deviation: ", deviation, "; it is divided by, so it is 1e-30 or more"));
  return absl::OkStatus();
}

absl::Status CheckChanges(const DataSpec& data, const DataField& input) {
  if (data.crop == 0 && !data.flip) return absl::OkStatus();
  if (input.shape.size() != 3)
    return absl::FailedPreconditionError(absl::StrCat(
        data.crop > 0 ? "data.crop" : "data.flip", ": '", input.name, "' has the shape ",
        ShapeText(input.shape), "; only (channels, height, width) can be changed so"));
  if (data.crop >= static_cast<uint64_t>(std::min(input.shape[1], input.shape[2])))
    return absl::FailedPreconditionError(absl::StrCat("data.crop: ", data.crop,
                                                      " pixels are all of an image of the shape ",
                                                      ShapeText(input.shape)));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSet>> Prepare(StoredSet stored, const DataSpec& data,
                                                 uint64_t seed, bool at_random) {
  std::vector<DataField> fields = stored.set->Fields();
  std::vector<Turn> turns(fields.size(), Turn::kAsStored);
  MUSTER_RETURN_IF_ERROR(GiveShape(data, fields[0]));
  MUSTER_RETURN_IF_ERROR(CheckNormalisation(data, fields[0]));
  MUSTER_RETURN_IF_ERROR(CheckChanges(data, fields[0]));
  for (size_t f = 0; f < fields.size(); ++f) {
    const bool is_label = stored.has_label && f + 1 == fields.size();
    if (IsReal(fields[f].type)) {
      turns[f] = fields[f].type == TensorType::kFloat32 ? Turn::kAsStored : Turn::kToReal;
      fields[f].type = TensorType::kFloat32;
    } else if (is_label) {
      turns[f] = fields[f].type == TensorType::kInt64 ? Turn::kAsStored : Turn::kToWhole;
      fields[f].type = TensorType::kInt64;
    }
  }
  const bool first_is_input = !stored.has_label || fields.size() > 1;
  if (first_is_input && (stored.is_picture || !data.mean.empty() || !data.deviation.empty())) {
    turns[0] = Turn::kNormal;
    fields[0].type = TensorType::kFloat32;
  }
  return std::make_unique<PreparedSet>(std::move(stored.set), data, seed, at_random,
                                       std::move(fields), std::move(turns), stored.is_picture);
}

absl::StatusOr<std::unique_ptr<DataSet>> PartOfSet(std::unique_ptr<DataSet> whole,
                                                   const DataSpec& data, bool for_validation) {
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < whole->Samples(); ++id)
    if (IsForValidation(data, id) == for_validation) ids.push_back(id);
  if (ids.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("data.validation_share: of ", whole->Samples(), " samples none is ",
                     for_validation ? "for validation" : "left for training"));
  return std::make_unique<SetPart>(std::move(whole), std::move(ids));
}

}  // namespace muster
