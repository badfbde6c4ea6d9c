// Two versions after this one: it does not understand any more what this one says.
#include "lib/base/version.h"

namespace muster {

const char kVersion[] = "9.2.0";
const int32_t kProtocol = 3;
const int32_t kOldestProtocol = 3;

}  // namespace muster
