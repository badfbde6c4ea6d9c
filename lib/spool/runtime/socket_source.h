// A UNIX socket on which a sender brings a stream (lib/spool/state/sender_bytes.h says how they
// speak). One connection at a time, of a process of our own user; others wait, or are closed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/spool/runtime/stream_source.h"

namespace muster {

struct SocketSourceOptions {
  // A sender that is silent for so long within a sample, while we would read, is given up.
  Duration patience = std::chrono::seconds(60);
  const Clock* clock = nullptr;  // outlives the source
  // Why a connection was closed, for people.
  std::function<void(const std::string& why)> told = [](const std::string&) {};
};

// Nothing is opened before Start. A socket that nobody listens on any more is replaced; with the
// source the socket goes. kInvalidArgument: the path is too long for one; kFailedPrecondition:
// something else lies there; kUnavailable: another process listens on it; others as FileError.
std::unique_ptr<StreamSource> MakeSocketSource(std::string path, uint64_t sample_bytes,
                                               SocketSourceOptions options);

}  // namespace muster
