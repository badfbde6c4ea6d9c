#include "lib/base/this_process.h"

#include <unistd.h>

#include <random>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace muster {

Incarnation DrawIncarnation() {
  std::random_device random;
  return {static_cast<uint64_t>(absl::ToUnixMicros(absl::Now())),
          (static_cast<uint64_t>(random()) << 32) | random()};
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && name[0] != 0 ? name : "localhost";
}

}  // namespace muster
