// A Frame as a gRPC message and back. The only file that knows the layout
// [u32 header length, little-endian][header][payload] and how memory is lent to gRPC.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/statusor.h"
#include "lib/transport/transport.h"

namespace muster {

inline constexpr size_t kFramePrefixBytes = 4;
inline constexpr size_t kMaxMessageBytes = kFramePrefixBytes + kMaxHeaderBytes + kMaxPayloadBytes;

// The payload is pointed at, not copied; gRPC holds copies of `payload.keep` until it is done.
grpc::ByteBuffer EncodeFrame(const Frame& frame);

// The payload points into the message; its `keep` holds what of that has payload. kInvalidArgument:
// the message is shorter than it says; kResourceExhausted: above the limits of a frame.
absl::StatusOr<Frame> DecodeFrame(const grpc::ByteBuffer& message);

}  // namespace muster
