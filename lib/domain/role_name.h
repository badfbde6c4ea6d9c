// What a member is, for people and for labels. Pure.
#pragma once

#include <string>

#include "lib/domain/view.h"

namespace muster {

inline std::string NameOfRole(Role role) {
  switch (role) {
    case Role::kWorker: return "worker";
    case Role::kServer: return "server";
    case Role::kFollower: return "follower";
    case Role::kReader: return "reader";
  }
  return "member";
}

}  // namespace muster
