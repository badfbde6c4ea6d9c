// How a job's loss went, step by step, made of its ledger: so a rewind leaves no step twice.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/runtime/job_history.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/state/job_state.h"

namespace muster::coordinator {

// `recorded`: steps in the ledger. The row of a last state is `recorded` to who asks from a step
// on. kCancelled: `stop` was asked for.
absl::StatusOr<HistoryPage> ReadHistory(const Journal& journal, const JobJournal& job,
                                        Step recorded, const HistoryQuery& query,
                                        const std::stop_token& stop);

// The step and lineage of a line of metrics.jsonl; nothing: it is none, since no job has them.
struct HistoryPlace {
  int64_t step = 0;
  int64_t lineage = 0;
  std::optional<int64_t> last_state{};  // it is no step, but that state's
};
std::optional<HistoryPlace> PlaceInHistory(absl::string_view line);

}  // namespace muster::coordinator
