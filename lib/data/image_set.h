// Data sets of encoded images: muster-decoder decodes them when they are read.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/decoder_process.h"
#include "lib/data/stored_set.h"
#include "muster/data_set.h"

namespace muster {

// Fields: "image", bytes of (channels, height, width), and "label", int64, with `has_label`. Sizes,
// fit and channels as `data` says. Its hash is of the encoded bytes, the labels and the decoders'
// versions. kInvalidArgument: no image. kFailedPrecondition, kDataLoss: as OpenDataSet. kInternal:
// there is no muster-decoder.
absl::StatusOr<StoredSet> MakeImageSet(
    std::vector<EncodedImage> images, bool has_label, const DataSpec& data,
    std::shared_ptr<Decoders> decoders = std::make_shared<Decoders>());

}  // namespace muster
