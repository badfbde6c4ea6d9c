#include "lib/base/own_folder.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"
#include "lib/base/whole_file.h"

namespace muster {
namespace fs = std::filesystem;

absl::Status MarkOwnFolder(const std::string& folder) {
  const std::string mark = absl::StrCat(folder, "/", kOwnFolderMark);
  if (access(mark.c_str(), F_OK) == 0) return absl::OkStatus();
  return ReplaceFile(mark, "Muster keeps a run here; walks through training data leave it out.\n");
}

absl::Status CheckOwnFolder(const std::string& folder) {
  std::error_code error;
  if (fs::exists(absl::StrCat(folder, "/", kOwnFolderMark), error)) return absl::OkStatus();
  std::string foreign;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    // What is made before the folder has its mark.
    const bool is_begun = name == kOwnFolderLock || absl::StartsWith(name, kOwnFolderMark) ||
                          absl::StartsWith(name, kProbePrefix);
    if (!is_begun && (foreign.empty() || name < foreign)) foreign = name;
  }
  if (foreign.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(folder, " holds other files (", Printable(foreign),
                   ") and was not made by muster: give a --dir that is empty or does not exist"));
}

}  // namespace muster
