#include "lib/data/stream_set.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/hash.h"
#include "lib/base/status.h"
#include "lib/data/array_set.h"
#include "lib/data/element.h"
#include "lib/data/formats.h"
#include "lib/data/prepared_set.h"
#include "lib/data/samples_text.h"
#include "lib/domain/tensor_type.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

static_assert(std::endian::native == std::endian::little,
              "samples of streams are little-endian, and so must the machine be");

constexpr uint64_t kMadeSalt = 0x6d616465u;  // "made"
constexpr uint64_t kReadAtOnce = uint64_t{1} << 20;

// A real of [0, 1), exact in its type: as many random bits as its fraction has, so a half at least
// where the type is short.
void MakeReal(TensorType type, uint64_t random, std::byte* to) {
  const auto put = [&](const auto& value) { std::memcpy(to, &value, sizeof(value)); };
  switch (type) {
    case TensorType::kFloat64: return put(std::ldexp(static_cast<double>(random >> 11), -53));
    case TensorType::kFloat32: return put(std::ldexp(static_cast<float>(random >> 40), -24));
    case TensorType::kFloat16: return put(static_cast<uint16_t>(0x3800u | (random >> 54)));
    case TensorType::kBfloat16: return put(static_cast<uint16_t>(0x3f00u | (random >> 57)));
    default: return;
  }
}

void MakeRow(const DataField& field, uint64_t field_number, uint64_t id, absl::Span<std::byte> to) {
  std::fill(to.begin(), to.end(), std::byte{0});
  if (!IsReal(field.type)) return;
  const auto element = static_cast<size_t>(BytesOfElement(field.type));
  for (size_t i = 0; i * element < to.size(); ++i)
    MakeReal(field.type, Mix64(Mix64(kMadeSalt, field_number), id, i), to.data() + i * element);
}

std::string TextOf(const std::vector<double>& numbers) {
  return absl::StrJoin(numbers, ",", [](std::string* out, double number) {
    absl::StrAppend(out, absl::Hex(std::bit_cast<uint64_t>(number)));
  });
}

// Whatever the rows that a task is given depend on, besides their bytes in the stream.
std::string HashOf(const DataSpec& data) {
  std::string text = "muster stream 1\n";
  for (const DataField& field : data.fields)
    absl::StrAppend(&text, field.name.size(), " ", field.name, " ", NameOf(field.type), " ",
                    ShapeText(field.shape), "\n");
  absl::StrAppend(&text, data.label.size(), " ", data.label, " ", ShapeText(data.shape), " ",
                  TextOf(data.mean), " ", TextOf(data.deviation), " ", data.crop, " ", data.flip,
                  "\n");
  return HexSha256(text);
}

class StreamSet final : public StoredDataSet {
 public:
  StreamSet(std::vector<DataField> fields, uint64_t sample_bytes,
            std::shared_ptr<const SpoolMap> spool, SpoolPatience patience)
      : fields_(std::move(fields)),
        sample_bytes_(sample_bytes),
        spool_(std::move(spool)),
        patience_(std::move(patience)) {}

  const std::vector<DataField>& Fields() const override { return fields_; }
  uint64_t Samples() const override { return kMostSamples; }
  uint64_t BytesToHash() const override { return 0; }
  absl::StatusOr<std::string> ComputeHash(const std::function<void(uint64_t)>&) const override {
    return ContentHash();
  }

  absl::Status ReadInto(int64_t epoch, absl::Span<const uint64_t> ids, Batch& batch,
                        size_t first) const override {
    MUSTER_RETURN_IF_ERROR(CheckIds(ids, kMostSamples));
    if (epoch < 0) {
      for (size_t i = 0; i < ids.size(); ++i)
        for (size_t f = 0; f < fields_.size(); ++f)
          MakeRow(fields_[f], f, ids[i], batch.row(f, first + i));
      return absl::OkStatus();
    }
    if (spool_ == nullptr)
      return absl::FailedPreconditionError(
          "the samples of a stream come while its job trains; nobody has said where they are");
    const SpoolMap::Facts facts = spool_->facts();
    const uint64_t at_once = std::max<uint64_t>(1, kReadAtOnce / sample_bytes_);
    std::vector<std::byte> samples;
    for (size_t i = 0; i < ids.size();) {
      MUSTER_ASSIGN_OR_RETURN(const SpoolSegment fact, SegmentOf(*facts, ids[i]));
      // Positions of a lane are one after the other.
      size_t run = 1;
      while (run < at_once && i + run < ids.size() && ids[i + run] == ids[i] + run &&
             ids[i + run] < fact.end())
        ++run;
      samples.resize(run * static_cast<size_t>(sample_bytes_));
      MUSTER_RETURN_IF_ERROR(ReadSpooledFile(spool_->folder(), fact, sample_bytes_, ids[i],
                                             absl::MakeSpan(samples), patience_));
      Spread(samples, batch, first + i);
      i += run;
    }
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<SpoolSegment> SegmentOf(const std::vector<SpoolSegment>& facts,
                                                uint64_t position) {
    const auto after = std::upper_bound(
        facts.begin(), facts.end(), position,
        [](uint64_t at, const SpoolSegment& segment) { return at < segment.first; });
    if (after != facts.begin() && position < std::prev(after)->end()) return *std::prev(after);
    return absl::InternalError(
        absl::StrCat("sample ", position, " of the stream is asked for, and ",
                     facts.empty() ? std::string("none is known")
                                   : absl::StrCat("those from ", facts.front().first, " to ",
                                                  facts.back().end(), " are known")));
  }

  // Samples, to rows of the batch.
  void Spread(absl::Span<const std::byte> samples, Batch& batch, size_t row) const {
    for (const std::byte* from = samples.data(); from != samples.data() + samples.size(); ++row)
      for (size_t f = 0; f < fields_.size(); ++f) {
        const absl::Span<std::byte> to = batch.row(f, row);
        std::copy(from, from + to.size(), to.data());
        if (fields_[f].type == TensorType::kBool) MakeBooleans(to);
        from += to.size();
      }
  }

  const std::vector<DataField> fields_;
  const uint64_t sample_bytes_;
  const std::shared_ptr<const SpoolMap> spool_;
  const SpoolPatience patience_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSet>> OpenStream(const DataSpec& data, uint64_t seed,
                                                    DataPart part,
                                                    std::shared_ptr<const SpoolMap> spool) {
  static const RealClock clock;
  SpoolPatience patience{.clock = &clock,
                         .pause = [spool](Duration time) { return spool->Pause(time); }};
  return OpenStream(data, seed, part, spool, std::move(patience));
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenStream(const DataSpec& data, uint64_t seed,
                                                    DataPart part,
                                                    std::shared_ptr<const SpoolMap> spool,
                                                    SpoolPatience patience) {
  if (data.validation_share != 0 || part == DataPart::kValidation)
    return absl::FailedPreconditionError(
        "data.validation_share: a stream has no samples to leave out; name files in "
        "validation.paths");
  MUSTER_ASSIGN_OR_RETURN(const uint64_t sample_bytes, StreamSampleBytes(data));
  StoredSet stored{.set = std::make_unique<StreamSet>(data.fields, sample_bytes, std::move(spool),
                                                      std::move(patience)),
                   .has_label = !data.label.empty()};
  stored.set->SetHash(HashOf(data));
  return Prepare(std::move(stored), data, seed, part == DataPart::kTraining);
}

absl::StatusOr<StoredSet> OpenStreamFiles(const DataFiles& files, const DataSpec& data) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t sample_bytes, StreamSampleBytes(data));
  std::vector<Array> arrays;
  for (const DataFile& file : files) {
    const uint64_t samples = file.source->size() / sample_bytes;
    if (samples * sample_bytes != file.source->size())
      return BadAt(*file.source, samples * sample_bytes,
                   absl::StrCat("it ends within a sample, which has ", sample_bytes, " bytes"));
    if (samples == 0) continue;
    uint64_t offset = 0;
    for (const DataField& field : data.fields) {
      MUSTER_RETURN_IF_ERROR(
          AddPart(arrays, field, false, {file.source, offset, samples, sample_bytes}));
      offset += static_cast<uint64_t>(field.Bytes());
    }
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StoredDataSet> set,
                          MakeArraySet(std::move(arrays), data.on_bad_sample));
  return StoredSet{.set = std::move(set), .has_label = !data.label.empty()};
}

}  // namespace muster
