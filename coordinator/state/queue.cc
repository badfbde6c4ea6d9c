#include "coordinator/state/queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::coordinator {
namespace {

std::string Slots(int32_t count) { return absl::StrCat(count, count == 1 ? " slot" : " slots"); }

// How many slots later jobs may still take, so that the head finds room once the jobs that were
// submitted before it have ended.
int32_t LeftForPassing(const QueueInput& input, const QueuedJob& head) {
  int32_t left = input.total - head.least;
  for (const HeldSlots& job : input.held)
    if (job.submission > head.submission) left -= job.slots;
  return std::max(0, left);
}

std::string WhyItWaits(const QueueInput& input, const QueuedJob& job, int32_t free,
                       const QueuedJob* head) {
  if (!input.has_agents) return "waits for a host agent";
  if (job.least > input.total)
    return absl::StrCat("needs ", Slots(job.least), "; the cluster has ", input.total);
  if (job.least > free)
    return absl::StrCat("needs ", Slots(job.least), "; ", free, " of ", input.total, " are free");
  if (head == nullptr) return "waits for its turn";
  return absl::StrCat("needs ", Slots(job.least), "; they are kept for ", head->id,
                      ", which was submitted before");
}

}  // namespace

QueueDecision DecideQueue(QueueInput input) {
  std::sort(input.queued.begin(), input.queued.end(),
            [](const QueuedJob& a, const QueuedJob& b) { return a.submission < b.submission; });
  int32_t free = input.total;
  for (const HeldSlots& job : input.held) free -= job.slots;
  free = std::max(0, free);
  QueueDecision decision;
  const QueuedJob* head = nullptr;
  for (const QueuedJob& job : input.queued) {
    const bool could_fit = job.least <= input.total;
    const int32_t room = head == nullptr ? free : std::min(free, LeftForPassing(input, *head));
    if (could_fit && job.least <= room && !decision.start) {
      decision.start = {job.id, std::min(job.most, room)};
      input.held.push_back({job.submission, decision.start->slots});
      free -= decision.start->slots;
      continue;
    }
    decision.reasons[job.id] = WhyItWaits(input, job, free, head);
    if (!could_fit && input.has_agents) decision.too_large.insert(job.id);
    if (could_fit && head == nullptr) head = &job;
  }
  return decision;
}

}  // namespace muster::coordinator
