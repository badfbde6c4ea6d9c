// Claims of terms in the folder of checkpoints (docs/decisions/0062-claimed-terms.md), as plain
// values: coordinator/runtime/checkpoint_root.h reads and makes their files.
#pragma once

#include <string>

#include "lib/base/ids.h"

namespace muster::coordinator {

// A claim as its file and the journal have it: "7 2f…", a term, and what tells two claims of it
// apart.
std::string ClaimOf(TermNumber term, const std::string& token);
// Nothing was claimed: term 0.
TermNumber TermOfClaim(const std::string& claim);

// The latest claim in the folder is none of our journal, which is an older copy. `latest`: as its
// file has it; empty: there is none. `ours`: what the journal claimed last.
bool IsOfAnother(const std::string& latest, const std::string& ours);

// One that has begun this term is not the coordinator any more.
inline bool IsReplaced(TermNumber latest, TermNumber own) { return latest > own; }

}  // namespace muster::coordinator
