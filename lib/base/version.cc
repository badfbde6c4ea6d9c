#include "lib/base/version.h"

namespace muster {

const char kVersion[] = MUSTER_VERSION;
const int32_t kProtocol = 1;
const int32_t kOldestProtocol = 1;

}  // namespace muster
