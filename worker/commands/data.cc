#include "worker/commands/data.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "lib/base/status.h"
#include "lib/data/byte_source.h"
#include "lib/data/element.h"
#include "lib/data/file_walk.h"
#include "lib/data/opened_data.h"
#include "lib/data/prepared_set.h"
#include "lib/data/stream_set.h"
#include "muster/corpus.h"

namespace muster::worker {
namespace {

constexpr size_t kShownValues = 8;

// Text without data.shape is for tasks that read all of it.
bool IsPlainText(const DataSpec& data) {
  return data.format == DataFormat::kText && data.shape.empty();
}

InspectedField Field(const DataField& stored, const DataField& given,
                     absl::Span<const std::byte> row) {
  InspectedField field{stored, given};
  const auto element = static_cast<size_t>(BytesOfElement(given.type));
  const size_t values = row.size() / element, shown = std::min(values, kShownValues);
  for (size_t i = 0; i < shown; ++i)
    field.first.push_back(ElementAsReal(given.type, &row[i * element]));
  field.has_more = shown < values;
  return field;
}

// The first sample; where bad ones are left out, the first that is none.
absl::StatusOr<Batch> FirstOf(const DataSet& set, OnBadSample on_bad_sample) {
  absl::StatusOr<Batch> batch;
  for (uint64_t id = 0; id < set.Samples(); ++id) {
    batch = set.Read(-1, {&id, 1});
    if (on_bad_sample == OnBadSample::kStop || !IsBadSample(batch.status())) break;
  }
  return batch;
}

std::vector<InspectedField> FieldsOf(const std::vector<DataField>& stored, const DataSet& set,
                                     const Batch& batch) {
  std::vector<InspectedField> fields;
  for (size_t f = 0; f < stored.size(); ++f)
    fields.push_back(Field(stored[f], set.Fields()[f], batch.row(f, 0)));
  return fields;
}

absl::Status AddSize(const DataSpec& data, InspectedData& inspected) {
  MUSTER_ASSIGN_OR_RETURN(const SizeOfFiles size, FindSize(data));
  inspected.files = size.files;
  inspected.bytes = size.bytes;
  return absl::OkStatus();
}

absl::StatusOr<InspectedData> InspectStream(const TrainingSpec& training) {
  InspectedData inspected;
  MUSTER_ASSIGN_OR_RETURN(inspected.sample_bytes, StreamSampleBytes(training.data));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<DataSet> set,
                          OpenDataSet(training.data, training.seed));
  MUSTER_ASSIGN_OR_RETURN(const Batch batch, FirstOf(*set, OnBadSample::kStop));
  inspected.fields = FieldsOf(training.data.fields, *set, batch);
  return inspected;
}

}  // namespace

absl::StatusOr<InspectedData> InspectData(const TrainingSpec& training) {
  const DataSpec& data = training.data;
  if (IsLive(data)) return InspectStream(training);
  InspectedData inspected;
  if (IsPlainText(data)) {
    MUSTER_ASSIGN_OR_RETURN(Corpus corpus, ReadCorpus(data));
    inspected.left_out = std::move(corpus.left_out);
    MUSTER_RETURN_IF_ERROR(AddSize(data, inspected));
    return inspected;
  }
  MUSTER_ASSIGN_OR_RETURN(OpenedData opened, OpenStoredData(data));
  inspected.left_out = std::move(opened.left_out);
  inspected.files = opened.files.size();
  for (const FileStamp& file : opened.files) inspected.bytes += file.bytes;
  if (data.format == DataFormat::kText) MUSTER_RETURN_IF_ERROR(AddSize(data, inspected));
  const std::vector<DataField> stored = opened.stored.set->Fields();
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<DataSet> set,
                          Prepare(std::move(opened.stored), data, training.seed, false));
  inspected.samples = set->Samples();
  for (uint64_t id = 0; data.validation_share > 0 && id < inspected.samples; ++id)
    inspected.validation += IsForValidation(data, id);
  MUSTER_ASSIGN_OR_RETURN(const Batch batch, FirstOf(*set, data.on_bad_sample));
  inspected.fields = FieldsOf(stored, *set, batch);
  return inspected;
}

absl::StatusOr<SizeOfFiles> FindSize(const DataSpec& data) {
  const uint64_t most = data.format == DataFormat::kText ? data.max_bytes : 0;  // 0: all
  SizeOfFiles size;
  const auto full = [&] { return most > 0 && size.bytes >= most; };
  const auto take = [&](const WalkedFile& file) -> std::string {
    const absl::StatusOr<FileStamp> stamp = StampOf(file.path.string(), file.below.string());
    if (!stamp.ok()) return std::string(stamp.status().message());
    // What cannot be opened is none of the data.
    if (const absl::Status opened = FileSource(file.path.string()).status(); !opened.ok())
      return std::string(opened.message());
    ++size.files;
    size.bytes += stamp->bytes;
    return "";
  };
  MUSTER_RETURN_IF_ERROR(WalkFiles(data, full, take).status());
  if (full()) size.bytes = most;
  return size;
}

absl::StatusOr<HashedData> HashData(const TrainingSpec& training, const std::string& folder,
                                    const std::function<void(uint64_t, uint64_t)>& told,
                                    const std::function<void(const PreparedSoFar&)>& so_far) {
  const DataSpec& data = training.data;
  if (IsLive(data)) {
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<DataSet> set, OpenDataSet(data, training.seed));
    return HashedData{.hash = set->ContentHash()};
  }
  if (IsPlainText(data)) {
    MUSTER_ASSIGN_OR_RETURN(Corpus corpus, ReadCorpus(data));
    return HashedData{.hash = ContentHash({corpus.bytes}),
                      .bytes = corpus.bytes.size(),
                      .left_out = std::move(corpus.left_out)};
  }
  MUSTER_ASSIGN_OR_RETURN(OpenedData opened, OpenStoredData(data));
  MUSTER_ASSIGN_OR_RETURN(const bool was_kept, GiveHash(opened, data,
                                                        {.finds = data.verify == VerifyData::kQuick,
                                                         .keeps = true,
                                                         .folder = folder,
                                                         .now = absl::GetCurrentTimeNanos(),
                                                         .told = told,
                                                         .so_far = so_far}));
  return HashedData{.hash = opened.stored.set->ContentHash(),
                    .samples = opened.stored.set->Samples(),
                    .bytes = opened.stored.set->BytesToHash(),
                    .was_kept = was_kept,
                    .left_out = std::move(opened.left_out)};
}

}  // namespace muster::worker
