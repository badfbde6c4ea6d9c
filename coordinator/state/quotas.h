// How much the jobs of a namespace may hold. Plain values, journalled whole; they live until
// somebody sets others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace muster::coordinator {

struct Quota {
  std::optional<int32_t> slots;   // that its running jobs hold; nothing: as many as there are
  std::optional<int32_t> queued;  // of its jobs wait; nothing: as many as are kept
  int32_t priority = 0;           // the highest that its submitters may give
  bool operator==(const Quota&) const = default;
  bool is_none() const { return *this == Quota{}; }
};
inline constexpr int32_t kMostQuota = 1'000'000;
using Quotas = std::map<std::string, Quota>;  // by namespace; not named: none

// Of which somebody may set quotas: each is kept.
inline constexpr size_t kMostQuotas = 1000;

}  // namespace muster::coordinator
