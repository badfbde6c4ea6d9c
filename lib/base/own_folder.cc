#include "lib/base/own_folder.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "lib/base/whole_file.h"

namespace muster {

absl::Status MarkOwnFolder(const std::string& folder) {
  const std::string mark = absl::StrCat(folder, "/", kOwnFolderMark);
  if (access(mark.c_str(), F_OK) == 0) return absl::OkStatus();
  return ReplaceFile(mark, "Muster keeps a run here; walks through training data leave it out.\n");
}

}  // namespace muster
