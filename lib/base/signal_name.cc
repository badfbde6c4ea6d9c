#include "lib/base/signal_name.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace muster {

std::string SignalName(int signal) {
  const char* short_name = sigabbrev_np(signal);
  return short_name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", short_name);
}

}  // namespace muster
