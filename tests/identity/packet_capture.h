// All packets that this network namespace sends and gets, from the beginning until Stop. Needs
// root.
#pragma once

#include <string>
#include <thread>

#include "lib/base/descriptor.h"
#include "tests/identity/captured_streams.h"

namespace muster::identity {

// Gives the calling process, while it has one thread, a network of its own with loopback only.
// False: the kernel does not let us.
bool EnterOwnNetwork();

class PacketCapture {
 public:
  PacketCapture();
  ~PacketCapture() { Stop(); }
  PacketCapture(const PacketCapture&) = delete;
  PacketCapture& operator=(const PacketCapture&) = delete;

  // Why there is none, for people; empty: there is.
  const std::string& missing() const { return missing_; }
  // What came until now is in it.
  const CapturedStreams& Stop();
  // After Stop: packets that were lost, because they came faster than we read, or were more than we
  // keep. Nothing can be said of what was in them.
  int64_t lost() const { return lost_; }

 private:
  void Run();

  std::string missing_;
  Descriptor packets_;
  Descriptor stop_;
  CapturedStreams streams_;
  int64_t lost_ = 0;
  std::thread thread_;
};

}  // namespace muster::identity
