// What a member is, for people and for labels. Pure.
#pragma once

#include <string>

#include "lib/domain/view.h"

namespace muster {

inline std::string NameOfRole(Role role) {
  return role == Role::kWorker ? "worker" : role == Role::kServer ? "server" : "follower";
}

}  // namespace muster
