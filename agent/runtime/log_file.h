// The file to which a process of this host prints, NAME.log, and the part of its log before that,
// NAME.log.1. The process writes into the file itself (process.h), so that it never waits for us,
// and nobody can give it another file while it runs. So the log is cut in place: what is there is
// copied, then the file is made empty, and as the process appends, it goes on at its beginning.
// What it prints between the last byte that is copied and the cut is lost.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace muster::agent {

// Of one file; a log takes at most twice that.
inline constexpr off_t kMostLogBytes = off_t{16} << 20;

// The part of the log before the file.
std::string OlderLog(const std::string& path);

// Of a process that is about to start: what others of its name printed becomes the older part, if
// it is half of what a file may have. How many bytes the file has now; -1: it cannot be looked at.
off_t BeginLog(const std::string& path, off_t most = kMostLogBytes);

// Of a process that may run: cuts the file if it is too large. Without room for a copy what is
// there is dropped: a full disk is no reason to let it grow. True: it is empty now.
bool CutLog(const std::string& path, off_t most = kMostLogBytes);

}  // namespace muster::agent
