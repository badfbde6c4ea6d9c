// What data takes of this process's memory: CSV, text, and whatever was packed.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// A part of the memory that data may have, which is given back where this ends. All data sets of
// this process together may have half of what the process may have: those that it trains with and
// those that it measures with are there at the same time.
class DataMemory {
 public:
  DataMemory() = default;
  ~DataMemory();
  DataMemory(DataMemory&& other) noexcept;
  DataMemory& operator=(DataMemory&& other) noexcept;

  // So many bytes more. kResourceExhausted: there are not so many left; the message begins with
  // `what`, a file's name, and nothing is taken.
  absl::Status Take(absl::string_view what, uint64_t bytes);

  // Of all of it, now.
  static uint64_t Left();

 private:
  uint64_t bytes_ = 0;
  uint64_t most_ = 0;  // of all together; asked for once, since files of the system tell it
};

}  // namespace muster
