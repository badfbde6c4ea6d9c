// What names this process among others.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "lib/base/ids.h"

namespace muster {

// When the process began, so that of two of one name on one host the later is known; and a random
// number, so that no two are the same.
Incarnation DrawIncarnation();

std::string HostName();  // of the machine; "localhost" where it has none

// What tells the node of this process from all others, whatever their names: processes with one
// kernel that see one network share it. Where the kernel does not tell which boot it is, the name
// of the machine.
std::string OwnNode();
// The same of that boot (/proc/sys/kernel/random/boot_id) and inode of the network namespace, 0
// where it is not known: twelve hexadecimal digits of the boot, and eight of the inode. Empty: that
// is no boot.
std::string NodeOf(absl::string_view boot, uint64_t network);

}  // namespace muster
