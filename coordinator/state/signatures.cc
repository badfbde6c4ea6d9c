#include "coordinator/state/signatures.h"

#include <set>

#include "coordinator/state/job_state.h"

namespace muster::coordinator {

std::optional<Incarnation> SignedLast(const Signatures& all, PlacementNumber placement) {
  for (auto it = all.rbegin(); it != all.rend(); ++it)
    if (it->second.placement == placement) return it->first;
  return std::nullopt;
}

std::string WhyNotSigned(const Signatures& all, Incarnation process, const Signature& asked) {
  if (process == Incarnation{}) return "a process has an incarnation";
  const std::optional<Incarnation> last = SignedLast(all, asked.placement);
  if (last && process < *last) return "a later process of its place has a certificate";
  const auto known = all.find(process);
  if (known == all.end() || known->second == asked) return "";
  return "this incarnation has a certificate for another key, place or host";
}

bool AddSignature(JobJournal& job, Incarnation process, const Signature& asked) {
  if (!job.signatures.emplace(process, asked).second) return false;
  std::set<PlacementNumber> places;
  for (const auto& [name, placement] : job.placements) places.insert(placement.number);
  std::set<Incarnation> old;  // the oldest first
  for (auto it = job.signatures.rbegin(); it != job.signatures.rend(); ++it)
    if (places.erase(it->second.placement) == 0) old.insert(it->first);
  while (old.size() > kMostOldSignatures) {
    job.signatures.erase(*old.begin());
    old.erase(old.begin());
  }
  return true;
}

bool IsSignedLast(const JobJournal& job, const Join& join) {
  return join.placement == PlacementNumber() ||
         SignedLast(job.signatures, join.placement) == join.id.incarnation;
}

// A name that nobody is placed under is one of the coordinator's own slots.
std::string WhyNotTold(const JobJournal& job, const ProcessName& process) {
  const Placement* placement = PlacementOf(job, process.name);
  const PlacementNumber number = placement == nullptr ? PlacementNumber() : placement->number;
  if (process.placement != number) return "another placement has taken this member's place";
  if (number == PlacementNumber() || SignedLast(job.signatures, number) == process.incarnation)
    return "";
  return "a later process of its placement has a certificate";
}

std::optional<ProcessExited> SaidByHost(const JobJournal& job, ProcessExited exited,
                                        const std::string& host) {
  const auto signature = job.signatures.find(exited.lanes.incarnation);
  const bool is_its_process = signature != job.signatures.end() && signature->second.host == host;
  const Placement* placement = PlacementOf(job, exited.name);
  const bool is_its_place =
      placement != nullptr && placement->host == host && placement->number == exited.placement;
  if (!is_its_process && !is_its_place) return std::nullopt;
  if (!is_its_process) exited.lanes = {};
  if (!is_its_place) exited.start = StartNumber();  // only its lanes count
  return exited;
}

}  // namespace muster::coordinator
