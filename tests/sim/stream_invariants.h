// What must hold of the stream of a job (docs/decisions/0112-streams.md), beyond what each member
// checks of what it reads. Looks on and changes nothing but coverage. Lives as long as the world.
#pragma once

#include <string>

#include "lib/domain/audit.h"
#include "tests/sim/around.h"
#include "tests/sim/job.h"

namespace muster::sim {

class StreamInvariants {
 public:
  explicit StreamInvariants(Around around) : around_(around) {}

  void BeforePersist(const SimJob& job, const coordinator::PersistStream& news);
  // After that.
  void CheckRows(const SimJob& job);
  // A file of the spool is about to be deleted.
  void CheckDeleted(const SimJob& job, const SpoolKey& key);
  // The coordinator says this to a member of the job.
  void CheckSaid(const SimJob& job, const FromCoordinator& message);
  // It takes this.
  void CheckRecord(const SimJob& job, const StepRecord& record);
  // The job is done, or was stopped; what the audit found.
  void CheckEnd(const SimJob& job, const AuditReport& report);

 private:
  void Violate(const SimJob& job, const std::string& what);
  void CheckNewFacts(const SimJob& job, const SpoolSegment& row, uint64_t known);
  void CheckTrim(const SimJob& job, const coordinator::PersistStream& news);
  void CheckIsFact(const SimJob& job, const StreamIs& told);

  Around around_;
};

}  // namespace muster::sim
