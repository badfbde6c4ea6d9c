// How good the states of committed checkpoints are, as far as records tell. Pure.
#pragma once

#include <vector>

#include "coordinator/state/actions.h"
#include "coordinator/state/recent_steps.h"

namespace muster::coordinator {

// A state is measured in the step after it, whose record may come before the checkpoint of the
// state is committed, or after: both times all is told that is known. A coordinator that starts
// tells it again, also of a job that is over: the one before may have ended between the last record
// and the writing.
std::vector<Action> MeasuresToSave(const JobJournal& job, const std::vector<Manifest>& committed,
                                   const RecentSteps& recent);

}  // namespace muster::coordinator
