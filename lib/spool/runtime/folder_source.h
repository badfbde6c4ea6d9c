// A folder that grows, as the source of a stream (lib/spool/state/folder_order.h says which files
// are taken, and when).
#pragma once

#include <memory>
#include <string>

#include "lib/spool/runtime/stream_source.h"

namespace muster {

// Nothing is opened yet. Where a file ends within a sample, comes too late, is no file, is the end
// and not empty, or is changed or removed before all of it is taken: kDataLoss, and the message
// names it. kFailedPrecondition: the path is of no folder. A folder that cannot be read is as
// FileError says.
std::unique_ptr<StreamSource> MakeFolderSource(std::string folder, uint64_t sample_bytes);

}  // namespace muster
