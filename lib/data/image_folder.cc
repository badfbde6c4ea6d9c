#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/data/formats.h"
#include "lib/data/image_set.h"
#include "lib/data/names_in.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

// The folder right below the item of data.paths; of an item that is a file itself, the one around.
std::string ClassOf(const WalkedFile& file) {
  if (file.below.empty()) return file.path.parent_path().filename().string();
  return file.below.has_parent_path() ? file.below.begin()->string() : "";
}

absl::StatusOr<std::set<std::string>> ClassesIn(const DataFiles& files) {
  std::set<std::string> classes;
  for (const DataFile& file : files) {
    const std::string name = ClassOf(file.place);
    if (name.empty())
      return Bad(*file.source,
                 "it lies in no folder of a class; the folders in one of data.paths are the "
                 "classes, and images lie in them");
    classes.insert(name);
  }
  return classes;
}

// Each folder right below an item of data.paths is a class. One without an image would move the
// numbers of those behind it where images come later, or where they lie on another machine.
absl::Status CheckFolders(const DataSpec& data, const std::set<std::string>& classes) {
  for (const std::string& item : data.paths) {
    std::error_code error;
    std::filesystem::directory_iterator listed(item, error);
    if (error) continue;  // a file, or the walk has told of it
    for (const std::string& name : NamesIn(std::move(listed), error)) {
      const std::filesystem::path folder = std::filesystem::path(item) / name;
      if (classes.count(name) > 0 ||
          !std::filesystem::is_directory(std::filesystem::symlink_status(folder, error)) ||
          !OurOwnAround(folder).empty())
        continue;
      return absl::DataLossError(
          absl::StrCat("data.paths: ", folder.string(), " holds no image",
                       data.suffixes.empty() ? "" : " of data.suffixes",
                       ", and each folder there is a class; put images in it, or take it away"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredSet> Opened(const DataFiles& files, const std::set<std::string>& classes,
                                 const DataSpec& data) {
  std::map<absl::string_view, int64_t> numbers;
  for (const std::string& name : classes)
    numbers.emplace(name, static_cast<int64_t>(numbers.size()));
  std::vector<EncodedImage> images;
  for (const DataFile& file : files)
    images.push_back({file.source, numbers.at(ClassOf(file.place))});
  return MakeImageSet(std::move(images), true, data);
}

}  // namespace

absl::StatusOr<StoredSet> OpenImages(const DataFiles& files, const DataSpec& data) {
  MUSTER_ASSIGN_OR_RETURN(const std::set<std::string> classes, ClassesIn(files));
  MUSTER_RETURN_IF_ERROR(CheckFolders(data, classes));
  return Opened(files, classes, data);
}

absl::StatusOr<StoredSet> OpenImagesToMeasure(const DataFiles& files, const DataFiles& trained,
                                              const DataSpec& data) {
  MUSTER_ASSIGN_OR_RETURN(const std::set<std::string> classes, ClassesIn(trained));
  MUSTER_RETURN_IF_ERROR(ClassesIn(files).status());
  for (const DataFile& file : files)
    if (const std::string name = ClassOf(file.place); classes.count(name) == 0)
      return Bad(*file.source, absl::StrCat("its folder '", name.substr(0, 100),
                                            "' is no class in data.paths, and so the model does "
                                            "not know it"));
  MUSTER_ASSIGN_OR_RETURN(StoredSet stored, Opened(files, classes, data));
  Sha256 hash;
  for (const std::string& name : classes)
    hash.Update(BytesOf(absl::StrCat(name.size(), ":", name)));
  stored.names = hash.HexFinish();
  return stored;
}

}  // namespace muster
