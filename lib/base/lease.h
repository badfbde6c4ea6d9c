// How long a member may be silent (its lease, in milliseconds), and how long one of its threads may
// stand still in its work (the thread patience, in seconds), before it counts as lost. The
// coordinator and the members of a job are given the same ones.
#pragma once

#include <chrono>

namespace muster {

inline constexpr std::chrono::milliseconds kDefaultLease{1500};
// A quarter of it is a time in which the coordinator stood still (lib/base/awake_clock.h), which
// looks every 50 ms. With a lease of a few times that it would find itself standing still always.
inline constexpr std::chrono::milliseconds kShortestLease{500};
inline constexpr std::chrono::milliseconds kLongestLease{600'000};

// An attempt of a member to reach the coordinator takes at most so long.
inline constexpr std::chrono::seconds kCoordinatorConnectTimeout{2};

inline constexpr std::chrono::seconds kDefaultThreadPatience{120};
inline constexpr std::chrono::seconds kShortestThreadPatience{1};
inline constexpr std::chrono::seconds kLongestThreadPatience{86'400};

}  // namespace muster
