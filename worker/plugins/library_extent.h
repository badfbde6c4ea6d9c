// Whether the file of a shared library is there as a whole. dlopen maps what the file's own tables
// tell, and a process that touches a page behind the file's end is killed (SIGBUS): so a library
// that was half copied must not get there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace muster::worker {

class LibraryExtent {
 public:
  // The file's next bytes.
  void Add(absl::Span<const std::byte> piece);
  // After the last ones. kInvalidArgument: its tables tell of more bytes than there were. Of what
  // is no ELF file of 64 bits, or has not even a header, dlopen itself says what is wrong.
  absl::Status Check() const;

 private:
  uint64_t size_ = 0;
  std::string header_;
  std::string programs_;  // the table of program headers, as far as it was there
};

}  // namespace muster::worker
