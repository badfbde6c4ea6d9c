// What is wanted of a member's outcome.
#pragma once

#include <variant>
#include <vector>

#include "lib/member/state/member.h"

namespace muster {

template <class A>
std::vector<A> Of(const Outcome& outcome) {
  std::vector<A> found;
  for (const Action& action : outcome.actions)
    if (const auto* a = std::get_if<A>(&action)) found.push_back(*a);
  return found;
}

template <class M>
std::vector<M> Told(const Outcome& outcome) {
  std::vector<M> found;
  for (const TellCoordinator& tell : Of<TellCoordinator>(outcome))
    if (const auto* m = std::get_if<M>(&tell.message)) found.push_back(*m);
  return found;
}

}  // namespace muster
