// Whom a member obeys: the coordinators of one cluster, of which the newest counts. Plain values.
#pragma once

#include <string>

#include "lib/domain/message.h"
#include "lib/member/state/config.h"

namespace muster {

struct Obeyed {
  std::string cluster;  // empty: not known yet
  TermNumber term;      // the highest that was heard

  // Why a message counts for nothing; empty: it counts, and its term from now on. Terms of another
  // cluster are no terms of ours. A coordinator of an earlier term lives on without knowing that
  // another has taken its place.
  std::string WhyNot(const FromCoordinator& message) {
    const std::string from = ClusterOf(message);
    if (!from.empty() && !cluster.empty() && from != cluster) return "another cluster";
    if (TermOf(message) < term) return "an older term";
    term = TermOf(message);
    return "";
  }
};

// What introduces a member, in each new session, without what it holds.
inline Join IntroductionOf(const MemberConfig& config, const Obeyed& obeyed) {
  Join join;
  join.job = config.job;
  join.start = config.start;
  join.placement = config.placement;
  join.id = config.id;
  join.role = config.role;
  join.node = config.node;
  join.address = config.address;
  join.cluster = obeyed.cluster;
  join.term = obeyed.term;
  join.environment = config.environment;
  return join;
}

}  // namespace muster
