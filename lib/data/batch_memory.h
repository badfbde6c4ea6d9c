// The memory of batches. Any thread.
#pragma once

#include <cstddef>

namespace muster {

inline constexpr size_t kBatchAlignment = 64;

// std::bad_alloc where there is none. Of large ones the last one that was given back is there for
// the next one that is about as large: memory that is new to a process is cleared by the system,
// page by page, which can cost as much as all that is then written to it.
std::byte* TakeBatchMemory(size_t bytes);
void GiveBatchMemory(std::byte* memory);

}  // namespace muster
