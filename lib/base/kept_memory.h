// How the allocator treats what this process frees.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <climits>
#include <cstddef>

namespace muster {

// Large blocks that are freed are kept for the next ones, up to so many bytes. Given back to the
// system, as glibc does with all above 128 KiB, each would cost its page faults again: more than
// what is done with most of them. For the whole process.
inline void KeepFreedMemory(size_t bytes) {
  constexpr int kMostThatGlibcTakes = 32 << 20;
  mallopt(M_MMAP_THRESHOLD, kMostThatGlibcTakes);
  mallopt(M_TRIM_THRESHOLD, static_cast<int>(std::min<size_t>(bytes, INT_MAX)));
}

}  // namespace muster
