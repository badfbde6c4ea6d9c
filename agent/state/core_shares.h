// Which processor cores each member of a host runs on: each slot has an equal share of those that
// the host has, one after the other, so that members do not take each other's caches. Lives as long
// as the host's agent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "agent/state/actions.h"

namespace muster::agent {

class CoreShares {
 public:
  // With fewer cores than slots, or without cores, nobody is bound.
  CoreShares(std::vector<int> cores, int slots)
      : cores_(std::move(cores)), holders_(static_cast<size_t>(slots)) {}

  // For a member that is about to start: the share of the first free slot, or of its own. Empty: it
  // is not bound.
  std::vector<int> Take(const ProcessKey& key) {
    auto holder = std::find(holders_.begin(), holders_.end(), key);
    if (holder == holders_.end()) holder = std::find(holders_.begin(), holders_.end(), kNobody);
    if (holder == holders_.end() || cores_.size() < holders_.size()) return {};
    *holder = key;
    const auto slot = static_cast<size_t>(holder - holders_.begin());
    const auto from = [this](size_t s) {
      return cores_.begin() + static_cast<std::ptrdiff_t>(s * cores_.size() / holders_.size());
    };
    return {from(slot), from(slot + 1)};
  }
  void Free(const ProcessKey& key) { std::replace(holders_.begin(), holders_.end(), key, kNobody); }

 private:
  inline static const ProcessKey kNobody{};

  const std::vector<int> cores_;
  std::vector<ProcessKey> holders_;  // by slot
};

}  // namespace muster::agent
