#include <algorithm>
#include <set>
#include <utility>

#include "lib/base/status.h"
#include "lib/data/formats.h"
#include "lib/data/image_set.h"

namespace muster {
namespace {

// The folder right below the item of data.paths; of an item that is a file itself, the one around.
std::string ClassOf(const WalkedFile& file) {
  if (file.below.empty()) return file.path.parent_path().filename().string();
  return file.below.has_parent_path() ? file.below.begin()->string() : "";
}

}  // namespace

absl::StatusOr<StoredSet> OpenImages(const DataFiles& files, const DataSpec& data) {
  std::set<std::string> classes;
  for (const DataFile& file : files) {
    const std::string name = ClassOf(file.place);
    if (name.empty())
      return Bad(*file.source,
                 "it lies in no folder of a class; the folders in one of data.paths are the "
                 "classes, and images lie in them");
    classes.insert(name);
  }
  std::vector<EncodedImage> images;
  for (const DataFile& file : files) {
    const auto label = std::distance(classes.begin(), classes.find(ClassOf(file.place)));
    images.push_back({file.source, label});
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StoredDataSet> set,
                          MakeImageSet(std::move(images), true, data));
  return StoredSet{std::move(set), true, true};
}

}  // namespace muster
