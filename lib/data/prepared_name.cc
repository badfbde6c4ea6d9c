#include "lib/data/prepared_name.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/data/byte_source.h"
#include "lib/data/file_walk.h"
#include "lib/data/hash_once.h"
#include "lib/data/opened_data.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
// Another one where names are made of other things, or folders are laid out in another way.
constexpr char kVersion[] = "muster prepared 1";
// Beside the stamps of text, so that its kept hashes are not those of samples.
constexpr char kTextVersion[] = "files of text, one by one";

// With its length before it, so that no two lists of texts read alike.
std::string Counted(absl::string_view text) { return absl::StrCat(text.size(), ":", text); }
std::string Counted(double number) { return absl::StrFormat("%.17g;", number); }
std::string Counted(bool is) { return is ? "yes;" : "no;"; }

template <class T>
std::string Counted(const std::vector<T>& items) {
  std::string all = absl::StrCat(items.size(), "(");
  for (const T& item : items) absl::StrAppend(&all, Counted(item));
  return all + ")";
}

std::string Counted(const std::vector<int64_t>& sizes) {
  std::string all = absl::StrCat(sizes.size(), "(");
  for (const int64_t size : sizes) absl::StrAppend(&all, size, ";");
  return all + ")";
}

std::string Described(const ParameterValues& parameters) {
  std::string all = absl::StrCat(parameters.size(), "(");
  for (const auto& [name, value] : parameters) {
    const std::variant<double, bool, std::string, std::vector<double>, std::vector<std::string>>&
        any = value;
    absl::StrAppend(&all, Counted(name), any.index(), "=",
                    std::visit([](const auto& of) { return Counted(of); }, any));
  }
  return all + ")";
}

std::string Described(const DataSpec& data) {
  return absl::StrCat(static_cast<int>(data.format), ";", data.max_bytes, ";", data.samples, ";",
                      Counted(data.columns), Counted(data.keys), Counted(data.label),
                      Counted(data.classes), Counted(data.header), Counted(data.delimiter),
                      Counted(data.shape), Counted(data.image_size), static_cast<int>(data.fit),
                      ";", data.channels, ";", Counted(data.mean), Counted(data.deviation),
                      data.crop, ";", Counted(data.flip), Counted(data.validation_share),
                      data.split_seed, ";");
}

struct TextFile {
  FileStamp stamp;
  SourcePtr source;
};

absl::StatusOr<std::vector<TextFile>> TextFilesOf(const DataSpec& data) {
  std::vector<TextFile> files;
  uint64_t bytes = 0;
  const auto full = [&] { return data.max_bytes > 0 && bytes >= data.max_bytes; };
  const auto take = [&](const WalkedFile& walked) -> std::string {
    absl::StatusOr<FileStamp> stamp = StampOf(walked.path.string(), walked.below.string());
    if (!stamp.ok()) return std::string(stamp.status().message());
    absl::StatusOr<SourcePtr> source = FileSource(walked.path.string());
    if (!source.ok()) return std::string(source.status().message());
    bytes += stamp->bytes;
    files.push_back({*std::move(stamp), *std::move(source)});
    return "";
  };
  MUSTER_RETURN_IF_ERROR(WalkFiles(data, full, take).status());
  if (files.empty()) return NothingIn(data, "no file");
  return files;
}

absl::StatusOr<std::string> HashOf(
    const std::vector<TextFile>& files,
    const std::function<absl::Status(uint64_t bytes, uint64_t all)>& told) {
  uint64_t all = 0, done = 0;
  for (const TextFile& file : files) all += file.source->size();
  Sha256 hash;
  std::vector<std::byte> piece;
  for (const TextFile& file : files) {
    const uint64_t size = file.source->size();
    hash.Update(BytesOf(absl::StrCat(Counted(file.stamp.below), size, "\n")));
    for (uint64_t at = 0; at < size; at += piece.size()) {
      piece.resize(static_cast<size_t>(std::min<uint64_t>(kPieceBytes, size - at)));
      MUSTER_RETURN_IF_ERROR(file.source->ReadAt(at, absl::MakeSpan(piece)));
      hash.Update(piece);
      done += piece.size();
      MUSTER_RETURN_IF_ERROR(told(done, all));
    }
  }
  return hash.HexFinish();
}

// Of our own bytes `told` hears.
std::function<void(const PreparedSoFar&)> OfOthers(const HashListener& others) {
  return [&others](const PreparedSoFar& so_far) {
    if (!so_far.is_ours && others.told) others.told(so_far);
  };
}

HashOnceOptions OnceIn(const std::string& kept, const HashListener& others) {
  HashOnceOptions once;
  once.folder = kept;
  once.told = OfOthers(others);
  once.may_wait = others.may_wait;
  return once;
}

absl::StatusOr<DataContent> ContentOfText(const DataSpec& data, const std::string& kept,
                                          const ToldOfBytes& told, const HashListener& others) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<TextFile> files, TextFilesOf(data));
  DataContent content;
  for (const TextFile& file : files) content.files.push_back(file.stamp);
  const std::string key = KeptHashKey(data, content.files, kTextVersion);
  HashOnceOptions once = OnceIn(kept, others);
  once.key = key;
  once.about = absl::StrCat("text, the first file is ", content.files.front().path);
  once.finds = !kept.empty();
  once.keeps = !kept.empty() && !MayChangeUnseen(content.files, absl::GetCurrentTimeNanos());
  once.compute = [&](const auto&) { return HashOf(files, told); };
  MUSTER_ASSIGN_OR_RETURN(HashedOnce hashed, HashOnce(once));
  content.hash = std::move(hashed.hash);
  return content;
}

}  // namespace

absl::StatusOr<DataContent> ContentOfData(const DataSpec& data, const std::string& kept,
                                          const ToldOfBytes& told, HashListener others) {
  if (!others.may_wait) others.may_wait = [] { return true; };
  if (data.paths.empty()) return DataContent();
  if (data.format == DataFormat::kText) return ContentOfText(data, kept, told, others);
  MUSTER_ASSIGN_OR_RETURN(OpenedData opened, OpenStoredData(data));
  // Reading cannot be ended half-way; what ends it is told after it.
  absl::Status ends;
  MUSTER_RETURN_IF_ERROR(GiveHash(opened, data,
                                  {.finds = true,
                                   .keeps = true,
                                   .folder = kept,
                                   .now = absl::GetCurrentTimeNanos(),
                                   .told =
                                       [&](uint64_t bytes, uint64_t all) {
                                         if (ends.ok()) ends = told(bytes, all);
                                       },
                                   .so_far = OfOthers(others),
                                   .may_wait = others.may_wait})
                             .status());
  MUSTER_RETURN_IF_ERROR(ends);
  return DataContent{opened.stored.set->ContentHash(), std::move(opened.files)};
}

absl::Status CheckUnchanged(const std::vector<FileStamp>& files) {
  for (const FileStamp& before : files) {
    const absl::StatusOr<FileStamp> now = StampOf(before.path, before.below);
    if (!now.ok() || *now != before)
      return absl::DataLossError(absl::StrCat(
          "data.paths: ", before.path,
          " has changed while something was prepared from it; start again once it stays as it is"));
  }
  return absl::OkStatus();
}

std::string PreparedName(const PreparedOf& of) {
  return HexSha256(absl::StrCat(kVersion, "\n", Counted(of.version), Counted(of.task),
                                Counted(of.plugin), Described(of.parameters), Described(of.data),
                                Counted(of.content)));
}

}  // namespace muster
