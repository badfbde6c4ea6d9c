// What is looked for among the actions of a job's or a coordinator's state machine.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "coordinator/state/actions.h"

namespace muster::coordinator {

template <class A>
std::vector<A> Of(const std::vector<Action>& actions) {
  std::vector<A> found;
  for (const Action& action : actions)
    if (const auto* a = std::get_if<A>(&action)) found.push_back(*a);
  return found;
}

// Who is told such a message, and what it says.
template <class M>
std::vector<std::pair<MemberId, M>> Said(const std::vector<Action>& actions) {
  std::vector<std::pair<MemberId, M>> found;
  for (const Action& action : actions) {
    if (const auto* to = std::get_if<ToMember>(&action))
      if (const auto* m = std::get_if<M>(&to->message)) found.emplace_back(to->member, *m);
    if (const auto* to = std::get_if<ToMembers>(&action))
      if (const auto* m = std::get_if<M>(&to->message))
        for (const MemberId& member : to->members) found.emplace_back(member, *m);
  }
  return found;
}

}  // namespace muster::coordinator
