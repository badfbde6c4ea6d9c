#include "lib/data/kept_hash.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kShortly = 2 * kSecond;
constexpr size_t kHashDigits = 64;
constexpr size_t kMostKeptBytes = 4096;
// Another one where hashes are computed in another way, or keys of other things.
constexpr char kVersion[] = "muster data hash 2";

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

// With its length before it, so that no two lists of texts read alike.
std::string Counted(absl::string_view text) { return absl::StrCat(text.size(), ":", text); }

std::string Counted(const std::vector<std::string>& texts) {
  std::string all = absl::StrCat(texts.size(), "(");
  for (const std::string& text : texts) all += Counted(text);
  return all + ")";
}

}  // namespace

absl::StatusOr<FileStamp> StampOf(const std::string& path, const std::string& below) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return ReadError(errno, "looking at", path);
  return FileStamp{path,
                   below,
                   static_cast<uint64_t>(found.st_size),
                   static_cast<uint64_t>(found.st_ino),
                   Nanoseconds(found.st_mtim),
                   Nanoseconds(found.st_ctim)};
}

std::string KeptHashKey(const DataSpec& data, const std::vector<FileStamp>& files,
                        const std::string& versions) {
  Sha256 hash;
  const auto add = [&](const std::string& text) { hash.Update(BytesOf(text)); };
  add(absl::StrCat(kVersion, "\n", Counted(versions), static_cast<int>(data.format), " ",
                   data.max_bytes, " ", static_cast<int>(data.header), "\n"));
  add(absl::StrCat(Counted(data.columns), Counted(data.keys), Counted(data.label),
                   Counted(data.classes), Counted(data.delimiter), absl::StrJoin(data.shape, ","),
                   "\n"));
  for (const DataField& field : data.fields)
    add(absl::StrCat(Counted(field.name), static_cast<int>(field.type), " ",
                     absl::StrJoin(field.shape, ","), "\n"));
  for (const FileStamp& file : files)
    add(absl::StrCat(Counted(file.path), Counted(file.below), file.bytes, " ", file.inode, " ",
                     file.modified, " ", file.changed, "\n"));
  return hash.HexFinish();
}

bool MayChangeUnseen(const std::vector<FileStamp>& files, int64_t now) {
  return std::any_of(files.begin(), files.end(), [&](const FileStamp& file) {
    return std::max(file.modified, file.changed) > now - kShortly;
  });
}

std::string CacheFolder(const std::string& name) {
  const auto named = [](const char* variable) -> std::string {
    const char* const value = std::getenv(variable);
    return value != nullptr && value[0] == '/' ? value : "";
  };
  if (const std::string cache = named("XDG_CACHE_HOME"); !cache.empty())
    return absl::StrCat(cache, "/muster/", name);
  const std::string home = named("HOME");
  return home.empty() ? "" : absl::StrCat(home, "/.cache/muster/", name);
}

std::optional<std::string> FindKeptHash(const std::string& folder, const std::string& key) {
  const auto kept = ReadWholeFile(absl::StrCat(folder, "/", key), kMostKeptBytes);
  if (!kept.ok() || kept->size() <= kHashDigits || (*kept)[kHashDigits] != '\n')
    return std::nullopt;
  const std::string hash = kept->substr(0, kHashDigits);
  if (hash.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
  return hash;
}

absl::Status KeepHash(const std::string& folder, const std::string& key, const std::string& hash,
                      const std::string& about) {
  MUSTER_RETURN_IF_ERROR(MakeDirectories(folder));
  const std::string line = about.substr(0, kMostKeptBytes - kHashDigits - 2);
  return ReplaceFile(absl::StrCat(folder, "/", key), absl::StrCat(hash, "\n", line, "\n"));
}

}  // namespace muster
