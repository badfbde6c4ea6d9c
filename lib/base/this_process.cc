#include "lib/base/this_process.h"

#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lib/base/whole_file.h"

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

std::string NodeOf(absl::string_view boot, uint64_t network) {
  constexpr size_t kDigits = 12;  // of a thousand machines no two have the same, but for luck
  std::string digits;
  for (const char c : boot)
    if (absl::ascii_isxdigit(static_cast<unsigned char>(c)) && digits.size() < kDigits)
      digits.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
  return digits.size() < kDigits ? "" : absl::StrFormat("%s-%08x", digits, network);
}

std::string OwnNode() {
  struct stat network {};
  const bool is_known = stat("/proc/self/ns/net", &network) == 0;
  const std::string node = NodeOf(ReadWholeFile("/proc/sys/kernel/random/boot_id").value_or(""),
                                  is_known ? network.st_ino : 0);
  return node.empty() ? HostName() : node;
}

}  // namespace muster
