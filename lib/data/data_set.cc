#include "muster/data_set.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "lib/base/hash.h"
#include "lib/base/status.h"
#include "lib/data/array_set.h"
#include "lib/data/byte_source.h"
#include "lib/data/file_walk.h"
#include "lib/data/formats.h"
#include "lib/data/prepared_set.h"
#include "muster/corpus.h"

namespace muster {
namespace {

constexpr uint64_t kSplitSalt = 0x73706c6974u;  // "split"
constexpr std::align_val_t kAlignment{64};
constexpr size_t kAlignmentBytes = 64;

constexpr FormatRule kFormats[] = {{DataFormat::kCsv, OpenCsv},
                                   {DataFormat::kNumpy, OpenNumpy},
                                   {DataFormat::kSafetensors, OpenSafetensors},
                                   {DataFormat::kPt, OpenPt},
                                   {DataFormat::kHdf5, OpenHdf5},
                                   {DataFormat::kIdx, OpenIdx},
                                   {DataFormat::kCifar10, OpenCifar10},
                                   {DataFormat::kCifar100, OpenCifar100},
                                   {DataFormat::kImages, OpenImages},
                                   {DataFormat::kWebDataset, OpenWebDataset}};

// Text: rows of so many bytes, one after the other; what is left at the end is none.
absl::StatusOr<StoredSet> OpenText(const DataSpec& data, std::string& left_out) {
  if (data.shape.empty())
    return absl::FailedPreconditionError(
        "data.format: this task reads samples; say which format the files have, or give "
        "data.shape, [bytes of a sample], for text");
  MUSTER_ASSIGN_OR_RETURN(Corpus corpus, ReadCorpus(data));
  left_out = std::move(corpus.left_out);
  const SourcePtr text = MemorySource("data.paths", std::move(corpus.bytes));
  const DataField field{"input", TensorType::kUint8, data.shape};
  MUSTER_ASSIGN_OR_RETURN(const uint64_t row_bytes, RowBytes(*text, field));
  std::vector<Array> arrays;
  MUSTER_RETURN_IF_ERROR(
      AddPart(arrays, field, false, {text, 0, text->size() / row_bytes, row_bytes}));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<DataSet> set, MakeArraySet(std::move(arrays)));
  return StoredSet{std::move(set)};
}

absl::StatusOr<StoredSet> OpenStored(const DataSpec& data, std::string& left_out) {
  const FormatRule* format = FindFormat(data.format);
  if (format == nullptr) return OpenText(data, left_out);
  DataFiles files;
  MUSTER_ASSIGN_OR_RETURN(left_out, WalkFiles(
                                        data, [] { return false; },
                                        [&](const WalkedFile& walked) -> std::string {
                                          auto source = FileSource(walked.path.string());
                                          if (!source.ok())
                                            return std::string(source.status().message());
                                          files.push_back({*std::move(source), walked});
                                          return "";
                                        }));
  if (files.empty()) return absl::InvalidArgumentError("data.paths: no file in them");
  return format->open(files, data);
}

// A data set, and what of its files could not be read.
class WithLeftOut final : public DataSet {
 public:
  WithLeftOut(std::unique_ptr<DataSet> set, std::string left_out)
      : set_(std::move(set)), left_out_(std::move(left_out)) {}
  const std::vector<DataField>& Fields() const override { return set_->Fields(); }
  uint64_t Samples() const override { return set_->Samples(); }
  std::string ContentHash() const override { return set_->ContentHash(); }
  std::string LeftOut() const override { return left_out_; }
  absl::Status ReadInto(int64_t epoch, absl::Span<const uint64_t> ids, Batch& batch,
                        size_t first) const override {
    return set_->ReadInto(epoch, ids, batch, first);
  }

 private:
  const std::unique_ptr<DataSet> set_;
  const std::string left_out_;
};

}  // namespace

const FormatRule* FindFormat(DataFormat format) {
  const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                   [&](const FormatRule& rule) { return rule.format == format; });
  return found == std::end(kFormats) ? nullptr : found;
}

size_t Batch::BytesFor(const std::vector<DataField>& fields, size_t samples) {
  size_t bytes = 0;
  for (const DataField& field : fields)
    bytes += (samples * static_cast<size_t>(field.Bytes()) + kAlignmentBytes - 1) /
             kAlignmentBytes * kAlignmentBytes;
  return bytes;
}

Batch::Batch(const std::vector<DataField>& fields, size_t samples)
    : samples_(samples),
      memory_(static_cast<std::byte*>(::operator new[](BytesFor(fields, samples), kAlignment))) {
  size_t at = 0;
  for (const DataField& field : fields) {
    places_.push_back({at, static_cast<size_t>(field.Bytes())});
    at += BytesFor({field}, samples);
  }
}

void Batch::Free::operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }

DataSet::~DataSet() = default;

absl::StatusOr<Batch> DataSet::Read(int64_t epoch, absl::Span<const uint64_t> ids) const {
  Batch batch(Fields(), ids.size());
  MUSTER_RETURN_IF_ERROR(ReadInto(epoch, ids, batch, 0));
  return batch;
}

bool IsForValidation(const DataSpec& data, uint64_t id) {
  const uint64_t random = Mix64(kSplitSalt, data.split_seed, id);
  return std::ldexp(static_cast<double>(random >> 11), -53) < data.validation_share;
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenDataSet(const DataSpec& data, uint64_t seed,
                                                     DataPart part) {
  std::string left_out;
  MUSTER_ASSIGN_OR_RETURN(StoredSet stored, OpenStored(data, left_out));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<DataSet> set,
                          Prepare(std::move(stored), data, seed, part == DataPart::kTraining));
  if (!left_out.empty()) set = std::make_unique<WithLeftOut>(std::move(set), std::move(left_out));
  const bool is_whole =
      part == DataPart::kAll || (part == DataPart::kTraining && data.validation_share == 0);
  if (is_whole) return set;
  return PartOfSet(std::move(set), data, part == DataPart::kValidation);
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
  absl::StatusOr<std::unique_ptr<DataSet>> set = MakeArraySet(std::move(arrays));
  if (set.ok()) return set;
  return absl::InvalidArgumentError(set.status().message());
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenDataSet(const TaskOptions& options) {
  if (options.part != DataPart::kValidation || options.validation_paths.empty())
    return OpenDataSet(options.data, options.seed, options.part);
  DataSpec data = options.data;
  data.paths = options.validation_paths;
  return OpenDataSet(data, options.seed, DataPart::kAll);
}

}  // namespace muster
