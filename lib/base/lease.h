// The lease of a member: whoever is silent for longer counts as lost. The coordinator and the
// members of a job are given the same one, in milliseconds.
#pragma once

#include <chrono>

namespace muster {

inline constexpr std::chrono::milliseconds kDefaultLease{1500};
inline constexpr std::chrono::milliseconds kShortestLease{100};
inline constexpr std::chrono::milliseconds kLongestLease{600'000};

}  // namespace muster
