// Which peers a member names as out of its reach in its next word to the coordinator (docs/hosts.md
// section 8). Pure; lives as long as its life signs.
#pragma once

#include <algorithm>
#include <set>
#include <utility>

#include "lib/domain/message.h"

namespace muster {

// The coordinator counts how long a peer is named without a pause. One that was reached again since
// the last word is not named in the next, though it is missed once more: a session that breaks
// again and again is made again each time, and no way is cut.
class MissedPeers {
 public:
  // Each time that they change: whom we miss now.
  void Note(Unreachable missed) {
    if (missed.view != missed_.view)
      back_.clear();
    else
      for (const int32_t peer : missed_.members)
        if (!std::binary_search(missed.members.begin(), missed.members.end(), peer))
          back_.insert(peer);
    missed_ = std::move(missed);
  }
  const Unreachable& missed() const { return missed_; }
  // What the word says that is made now.
  Unreachable Name() {
    Unreachable named = missed_;
    std::erase_if(named.members, [this](int32_t peer) { return back_.count(peer) > 0; });
    back_.clear();
    return named;
  }

 private:
  Unreachable missed_;
  std::set<int32_t> back_;  // since the last word
};

}  // namespace muster
