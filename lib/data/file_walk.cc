#include "lib/data/file_walk.h"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "lib/base/own_folder.h"
#include "lib/base/status.h"
#include "lib/data/hash_listener.h"
#include "lib/data/names_in.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

bool HasSuffix(const std::string& name, const std::vector<std::string>& suffixes) {
  const auto fits = [&](const std::string& suffix) {
    return suffix.empty() ? !absl::StrContains(name, '.') : absl::EndsWith(name, suffix);
  };
  return suffixes.empty() || std::any_of(suffixes.begin(), suffixes.end(), fits);
}

// What is kept of a run lies there: it grows while the job runs, so it is no data.
bool IsOurOwn(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / kOwnFolderMark, ignored);
}

// Where a person keeps a token for `muster`, which makes no folder there and so marks none.
bool IsSettings(const fs::path& directory) {
  if (directory.filename() != "muster") return false;
  std::error_code ignored;
  return fs::canonical(directory, ignored).parent_path().filename() == ".config";
}

class Walk {
 public:
  Walk(const DataSpec& data, const std::function<bool()>& full,
       const std::function<std::string(const WalkedFile&)>& take)
      : data_(data), full_(full), take_(take) {}

  absl::Status AddPath(const std::string& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (const fs::path own = OurOwnAround(path); !own.empty()) return IsOurs(path, own);
    if (fs::is_directory(status)) {
      AddDirectory(path, "");
      return absl::OkStatus();
    }
    if (fs::is_regular_file(status)) return AddNamedFile(path);
    return absl::InvalidArgumentError(
        absl::StrCat("data.paths: ", path,
                     fs::exists(status) ? " is not a file or directory; name files or directories"
                     : status.type() == fs::file_type::not_found
                         ? " does not exist; name files or directories"
                         : absl::StrCat(" cannot be read: ", error.message(),
                                        "; make it readable, or name others")));
  }

  absl::StatusOr<std::string> Finish() {
    if (unreadable_ == 0) return "";
    if (data_.unreadable == Unreadable::kSkip)
      return absl::StrCat(unreadable_,
                          unreadable_ == 1 ? " file or directory" : " files or directories",
                          " that cannot be read, the first is ", first_unreadable_);
    const std::string others =
        unreadable_ == 1 ? "" : absl::StrCat(" (the first of ", unreadable_, ")");
    return absl::DataLossError(absl::StrCat("data.paths: ", first_unreadable_, " cannot be read",
                                            others, ": ", why_unreadable_,
                                            "; make it readable, or take it away"));
  }

 private:
  static absl::Status IsOurs(const std::string& path, const fs::path& own) {
    std::error_code ignored;
    const bool is_itself = fs::equivalent(path, own, ignored);
    return absl::InvalidArgumentError(absl::StrCat(
        "data.paths: ", path, is_itself ? " is" : absl::StrCat(" lies in ", own.string(), ","),
        " the folder of a run or a cluster, which changes while the job runs and holds what is of "
        "others; give the run another --dir, or keep the data outside of it"));
  }

  absl::Status AddNamedFile(const fs::path& path) {
    const size_t before = unreadable_;
    AddFile({path, {}});
    if (unreadable_ == before || data_.unreadable == Unreadable::kSkip) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("data.paths: ", first_unreadable_,
                                                   " cannot be read: ", why_unreadable_,
                                                   "; make it readable, or name others"));
  }

  void AddDirectory(const fs::path& directory, const fs::path& below) {
    std::error_code error;
    fs::directory_iterator listed(directory, error);
    const std::vector<std::string> names = NamesIn(std::move(listed), error);
    if (error) CountUnreadable(directory, error.message());
    for (const std::string& name : names) {
      if (full_()) break;
      const fs::path path = directory / name;
      std::error_code ignored;
      if (!fs::is_directory(fs::symlink_status(path, ignored))) {
        if (HasSuffix(name, data_.suffixes)) AddFound({path, below / name});
      } else if (!IsOurOwn(path) && !IsSettings(path)) {
        AddDirectory(path, below / name);
      }
    }
  }

  // Pipes, devices and links to directories are no files. Among texts they are passed over, as in
  // folders of programs they are no content; in a data set, which would be smaller without a word,
  // only the links are. A link may lead into a folder of ours.
  void AddFound(const WalkedFile& file) {
    const fs::path& path = file.path;
    std::error_code error;
    if (fs::is_symlink(path, error) && !OurOwnAround(path).empty()) return;
    const fs::file_status status = fs::status(path, error);
    if (fs::is_regular_file(status)) return AddFile(file);
    if (!fs::exists(status)) CountUnreadable(path, error.message());
    if (fs::exists(status) && !fs::is_directory(status) && data_.format != DataFormat::kText)
      CountUnreadable(path, "it is a pipe, a socket or a device, and no file");
  }

  void AddFile(const WalkedFile& file) {
    if (full_()) return;
    DataGoesOn();
    if (const std::string why = take_(file); !why.empty()) CountUnreadable(file.path, why);
  }

  void CountUnreadable(const fs::path& path, absl::string_view why) {
    if (unreadable_++ > 0) return;
    first_unreadable_ = path.string();
    absl::ConsumePrefix(&why, first_unreadable_ + ": ");  // it stands before the reason already
    why_unreadable_ = why.empty() ? "it is not there" : std::string(why);
  }

  const DataSpec& data_;
  const std::function<bool()>& full_;
  const std::function<std::string(const WalkedFile&)>& take_;
  size_t unreadable_ = 0;  // files and directories
  std::string first_unreadable_;
  std::string why_unreadable_;
};

}  // namespace

fs::path OurOwnAround(const fs::path& path) {
  std::error_code error;
  fs::path at = fs::canonical(path, error);
  if (error) return {};  // whoever opens it says why
  for (;; at = at.parent_path()) {
    if (IsOurOwn(at) || IsSettings(at)) return at;
    if (at == at.root_path()) return {};
  }
}

absl::Status NothingIn(const DataSpec& data, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("data.paths: ", what, " in ", absl::StrJoin(data.paths, ", "),
                   data.suffixes.empty()
                       ? ""
                       : absl::StrCat(" (suffixes '", absl::StrJoin(data.suffixes, "', '"), "')"),
                   "; name files that are not empty"));
}

absl::StatusOr<std::string> WalkFiles(const DataSpec& data, const std::function<bool()>& full,
                                      const std::function<std::string(const WalkedFile&)>& take) {
  Walk walk(data, full, take);
  for (const std::string& path : data.paths) MUSTER_RETURN_IF_ERROR(walk.AddPath(path));
  return walk.Finish();
}

}  // namespace muster
