// The people of the simulation: they submit jobs, submit them again after a stop, a failure or a
// restart of the coordinator, now and then with other runtime fields; some are deleted once they
// have ended, and another takes the id. Lives as long as the world.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tests/sim/around.h"
#include "tests/sim/job.h"

namespace muster::sim {

class Client {
 public:
  // `ask` gives a request to the coordinator, and returns false when that is down.
  Client(Around around, std::function<bool(const coordinator::Input&)> ask)
      : around_(around), ask_(std::move(ask)) {}

  void Submit(SimJob& job);
  // The coordinator has started, so everybody asks again for what they wanted.
  void AskAgain(SimJob& job);
  // The coordinator has persisted the job.
  void Persisted(SimJob& job);
  void Stop(SimJob& job);
  void Cancel(SimJob& job);
  // Another number of workers while it runs.
  void Scale(SimJob& job);
  // Submits the job with other runtime fields.
  void SubmitChanged(SimJob& job);
  // The job has ended; it is deleted a little later.
  void DeleteLater(SimJob& job);
  // Submits another job under an id that was deleted.
  void SubmitAnew(SimJob& job);

 private:
  void SubmitLater(SimJob& job, int64_t most);
  void ChangeRuntime(SimJob& job);
  void SubmitSoon(SimJob& job, int64_t most);
  void SubmitUntilKnown(SimJob& job);

  Around around_;
  const std::function<bool(const coordinator::Input&)> ask_;
  std::map<std::string, coordinator::JobPhase> phase_;  // as persisted last
};

}  // namespace muster::sim
