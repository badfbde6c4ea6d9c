// Data sets of encoded images: decoded when they are read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/stored_set.h"
#include "muster/data_set.h"

namespace muster {

// Fields: "image", bytes of (channels, height, width), and "label", int64, with `has_label`. Sizes,
// fit and channels as `data` says. Its hash is of the encoded bytes, the labels and the decoders'
// versions. kInvalidArgument: no image. kFailedPrecondition, kDataLoss: as OpenDataSet.
absl::StatusOr<std::unique_ptr<StoredDataSet>> MakeImageSet(std::vector<EncodedImage> images,
                                                            bool has_label, const DataSpec& data);

}  // namespace muster
