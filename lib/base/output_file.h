// The file that a person names for what a command makes, as -o does. What stands there already is
// replaced whole; of a symbolic link, the file that it leads to. No error names another file than
// that one. One command at a time writes it: another is refused at once, as kFailedPrecondition,
// and says so; so no two of them are mixed.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// kFailedPrecondition: no file can be made there, and what to do is said. For commands that read
// for a while before they write.
absl::Status CheckOutputFile(const std::string& path);

// Likewise of a folder that is to be new; those that would hold it may be missing, too.
absl::Status CheckOutputFolder(const std::string& path);

// Likewise of one that may be there, and gets more files.
absl::Status CheckFolderToFill(const std::string& path);

// As ReplaceFile and ReplaceFileBy (lib/base/whole_file.h), once the path is checked. The temporary
// file is there already, and locked: `write` cuts it and writes into it, and puts no other in its
// place. A signal that ends the process meanwhile removes it (lib/base/removed_on_signal.h).
absl::Status WriteOutputFile(const std::string& path, absl::string_view content);
absl::Status WriteOutputFileBy(
    const std::string& path,
    const std::function<absl::Status(const std::string& temporary)>& write);

// A folder that `write` fills under a temporary name, in which a crash may leave something; the
// next time replaces that.
absl::Status WriteOutputFolderBy(
    const std::string& path,
    const std::function<absl::Status(const std::string& temporary)>& write);

}  // namespace muster
