// A hash that processes of one machine compute once, however many begin at the same time: one holds
// a lock beside the place of the kept hash (kept_hash.h), which the system frees when it ends in
// whatever way; the others wait, and see how far it is. Only whole hashes are ever found.
//
//   KEY        the kept hash
//   KEY.lock   held by whoever computes it; holds what that one says (so_far_file.h)
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "lib/data/prepare_once.h"

namespace muster {

struct HashOnceOptions {
  std::string folder;  // of kept hashes; empty: there are none
  std::string key;
  std::string about;   // a line for people
  bool finds = false;  // one that is kept does
  bool keeps = false;  // one that is computed is kept, and so others wait for it
  std::function<absl::StatusOr<std::string>(
      const std::function<void(uint64_t bytes, uint64_t all)>& told)>
      compute;
  // How far it is, ours (once it has taken so long) or another's, five times a second at most.
  std::chrono::milliseconds quiet_for{0};
  std::function<void(const PreparedSoFar&)> told = [](const PreparedSoFar&) {};
  // Whether it is of use to wait on for another's.
  std::function<bool()> may_wait = [] { return true; };
};
struct HashedOnce {
  std::string hash;
  bool was_kept = false;
};
// Errors of `compute` pass through, and keep nothing. That a hash cannot be kept, or that nobody
// can be waited for, is no error: then it is computed here. kCancelled: waiting was of no use any
// more.
absl::StatusOr<HashedOnce> HashOnce(const HashOnceOptions& options);

}  // namespace muster
