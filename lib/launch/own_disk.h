// Whether what lies in a folder is lost with this machine.
#pragma once

#include <cstdint>
#include <string>

namespace muster {

// Of a kind of file system, as statfs(2) tells it: other machines do not see it unless this one
// serves it. False: they do, or nobody knows (a file system of a program, one that came later).
bool IsOfOneMachine(int64_t kind);

// Of a folder that exists. What cannot be looked at is not said to be on the machine's own disk.
bool LiesOnOwnDisk(const std::string& folder);

}  // namespace muster
