#include "muster/data_set.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/time/clock.h"
#include "lib/base/hash.h"
#include "lib/base/status.h"
#include "lib/data/array_set.h"
#include "lib/data/batch_memory.h"
#include "lib/data/byte_source.h"
#include "lib/data/hash_listener.h"
#include "lib/data/opened_data.h"
#include "lib/data/prepared_set.h"
#include "lib/data/stream_set.h"

namespace muster {
namespace {

constexpr uint64_t kSplitSalt = 0x73706c6974u;  // "split"
constexpr char kBadSample[] = "muster/bad_sample";

// A data set, and what of its files could not be read.
class WithLeftOut final : public DataSet {
 public:
  WithLeftOut(std::unique_ptr<DataSet> set, std::string left_out)
      : set_(std::move(set)), left_out_(std::move(left_out)) {}
  const std::vector<DataField>& Fields() const override { return set_->Fields(); }
  uint64_t Samples() const override { return set_->Samples(); }
  std::string ContentHash() const override { return set_->ContentHash(); }
  std::string LeftOut() const override { return left_out_; }
  std::string PlaceOf(uint64_t id) const override { return set_->PlaceOf(id); }
  absl::Status ReadInto(int64_t epoch, absl::Span<const uint64_t> ids, Batch& batch,
                        size_t first) const override {
    return set_->ReadInto(epoch, ids, batch, first);
  }

 private:
  const std::unique_ptr<DataSet> set_;
  const std::string left_out_;
};

absl::StatusOr<std::unique_ptr<DataSet>> Part(std::unique_ptr<DataSet> set, const DataSpec& data,
                                              DataPart part) {
  const bool is_whole =
      part == DataPart::kAll || (part == DataPart::kTraining && data.validation_share == 0);
  if (is_whole) return set;
  return PartOfSet(std::move(set), data, part == DataPart::kValidation);
}

bool HasFilesToMeasure(const TaskOptions& options) {
  return options.part == DataPart::kValidation && !options.validation_paths.empty();
}

// Files that are for measuring alone are measured with, all of them.
DataPart PartIn(const TaskOptions& options) {
  return HasFilesToMeasure(options) ? DataPart::kAll : options.part;
}

// `trained_with`: as OpenStoredData has it.
absl::StatusOr<std::unique_ptr<DataSet>> Open(const DataSpec& data, uint64_t seed, DataPart part,
                                              const std::vector<std::string>& trained_with) {
  MUSTER_ASSIGN_OR_RETURN(OpenedData opened, OpenStoredData(data, trained_with));
  const bool quick = data.verify == VerifyData::kQuick;
  Hashing hashing{.finds = quick,
                  .keeps = quick,
                  .folder = quick ? KeptHashFolder() : "",
                  .now = absl::GetCurrentTimeNanos()};
  if (const HashListener* hash_listener = CurrentHashListener(); hash_listener != nullptr) {
    hashing.so_far = hash_listener->told;
    hashing.may_wait = hash_listener->may_wait;
    hashing.quiet_for = hash_listener->quiet_for;
  }
  MUSTER_RETURN_IF_ERROR(GiveHash(opened, data, hashing).status());
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<DataSet> set, Prepare(std::move(opened.stored), data,
                                                                seed, part == DataPart::kTraining));
  if (!opened.left_out.empty())
    set = std::make_unique<WithLeftOut>(std::move(set), std::move(opened.left_out));
  return Part(std::move(set), data, part);
}

}  // namespace

size_t Batch::BytesFor(const std::vector<DataField>& fields, size_t samples) {
  size_t bytes = 0;
  for (const DataField& field : fields)
    bytes += (samples * static_cast<size_t>(field.Bytes()) + kBatchAlignment - 1) /
             kBatchAlignment * kBatchAlignment;
  return bytes;
}

Batch::Batch(const std::vector<DataField>& fields, size_t samples)
    : samples_(samples), memory_(TakeBatchMemory(BytesFor(fields, samples))) {
  size_t at = 0;
  for (const DataField& field : fields) {
    places_.push_back({at, static_cast<size_t>(field.Bytes())});
    at += BytesFor({field}, samples);
  }
}

void Batch::Free::operator()(std::byte* memory) const { GiveBatchMemory(memory); }

DataSet::~DataSet() = default;

absl::Status BadSample(absl::string_view why) {
  absl::Status status = absl::DataLossError(why);
  status.SetPayload(kBadSample, absl::Cord());
  return status;
}

bool IsBadSample(const absl::Status& status) { return status.GetPayload(kBadSample).has_value(); }

absl::StatusOr<Batch> DataSet::Read(int64_t epoch, absl::Span<const uint64_t> ids) const {
  Batch batch(Fields(), ids.size());
  MUSTER_RETURN_IF_ERROR(ReadInto(epoch, ids, batch, 0));
  return batch;
}

bool IsForValidation(const DataSpec& data, uint64_t id) {
  const uint64_t random = Mix64(kSplitSalt, data.split_seed, id);
  return std::ldexp(static_cast<double>(random >> 11), -53) < data.validation_share;
}

bool IsOfPart(const TaskOptions& options, uint64_t id) {
  const DataPart part = PartIn(options);
  return part == DataPart::kAll ||
         IsForValidation(options.data, id) == (part == DataPart::kValidation);
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenDataSet(const DataSpec& data, uint64_t seed,
                                                     DataPart part) {
  if (IsLive(data)) return OpenStream(data, seed, part, nullptr);
  return Open(data, seed, part, {});
}

absl::StatusOr<std::unique_ptr<DataSet>> DataSetInMemory(const std::vector<DataField>& fields,
                                                         std::vector<std::string> rows) {
  if (fields.size() != rows.size())
    return absl::InvalidArgumentError(
        absl::StrCat(fields.size(), " fields, and rows of ", rows.size()));
  std::vector<Array> arrays;
  for (size_t f = 0; f < fields.size(); ++f) {
    const SourcePtr source = MemorySource("a data set in memory", std::move(rows[f]));
    MUSTER_ASSIGN_OR_RETURN(const uint64_t row_bytes, RowBytes(*source, fields[f]));
    if (source->size() % row_bytes != 0)
      return absl::InvalidArgumentError(absl::StrCat(
          "field '", fields[f].name, "': ", source->size(), " bytes are no rows of ", row_bytes));
    // Two fields of one name would become one array.
    if (std::any_of(arrays.begin(), arrays.end(),
                    [&](const Array& array) { return array.field.name == fields[f].name; }))
      return absl::InvalidArgumentError(
          absl::StrCat("two fields are called '", fields[f].name, "'"));
    MUSTER_RETURN_IF_ERROR(
        AddPart(arrays, fields[f], false, {source, 0, source->size() / row_bytes, row_bytes}));
  }
  absl::StatusOr<std::unique_ptr<StoredDataSet>> set = MakeArraySet(std::move(arrays));
  if (!set.ok()) return absl::InvalidArgumentError(set.status().message());
  MUSTER_ASSIGN_OR_RETURN(std::string hash, (*set)->ComputeHash([](uint64_t) {}));
  (*set)->SetHash(std::move(hash));
  return *std::move(set);
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenDataSet(const TaskOptions& options) {
  if (options.part == DataPart::kNone)
    return absl::FailedPreconditionError(
        "the task says that its model holds all that it generates with (model_holds_all), and "
        "opens a data set to generate");
  const DataSpec data = options.DataOfPart();
  if (IsLive(data)) return OpenStream(data, options.seed, PartIn(options), options.spool);
  const bool has_files = HasFilesToMeasure(options);
  return Open(data, options.seed, PartIn(options),
              has_files ? options.data.paths : std::vector<std::string>());
}

absl::StatusOr<std::unique_ptr<DataSet>> PartOfDataSet(std::unique_ptr<DataSet> whole,
                                                       const TaskOptions& options) {
  return Part(std::move(whole), options.data, PartIn(options));
}

}  // namespace muster

// Here, where libmuster_plugin.so exports what stands in this file.
void muster_set_hash_listener(const muster::HashListener* listener) {
  muster::SetHashListenerOfThread(listener);
}
