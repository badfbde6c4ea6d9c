#include "lib/data/opened_data.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/data/array_set.h"
#include "lib/data/byte_source.h"
#include "lib/data/file_walk.h"
#include "lib/data/formats.h"
#include "lib/data/hash_once.h"
#include "lib/data/held_files.h"
#include "muster/corpus.h"

namespace muster {
namespace {

constexpr FormatRule kFormats[] = {{DataFormat::kCsv, OpenCsv, OpenCsvToMeasure},
                                   {DataFormat::kNumpy, OpenNumpy},
                                   {DataFormat::kSafetensors, OpenSafetensors},
                                   {DataFormat::kPt, OpenPt},
                                   {DataFormat::kHdf5, OpenHdf5},
                                   {DataFormat::kIdx, OpenIdx},
                                   {DataFormat::kCifar10, OpenCifar10},
                                   {DataFormat::kCifar100, OpenCifar100},
                                   {DataFormat::kImages, OpenImages, OpenImagesToMeasure},
                                   {DataFormat::kWebDataset, OpenWebDataset},
                                   {DataFormat::kStream, OpenStreamFiles}};

// Text: rows of so many bytes, one after the other; what is left at the end is none.
absl::StatusOr<OpenedData> OpenText(const DataSpec& data) {
  if (data.shape.empty())
    return absl::FailedPreconditionError(
        "data.format: this task reads samples; say which format the files have, or give "
        "data.shape, [bytes of a sample], for text");
  MUSTER_ASSIGN_OR_RETURN(Corpus corpus, ReadCorpus(data));
  DataMemory memory;
  MUSTER_RETURN_IF_ERROR(memory.Take("data.paths", corpus.bytes.size()));
  const SourcePtr text = HeldSource("data.paths", std::move(corpus.bytes),
                                    std::move(corpus.check_files), std::move(memory));
  const DataField field{"input", TensorType::kUint8, data.shape};
  MUSTER_ASSIGN_OR_RETURN(const uint64_t row_bytes, RowBytes(*text, field));
  std::vector<Array> arrays;
  MUSTER_RETURN_IF_ERROR(
      AddPart(arrays, field, false, {text, 0, text->size() / row_bytes, row_bytes}));
  absl::StatusOr<std::unique_ptr<StoredDataSet>> made = MakeArraySet(std::move(arrays));
  if (absl::IsInvalidArgument(made.status())) return NothingIn(data, made.status().message());
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StoredDataSet> set, std::move(made));
  return OpenedData{.stored = {std::move(set)}, .left_out = std::move(corpus.left_out)};
}

std::string About(const std::vector<FileStamp>& files) {
  uint64_t bytes = 0;
  for (const FileStamp& file : files) bytes += file.bytes;
  return absl::StrCat(files.size(), " files, ", bytes, " bytes, the first is ", files.front().path);
}

struct Found {
  DataFiles files;
  std::vector<FileStamp> stamps;  // as they were before they were opened
  std::string left_out;
  std::shared_ptr<ReadMarks> marks;
};

absl::StatusOr<Found> FilesOf(const DataSpec& data) {
  Found found;
  found.marks = std::make_shared<ReadMarks>(/*places_are_told=*/data.format == DataFormat::kHdf5);
  const auto take = [&](const WalkedFile& walked) -> std::string {
    absl::StatusOr<FileStamp> stamp = StampOf(walked.path.string(), walked.below.string());
    if (!stamp.ok()) return std::string(stamp.status().message());
    absl::StatusOr<SourcePtr> source = FileSource(walked.path.string(), found.marks);
    if (!source.ok()) return std::string(source.status().message());
    found.stamps.push_back(*std::move(stamp));
    found.files.push_back({*std::move(source), walked});
    return "";
  };
  MUSTER_ASSIGN_OR_RETURN(found.left_out, WalkFiles(
                                              data, [] { return false; }, take));
  if (found.files.empty()) return NothingIn(data, "no file");
  return found;
}

}  // namespace

const FormatRule* FindFormat(DataFormat format) {
  const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                   [&](const FormatRule& rule) { return rule.format == format; });
  return found == std::end(kFormats) ? nullptr : found;
}

absl::StatusOr<OpenedData> OpenStoredData(const DataSpec& data,
                                          const std::vector<std::string>& trained_with) {
  const FormatRule* format = FindFormat(data.format);
  if (format == nullptr) return OpenText(data);
  MUSTER_ASSIGN_OR_RETURN(Found found, FilesOf(data));
  OpenedData opened{.files = std::move(found.stamps),
                    .left_out = std::move(found.left_out),
                    .marks = std::move(found.marks)};
  absl::StatusOr<StoredSet> stored;
  if (format->open_to_measure == nullptr || trained_with.empty()) {
    stored = format->open(found.files, data);
  } else {
    DataSpec training = data;
    training.paths = trained_with;
    const absl::StatusOr<Found> trained = FilesOf(training);
    MUSTER_RETURN_IF_ERROR(Prefix(
        "what is measured with has the columns and classes of what the model was trained with",
        trained.status()));
    stored = format->open_to_measure(found.files, trained->files, data);
  }
  if (absl::IsInvalidArgument(stored.status())) return NothingIn(data, stored.status().message());
  MUSTER_ASSIGN_OR_RETURN(opened.stored, std::move(stored));
  return opened;
}

absl::StatusOr<bool> GiveHash(OpenedData& opened, const DataSpec& data, const Hashing& hashing) {
  StoredDataSet& set = *opened.stored.set;
  const bool can_be_kept = !hashing.folder.empty() && !opened.files.empty();
  std::string versions = opened.stored.decoder;
  if (!opened.stored.names.empty()) absl::StrAppend(&versions, ", names ", opened.stored.names);
  const std::string key = can_be_kept ? KeptHashKey(data, opened.files, versions) : std::string();
  HashOnceOptions once;
  once.folder = can_be_kept ? hashing.folder : "";
  once.key = key;
  if (can_be_kept) once.about = About(opened.files);
  once.finds = hashing.finds;
  once.keeps = hashing.keeps && !MayChangeUnseen(opened.files, hashing.now);
  once.told = hashing.so_far;
  once.may_wait = hashing.may_wait;
  once.quiet_for = hashing.quiet_for;
  once.compute = [&](const auto& told) {
    const uint64_t all = set.BytesToHash();
    return set.ComputeHash([&, bytes = uint64_t{0}](uint64_t more) mutable {
      bytes += more;
      hashing.told(bytes, all);
      told(bytes, all);
    });
  };
  MUSTER_ASSIGN_OR_RETURN(HashedOnce hashed, HashOnce(once));
  set.SetHash(std::move(hashed.hash));
  opened.marks->Settle(/*all_was_read=*/!hashed.was_kept);
  return hashed.was_kept;
}

}  // namespace muster
