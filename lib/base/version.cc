#include "lib/base/version.h"

namespace muster {

const char kVersion[] = MUSTER_VERSION;

}  // namespace muster
