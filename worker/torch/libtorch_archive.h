// Tensors as the archive that torch::save writes of a module, for torch::load in C++. No LibTorch
// in this header; a build without LibTorch has this function too.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "muster/tensor.h"

namespace muster::worker {

// Parts of a tensor's name between dots are the modules that it is in. `state` is that flat space.
// kFailedPrecondition: a name that such an archive cannot hold, or a build without LibTorch;
// kResourceExhausted: the disk is full, and half of the file is there. Others as OpenRegularFile
// and FileError (lib/base/whole_file.h).
absl::Status WriteLibTorchArchive(const FlatSpace& space, absl::Span<const float> state,
                                  const std::string& path);

}  // namespace muster::worker
