// URLs that an operator names as places where something is sent to. Pure.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Why nothing is sent there; empty: it may be, as it is https, or plain text on loopback.
// `example`: what one looks like; `without_user`: why it needs no user and no password, and what to
// do instead. "is no URL, as in …".
std::string WhyNotSentTo(const std::string& url, absl::string_view example,
                         absl::string_view without_user);

}  // namespace muster
