// What goes into and what comes out of the coordinator's state machine (coordinator.h). Plain
// values: an input lives while it is handled, an action until it is carried out.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/state/job_state.h"
#include "lib/base/time.h"
#include "lib/domain/message.h"

namespace muster::coordinator {

// ---- inputs

// The same id and training specification twice is one job; another runtime specification is
// accepted while nobody has joined, or more steps are (LengtheningOf), which a job that is done
// goes on with, too. The driver has validated the spec and answers the caller.
struct Submit {
  std::string id;
  JobSpec spec;
};
struct Cancel {
  std::string id;
};
struct Stop {  // after a checkpoint; the job can go on later
  std::string id;
};
// Removes everything that is kept of an ended job. The caller has been told by WhyNotDeleted
// (job_state.h) if that is not possible.
struct Delete {
  std::string id;
};
// How many workers a job may have from now on; it grows, or some of them leave at a step boundary.
struct Scale {
  std::string id;
  int32_t workers_min = 1;
  int32_t workers_max = 1;
};
// Nothing new is placed on that host, and the members there leave; or it takes members again.
struct Drain {
  std::string host;
  bool on = true;
};
struct JobDeleted {  // answers DeleteJob
  std::string id;
  std::string failure;  // empty: nothing of it is left
};
struct MemberSays {
  MemberId member;
  ToCoordinator message;       // not AskJob: the driver answers it with JobOf
  std::optional<Time> came{};  // if it had to wait for us; nothing: now
};
struct MemberDown {  // its session broke
  MemberId member;
};
struct AgentUp {
  AgentHello hello;
};
struct HostEnds {  // its agent waits only for its members to leave
  AgentId agent;
};
struct AgentDown {  // its session broke
  AgentId agent;
};
struct AgentSays {
  ProcessExited exited;
};
struct ManifestCommitted {
  Manifest manifest;
};
struct ManifestFailed {
  std::string job;
  LineageNumber lineage;
  Step step;
  std::string reason;
};
struct DigestDone {
  std::string job;
  StartNumber start;   // as ComputeDigest said
  std::string digest;  // empty: it failed
  std::string reason;
};
struct Tick {
  // When the newest word of each member, of any job, came; null: nothing is known of that. A word
  // may still wait its turn: then it is we who are late. Every job that runs gets each tick.
  std::shared_ptr<const std::map<MemberId, Time>> heard{};
  bool was_deaf = false;  // nothing of what was said since the tick before was kept
  // Hosts of other machines are known, and none of their agents is heard: perhaps it is we who are
  // cut off. The Coordinator finds that out for its jobs.
  bool hears_no_other_machine = false;
};
using Input = std::variant<Submit, Cancel, Stop, Delete, Scale, Drain, JobDeleted, MemberSays,
                           MemberDown, AgentUp, HostEnds, AgentDown, AgentSays, ManifestCommitted,
                           ManifestFailed, DigestDone, Tick>;

// ---- actions, carried out in order: a Persist… must be on disk before a later one is carried out

struct PersistJob {
  JobJournal job;
};
struct PersistRecords {
  std::string job;
  std::vector<StepRecord> records;
};
struct PersistFingerprint {
  std::string job;
  LineageNumber lineage;
  Step step;
  FingerprintPart value;
};
struct PersistDrained {
  std::vector<std::string> hosts;
};
struct PersistLeftOut {                      // for all jobs
  std::map<std::string, std::string> hosts;  // and why
};
struct ToMember {
  MemberId member;
  FromCoordinator message;
};
struct ToMembers {  // the same to all of them, so that it is encoded once
  std::vector<MemberId> members;
  FromCoordinator message;
};
// The member keeps what it has, and comes again.
struct EndSession {
  MemberId member;
  std::string why;
};
struct ToHost {  // to the agent that speaks for it
  AgentId agent;
  Wanted wanted;
};
// It does not speak for its host; it may come again.
struct EndAgentSession {
  AgentId agent;
  std::string why;
};
// Off the driver's thread; answered by ManifestCommitted or ManifestFailed.
struct CommitManifest {
  Manifest manifest;      // time and total are filled in by the driver
  bool replaces = false;  // one of its lineage and step, which cannot be read
};
// Off the driver's thread, in order with commits of the job: all but the newest `keep` go, and what
// aborted rounds left.
struct PruneManifests {
  Manifest newest;
  std::vector<Lineage> lineages;
  int32_t keep = 1;
};
struct ComputeDigest {
  std::string job;
  StartNumber start;
  Manifest manifest;
};
// Off the driver's thread: ledger, manifests and checkpoints of the job are removed, and last its
// journal entry. Answered by JobDeleted; asked again after a restart.
struct DeleteJob {
  std::string id;
};
struct Announce {  // an event for people and programs
  std::string job;
  std::string event;  // state, view, recovery, checkpoint, step, fingerprint, process, done
  std::string text;   // a human sentence; may be empty for "step"
  std::map<std::string, std::string> fields;
};
using Action =
    std::variant<PersistJob, PersistRecords, PersistFingerprint, PersistDrained, PersistLeftOut,
                 ToMember, ToMembers, EndSession, ToHost, EndAgentSession, CommitManifest,
                 PruneManifests, ComputeDigest, DeleteJob, Announce>;

}  // namespace muster::coordinator
