// A file in memory, of a disk that may be full.
#pragma once

#include <string>

#include "lib/checkpoint/files.h"

namespace muster {

class InMemory final : public Appender {
 public:
  absl::Status Append(absl::Span<const std::byte> bytes) override {
    file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return file.size() < most ? absl::OkStatus() : absl::ResourceExhaustedError("the disk is full");
  }
  std::string file;
  size_t most = size_t{1} << 30;
};

}  // namespace muster
