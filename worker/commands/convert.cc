#include "worker/commands/convert.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/bytes.h"
#include "lib/base/descriptor.h"
#include "lib/base/output_file.h"
#include "lib/base/status.h"
#include "lib/base/utf8.h"
#include "lib/base/whole_file.h"
#include "lib/checkpoint/file_writer.h"
#include "lib/data/byte_source.h"
#include "lib/data/image_form.h"
#include "lib/data/opened_data.h"
#include "lib/export/npy_header.h"
#include "lib/export/safetensors_header.h"
#include "lib/export/tar_writer.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kReadAtOnce = uint64_t{8} << 20;
constexpr uint64_t kMostAtOnce = 4096;  // samples
constexpr size_t kMostKey = 200;

constexpr std::pair<ConvertFormat, const char*> kNames[] = {
    {ConvertFormat::kNumpy, "numpy"},
    {ConvertFormat::kSafetensors, "safetensors"},
    {ConvertFormat::kWebDataset, "webdataset"}};
constexpr std::pair<const char*, ConvertFormat> kEndings[] = {
    {".npy", ConvertFormat::kNumpy},
    {".safetensors", ConvertFormat::kSafetensors},
    {".tar", ConvertFormat::kWebDataset}};

absl::Status BadTarget(absl::string_view target, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("--output: '", target, "' ", why));
}

absl::StatusOr<ConvertFormat> FormatOf(const ConvertOptions& options) {
  if (options.format) return *options.format;
  for (const auto& [ending, format] : kEndings)
    if (absl::EndsWith(options.target, ending)) return format;
  return BadTarget(options.target,
                   "says no format: end it in .npy, .safetensors or .tar, or give --format");
}

bool IsFolder(ConvertFormat format, const std::string& target) {
  return (format == ConvertFormat::kNumpy && !absl::EndsWith(target, ".npy")) ||
         (format == ConvertFormat::kWebDataset && !absl::EndsWith(target, ".tar"));
}

// Samples are read in order, many at a time.
class Reader {
 public:
  Reader(const DataSet& set, OnBadSample on_bad_sample,
         std::function<void(uint64_t, uint64_t)> told)
      : set_(set), told_(std::move(told)) {
    for (const DataField& field : set.Fields()) row_bytes_ += static_cast<uint64_t>(field.Bytes());
    at_once_ = std::clamp<uint64_t>(kReadAtOnce / row_bytes_, 1, kMostAtOnce);
    all_ = set.Samples() * row_bytes_ * (on_bad_sample == OnBadSample::kSkip ? 2 : 1);
  }

  // Without those that are bad, which are found by reading all of them once.
  absl::Status LeaveBadOut() {
    std::vector<uint64_t> good;
    const uint64_t samples = set_.Samples();
    for (uint64_t first = 0; first < samples; first += at_once_) {
      const std::vector<uint64_t> ids = Range(first, std::min(at_once_, samples - first));
      const absl::Status all = set_.Read(-1, ids).status();
      if (!all.ok() && !IsBadSample(all)) return all;
      for (const uint64_t id : ids) {
        const absl::Status one = all.ok() ? all : set_.Read(-1, {&id, 1}).status();
        if (!one.ok() && !IsBadSample(one)) return one;
        if (one.ok()) good.push_back(id);
      }
      Tell(ids.size());
    }
    if (good.empty()) return absl::InvalidArgumentError("data.paths: all samples in them are bad");
    good_ = std::move(good);
    leaves_out_ = true;
    return absl::OkStatus();
  }

  uint64_t samples() const { return leaves_out_ ? good_.size() : set_.Samples(); }
  uint64_t id(uint64_t i) const { return leaves_out_ ? good_[i] : i; }

  // Calls `take` with each of them, the first of them being sample `first` of those that count.
  absl::Status ReadAll(const std::function<absl::Status(uint64_t first, const Batch&)>& take) {
    for (uint64_t first = 0; first < samples(); first += at_once_) {
      std::vector<uint64_t> ids = Range(first, std::min(at_once_, samples() - first));
      for (uint64_t& i : ids) i = id(i);
      MUSTER_ASSIGN_OR_RETURN(const Batch batch, set_.Read(-1, ids));
      MUSTER_RETURN_IF_ERROR(take(first, batch));
      Tell(ids.size());
    }
    return absl::OkStatus();
  }

  void Tell(uint64_t samples) { told_(done_ += samples * row_bytes_, all_); }

 private:
  static std::vector<uint64_t> Range(uint64_t first, uint64_t count) {
    std::vector<uint64_t> ids(count);
    for (uint64_t i = 0; i < count; ++i) ids[i] = first + i;
    return ids;
  }

  const DataSet& set_;
  const std::function<void(uint64_t, uint64_t)> told_;
  uint64_t row_bytes_ = 0, at_once_ = 1, done_ = 0, all_ = 0;
  bool leaves_out_ = false;
  std::vector<uint64_t> good_;  // where some are left out
};

// A new file whose size is known, and room for it taken: a disk that is too small is one at once.
class PlacedFile {
 public:
  static absl::StatusOr<PlacedFile> Create(std::string path, uint64_t bytes) {
    PlacedFile file;
    file.fd_ = Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.fd_.is_open()) return FileError(errno, "create", path);
    // Not every file system can say; then the writes do.
    if (fallocate(file.fd_.get(), 0, 0, static_cast<off_t>(bytes)) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
      return FileError(errno, "write", path);
    file.path_ = std::move(path);
    return file;
  }

  absl::Status Write(uint64_t at, absl::Span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError(errno, "write", path_);
      bytes.remove_prefix(static_cast<size_t>(n));
      at += static_cast<uint64_t>(n);
    }
    return absl::OkStatus();
  }

  absl::Status Finish() const {
    return fsync(fd_.get()) == 0 ? absl::OkStatus() : FileError(errno, "sync", path_);
  }

 private:
  Descriptor fd_;
  std::string path_;
};

std::vector<int64_t> ShapeOf(uint64_t samples, const DataField& field) {
  std::vector<int64_t> shape = {static_cast<int64_t>(samples)};
  shape.insert(shape.end(), field.shape.begin(), field.shape.end());
  return shape;
}

uint64_t BytesOfAll(uint64_t samples, const DataField& field) {
  return samples * static_cast<uint64_t>(field.Bytes());
}

// The rows of each field go one after the other to a place of its own.
struct Column {
  const PlacedFile* file = nullptr;
  uint64_t at = 0;
};

absl::Status WriteColumns(Reader& reader, std::vector<Column> columns) {
  return reader.ReadAll([&](uint64_t, const Batch& batch) -> absl::Status {
    for (size_t f = 0; f < columns.size(); ++f) {
      const absl::Span<const std::byte> rows = batch.of(f);
      MUSTER_RETURN_IF_ERROR(columns[f].file->Write(columns[f].at, rows));
      columns[f].at += rows.size();
    }
    return absl::OkStatus();
  });
}

// Those of larger elements come first, so that each begins at a multiple of its element.
absl::Status WriteSafetensors(Reader& reader, const std::string& path, ConvertedData& to) {
  std::vector<size_t> order(to.fields.size());
  for (size_t f = 0; f < order.size(); ++f) order[f] = f;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return BytesOfElement(to.fields[a].type) > BytesOfElement(to.fields[b].type);
  });
  std::vector<SafetensorsEntry> entries;
  uint64_t bytes = 0;
  std::vector<Column> columns(to.fields.size());
  for (const size_t f : order) {
    const DataField& field = to.fields[f];
    if (field.name == "__metadata__")
      return absl::FailedPreconditionError(
          "data.keys: safetensors takes '__metadata__' for no key; take --format numpy");
    entries.push_back(
        {field.name, field.type, ShapeOf(to.samples, field), BytesOfAll(to.samples, field)});
    columns[f].at = bytes;
    bytes += entries.back().bytes;
  }
  const std::string header = SafetensorsHeader(entries, {});
  to.bytes = header.size() + bytes;
  to.files = 1;
  MUSTER_ASSIGN_OR_RETURN(const PlacedFile file, PlacedFile::Create(path, to.bytes));
  MUSTER_RETURN_IF_ERROR(file.Write(0, BytesOf(header)));
  for (Column& column : columns) column = {&file, header.size() + column.at};
  MUSTER_RETURN_IF_ERROR(WriteColumns(reader, std::move(columns)));
  return file.Finish();
}

// `paths`: of the file of each field.
absl::Status WriteNumpy(Reader& reader, const std::vector<std::string>& paths, ConvertedData& to) {
  std::vector<PlacedFile> files;
  files.reserve(to.fields.size());
  std::vector<Column> columns;
  for (size_t f = 0; f < to.fields.size(); ++f) {
    const DataField& field = to.fields[f];
    const std::optional<std::string> header = NpyHeader(field.type, ShapeOf(to.samples, field));
    if (!header)
      return absl::FailedPreconditionError(absl::StrCat(
          "data.keys: NumPy has no type for '", field.name, "'; take --format safetensors"));
    const uint64_t bytes = header->size() + BytesOfAll(to.samples, field);
    MUSTER_ASSIGN_OR_RETURN(PlacedFile file, PlacedFile::Create(paths[f], bytes));
    MUSTER_RETURN_IF_ERROR(file.Write(0, BytesOf(*header)));
    files.push_back(std::move(file));
    columns.push_back({&files.back(), header->size()});
    to.bytes += bytes;
    ++to.files;
  }
  MUSTER_RETURN_IF_ERROR(WriteColumns(reader, std::move(columns)));
  for (const PlacedFile& file : files) MUSTER_RETURN_IF_ERROR(file.Finish());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FilesOfKeys(const std::string& folder,
                                                     const std::vector<DataField>& fields) {
  std::vector<std::string> paths;
  for (const DataField& field : fields) {
    const std::string& key = field.name;
    if (key.empty() || key[0] == '.' || key.size() > kMostKey ||
        key.find_first_of("/\0", 0, 2) != std::string::npos)
      return absl::FailedPreconditionError(
          absl::StrCat("data.keys: '", key.substr(0, kMostKey),
                       "' cannot be the name of a file; take --format safetensors"));
    paths.push_back(absl::StrCat(folder, "/", key, ".npy"));
  }
  return paths;
}

// "jpg", as the decoder tells it apart.
absl::string_view EndingOf(absl::string_view image) {
  return absl::StartsWith(image, "\xff\xd8") ? "jpg" : "png";
}

// One shard after the other, each of whole samples.
class Shards {
 public:
  // `next` gives the path of each.
  Shards(std::function<std::string(uint64_t shard)> next, uint64_t most, ConvertedData& to)
      : next_(std::move(next)), most_(most), to_(to) {}

  absl::Status Add(uint64_t sample, absl::string_view image, const std::string& label) {
    uint64_t bytes = TarWriter::BytesOf(image.size());
    if (to_.has_label) bytes += TarWriter::BytesOf(label.size());
    if (tar_ && tar_->bytes() + bytes > most_) MUSTER_RETURN_IF_ERROR(Finish());
    if (!tar_) {
      MUSTER_ASSIGN_OR_RETURN(
          file_, FileWriter::Create(next_(to_.files++), FileWriter::PageCache::kThrough));
      tar_.emplace(*file_);
    }
    const std::string name = absl::StrFormat("%012d", sample);
    MUSTER_RETURN_IF_ERROR(tar_->Add(absl::StrCat(name, ".", EndingOf(image)), image));
    return to_.has_label ? tar_->Add(name + ".cls", label) : absl::OkStatus();
  }

  absl::Status Finish() {
    MUSTER_RETURN_IF_ERROR(tar_->Finish());
    to_.bytes += tar_->bytes();
    tar_.reset();
    return file_->Finish();
  }

 private:
  const std::function<std::string(uint64_t)> next_;
  const uint64_t most_;
  ConvertedData& to_;
  std::unique_ptr<FileWriter> file_;
  std::optional<TarWriter> tar_;
};

absl::Status WriteShards(Reader& reader, const std::vector<EncodedImage>& images, Shards shards) {
  for (uint64_t i = 0; i < reader.samples(); ++i) {
    const EncodedImage& image = images[reader.id(i)];
    MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(*image.source, kMostEncodedBytes));
    MUSTER_RETURN_IF_ERROR(shards.Add(i, bytes, absl::StrCat(image.label)));
    reader.Tell(1);
  }
  return shards.Finish();
}

absl::Status CheckTarget(const std::string& target, bool is_folder, const OpenedData& opened) {
  if (is_folder) return CheckOutputFolder(target);
  MUSTER_RETURN_IF_ERROR(CheckOutputFile(target));
  std::error_code error;
  for (const FileStamp& file : opened.files)
    if (fs::equivalent(file.path, target, error))
      return BadTarget(target, "is one of the files that are read; name another");
  return absl::OkStatus();
}

// Of what writes keys down: in a header of JSON, or as what to set for a job that reads them.
absl::Status CheckKeys(const std::vector<DataField>& fields) {
  for (const DataField& field : fields)
    if (!IsUtf8(field.name))
      return absl::FailedPreconditionError(
          absl::StrCat("data.keys: '", field.name.substr(0, kMostKey),
                       "' is no UTF-8, and cannot be written down; name others, or rename it"));
  return absl::OkStatus();
}

absl::Status WriteTo(const std::string& path, bool is_folder, Reader& reader,
                     const StoredDataSet& set, const ConvertOptions& options, ConvertedData& to) {
  to.files = to.bytes = 0;
  switch (to.format) {
    case ConvertFormat::kSafetensors: return WriteSafetensors(reader, path, to);
    case ConvertFormat::kNumpy: {
      std::vector<std::string> paths = {path};
      if (is_folder) {
        MUSTER_ASSIGN_OR_RETURN(paths, FilesOfKeys(path, to.fields));
      }
      return WriteNumpy(reader, paths, to);
    }
    case ConvertFormat::kWebDataset: {
      const auto next = [&](uint64_t shard) {
        return is_folder ? absl::StrFormat("%s/shard-%06d.tar", path, shard) : path;
      };
      const uint64_t most = is_folder ? options.shard_bytes : UINT64_MAX;
      return WriteShards(reader, *set.Encoded(), Shards(next, most, to));
    }
  }
  return absl::OkStatus();
}

}  // namespace

const char* NameOf(ConvertFormat format) {
  for (const auto& [known, name] : kNames)
    if (known == format) return name;
  return "";
}

std::optional<ConvertFormat> ConvertFormatOf(absl::string_view name) {
  for (const auto& [format, known] : kNames)
    if (name == known) return format;
  return std::nullopt;
}

absl::StatusOr<ConvertedData> ConvertData(const TrainingSpec& training,
                                          const ConvertOptions& options) {
  ConvertedData to;
  MUSTER_ASSIGN_OR_RETURN(to.format, FormatOf(options));
  to.target = fs::absolute(options.target).lexically_normal().string();
  if (!to.target.empty() && to.target.back() == '/') to.target.pop_back();
  const bool is_folder = IsFolder(to.format, to.target);
  MUSTER_ASSIGN_OR_RETURN(OpenedData opened, OpenStoredData(training.data));
  MUSTER_RETURN_IF_ERROR(CheckTarget(to.target, is_folder, opened));
  const StoredDataSet& set = *opened.stored.set;
  to.fields = set.Fields();
  to.has_label = opened.stored.has_label;
  to.is_picture = opened.stored.is_picture;
  to.left_out = opened.left_out;
  if (to.format == ConvertFormat::kWebDataset && set.Encoded() == nullptr)
    return absl::FailedPreconditionError(
        "--format: webdataset holds files of images, and these samples are none; take safetensors "
        "or numpy");
  if (to.format == ConvertFormat::kNumpy && !is_folder && to.fields.size() != 1)
    return BadTarget(options.target,
                     absl::StrCat("holds one array, and samples have ", to.fields.size(),
                                  "; name a folder and give --format numpy, or take safetensors"));
  if (is_folder || to.format != ConvertFormat::kNumpy) MUSTER_RETURN_IF_ERROR(CheckKeys(to.fields));
  // What is written has no checksum any more.
  MUSTER_RETURN_IF_ERROR(set.CheckChecksums());
  Reader reader(set, training.data.on_bad_sample, options.told);
  if (training.data.on_bad_sample == OnBadSample::kSkip)
    MUSTER_RETURN_IF_ERROR(reader.LeaveBadOut());
  to.samples = reader.samples();
  to.bad = set.Samples() - to.samples;
  const auto write = [&](const std::string& path) {
    return WriteTo(path, is_folder, reader, set, options, to);
  };
  MUSTER_RETURN_IF_ERROR(is_folder ? WriteOutputFolderBy(to.target, write)
                                   : WriteOutputFileBy(to.target, write));
  if (to.format == ConvertFormat::kNumpy && !is_folder)
    to.fields[0].name = fs::path(to.target).stem().string();
  return to;
}

}  // namespace muster::worker
