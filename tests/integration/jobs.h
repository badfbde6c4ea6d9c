// The jobs of these tests, small enough to run by the dozen, and what must hold after any of them.
#pragma once

#include <functional>
#include <string>

#include "tests/integration/cluster.h"

namespace muster::integration {

// `epochs` over `samples` ids; a prime number divides by neither batch nor lanes.
std::string CountingSpec(int samples, int lanes, int epochs);
// The digest of the state in which every weight is `value`.
std::string CountingDigest(int samples, float value);

// A byte-level Transformer of some thirty chunks on text that is written to `data`: AdamW, clipping
// and dropout, so that optimizer slots, the global norm and generators count.
std::string LanguageSpec(const std::string& data, int lanes, int steps);
// Its digest after an undisturbed run of one worker.
std::string UndisturbedDigest(const std::string& spec, const std::string& dir);

// Done, and each sample used once per epoch.
void ExpectDone(const TrainRun& run, const std::string& dir);
// Besides, with this digest.
void ExpectSameBits(const TrainRun& run, const std::string& dir, const std::string& digest);
// The job gives the same bits on 1, 2 and 3 workers, of which the second is killed in
// its ninth lane; each in its `dir` with "-WORKERS" behind it. `also` looks at each run.
void ExpectSameBitsOnAnyNumber(const TrainOptions& job,
                               const std::function<void(const TrainRun&)>& also = {});
// Every lane that was run is a lane of a step or was told to be computed again.
void ExpectLanesAddUp(const TrainRun& run, const std::string& dir, int lanes);
// At which step the first view of a run goes on; -1: none did.
int64_t FirstStepOf(const TrainRun& run);
// Workers were lost, and nobody went back for it.
void ExpectNoWayBack(const TrainRun& run, const std::string& dir);

}  // namespace muster::integration
