// Files whose content is held in memory while a job runs. One that changes is noticed, as one that
// is read in place is: what a job learns from is what its files hold.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/data/byte_source.h"
#include "lib/data/data_memory.h"

namespace muster {

// Looks at a few of these files each time, in turn, so that all are looked at again and again
// however many they are. kDataLoss as ReadEach. Any thread.
std::function<absl::Status()> CheckInTurn(std::vector<SourcePtr> files);

// Bytes in memory that are read only where `check`, which tells of the files they come from,
// succeeds. `memory`: as of a MemorySource.
SourcePtr HeldSource(std::string name, std::string bytes, std::function<absl::Status()> check,
                     DataMemory memory = {});

}  // namespace muster
