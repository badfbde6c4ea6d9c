// Manifests and segments as bytes and as protobuf.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/domain/manifest.h"
#include "muster/v1/checkpoint.pb.h"

namespace muster {

v1::Segment ToProto(const Segment& segment);
v1::Manifest ToProto(const Manifest& manifest);

// kInvalidArgument: a number out of range, an unsafe file name; the message names the field.
// Whether the parts are complete is CheckComplete's question (lib/domain/manifest.h).
absl::StatusOr<Segment> FromProto(const v1::Segment& message);
absl::StatusOr<Manifest> FromProto(const v1::Manifest& message);

// The catalogue's form: 4 bytes CRC32C, little-endian, of the rest; the rest is a v1::Manifest.
std::string EncodeManifest(const Manifest& manifest);
absl::StatusOr<Manifest> DecodeManifest(absl::string_view bytes);  // kDataLoss

}  // namespace muster
