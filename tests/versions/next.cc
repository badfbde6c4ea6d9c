// The version after this one: it has changed what it says, and still understands what this one
// says.
#include "lib/base/version.h"

namespace muster {

const char kVersion[] = "9.1.0";
const int32_t kProtocol = 2;
const int32_t kOldestProtocol = 1;

}  // namespace muster
