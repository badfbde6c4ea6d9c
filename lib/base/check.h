// CHECK is for our own broken invariants, never for a byte from outside. It says where, why, and
// aborts.
#pragma once

#include <cstdio>
#include <cstdlib>

#define MUSTER_CHECK(condition, ...)                                                           \
  do {                                                                                         \
    if (!(condition)) [[unlikely]] {                                                           \
      std::fprintf(stderr, "%s:%d: broken invariant: %s %s\n", __FILE__, __LINE__, #condition, \
                   "" __VA_ARGS__);                                                            \
      std::abort();                                                                            \
    }                                                                                          \
  } while (false)
