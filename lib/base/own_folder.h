// Folders that Muster itself fills, such as that of a run, hold a file of this name: whoever walks
// through training data leaves them out.
#pragma once

namespace muster {

inline constexpr char kOwnFolderMark[] = "muster-folder";

}  // namespace muster
