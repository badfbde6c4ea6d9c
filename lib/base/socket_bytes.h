// Whole messages over a connected socket that blocks, between two processes of ours.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace muster {

// Fills all of `to`. False: whoever is at the other end has closed it, or is gone.
bool ReceiveAll(int socket, void* to, size_t bytes);
// Likewise.
bool SendAll(int socket, absl::string_view bytes);

}  // namespace muster
