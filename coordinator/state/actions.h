// What goes into and what comes out of the coordinator's state machine (coordinator.h). Plain
// values: an input lives while it is handled, an action until it is carried out.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/state/host_records.h"
#include "coordinator/state/job_state.h"
#include "coordinator/state/launch.h"
#include "coordinator/state/quotas.h"
#include "coordinator/state/rights.h"
#include "coordinator/state/stream_facts.h"
#include "lib/base/time.h"
#include "lib/domain/best_state.h"
#include "lib/domain/message.h"

namespace muster::coordinator {

// ---- inputs

// The same id and training specification twice is one job; another runtime specification is
// accepted while nobody has joined, or more steps are (LengtheningOf), which a job that is done
// goes on with, too. The driver has validated the spec and answers the caller.
struct Submit {
  std::string id;
  JobSpec spec;
  std::string owner{};  // of a new job: the user who submits it; empty: nobody was asked
  Accepts accepts{};    // of one that goes on
  std::string by{};     // whoever accepts it; likewise
  // Of one that goes on: the committed checkpoint that `resume` names, where it may be one that the
  // job would not go back to by itself and so does not know; null: it is none of these.
  std::shared_ptr<const Manifest> from{};
};
// A job of another cluster, of which a checkpoint was copied and committed here: the caller has
// seen to it that there is no job of that id. It goes on from there.
struct Adopt {
  std::string id;
  JobSpec spec;
  Manifest manifest;  // under the id, of lineage 1
  NumericEnvironment environment;
  std::string cause;    // for people: whose it was
  std::string owner{};  // the user who adopts it; empty: nobody was asked
  Accepts accepts{};
};
// A job whose state(0) is a state of another one that was committed under this one's id, too: the
// caller has seen to it that there is no job of that id.
struct Fork {
  std::string id;
  JobSpec spec;       // with all of initial.parent
  Manifest manifest;  // of step 0 and lineage 1
  std::string owner{};
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
// What the queue and people know of a job is this from now on. The caller has validated it.
struct SetQueue {
  std::string id;
  QueueSpec queue;
};
// How much the jobs of a namespace may hold from now on.
struct SetQuota {
  std::string name_space;
  Quota quota;
};
// Nothing new is placed on that host, and the members there leave; or it takes members again.
struct Drain {
  std::string host;
  bool on = true;
};
// The caller has been told by WhyNotMade and WhyNotRevoked (rights.h) if that is not possible.
struct MakeToken {
  Token token;
};
struct RevokeToken {
  std::string id;
};
// A person lets the host join, with a new secret or as one whose certificate is from outside. The
// caller has been told by WhyNotAdmitted (host_records.h) if that is not possible.
struct AdmitHost {
  std::string host;
  HostRecord record;  // bound to no key
};
// Nothing is signed for it any more, its places are taken back, and its sessions end.
struct RevokeHost {
  std::string host;
};
// Of a job that may be under way, one checkpoint. The caller has been told by WhyNotRemoved
// (stored_job.h) if that is not possible, and has seen that there is one.
struct RemoveCheckpoint {
  std::string id;
  LineageNumber lineage;
  Step step;
  bool force = false;  // also what is kept by a name, or is what the job would go on from
  std::string by{};    // who asks for it; empty: nobody was asked who he is
};
struct JobDeleted {  // answers DeleteJob
  std::string id;
  std::string failure;  // empty: nothing of it is left
};
struct MemberSays {
  MemberId member;
  ToCoordinator message;       // not AskJob: the driver answers it with JobOf
  std::optional<Time> came{};  // if it had to wait for us; nothing: now
  bool is_proven = false;      // a certificate says who speaks
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
struct DevicesTold {  // which of its host's are held
  AgentId agent;
  std::vector<HostDevice> devices;
};
struct TrustTold {  // it and its members have certificates that came with that
  AgentId agent;
  std::string hash;  // as of AgentTrusts
};
struct AgentSays {
  ProcessExited exited;
  std::string
      proven_host{};  // that a certificate names as the one who speaks; empty: there is none
};
// An agent asks for the certificate of a process. The key is one.
struct SignatureAsked {
  AgentId agent;
  SignMember ask;
  std::string key_hash;  // of its public key
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
struct ManifestRemoved {  // answers RemoveManifest
  std::string job;
  LineageNumber lineage;
  Step step;
  std::string by{};       // as of RemoveCheckpoint
  std::string failure{};  // empty: it is gone
};
struct DigestDone {
  std::string job;
  StartNumber start;   // as ComputeDigest said
  std::string digest;  // empty: it failed
  std::string reason;
};
struct SpoolTidied {  // answers TidySpool, whether all could be deleted or not
  std::string job;
  Incarnation reader;
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
using Input =
    std::variant<Submit, Adopt, Fork, Cancel, Stop, Delete, RemoveCheckpoint, Scale, SetQueue,
                 SetQuota, Drain, MakeToken, RevokeToken, AdmitHost, RevokeHost, HostJoins,
                 JobDeleted, MemberSays, MemberDown, AgentUp, HostEnds, AgentDown, AgentSays,
                 DevicesTold, TrustTold, SignatureAsked, LaunchTold, ManifestCommitted,
                 ManifestFailed, ManifestRemoved, DigestDone, SpoolTidied, Tick>;

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
struct PersistMeasure {  // what a follower measured, or of the last state a worker
  std::string job;
  MeasureFact fact;
  // Of the last state: what it tells people, since no record does, and the step that would.
  std::vector<Measure> last{};
  Step would_be_brought_by{};
};
// Of a job's stream, all in one write: rows of segments that are new or longer, by their numbers;
// of those that were trimmed there is none any more; and the mark.
struct PersistStream {
  std::string job;
  std::vector<SpoolSegment> segments{};
  std::vector<SpoolSegment> trimmed{};
  StreamMark mark{};
};
struct PersistDrained {
  std::vector<std::string> hosts;
};
struct PersistLeftOut {                      // for all jobs
  std::map<std::string, std::string> hosts;  // and why
};
struct PersistQuotas {
  Quotas quotas;
};
struct PersistTokens {
  std::vector<Token> tokens;  // all that there are
};
struct PersistHost {
  std::string host;
  HostRecord record;
};
struct ForgetHost {  // its record
  std::string host;
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
// Signs, and tells that agent.
struct Sign {
  AgentId agent;
  SignMember ask;
};
struct RefuseToSign {
  AgentId agent;
  SignRefused refused;
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
// Off the driver's thread, in order with commits of the job: all but those that `keep` keeps and
// the best one go, and what aborted rounds left.
struct PruneManifests {
  Manifest newest;
  std::vector<Lineage> lineages;
  KeepRule keep;
  BestRule best{};
};
// Likewise: one checkpoint, as a person asks. Without `force` one that has a name, or is given one
// meanwhile, stays. Answered by ManifestRemoved.
struct RemoveManifest {
  std::string job;
  LineageNumber lineage;
  Step step;
  bool force = false;
  std::string by{};  // as of RemoveCheckpoint
};
// Likewise: how good the state of a committed checkpoint is. Again with the same: nothing changes.
struct SaveMeasure {
  std::string job;
  LineageNumber lineage;
  Step step;
  StateMeasure measure;
};
// Likewise: the files of segments that have no row any more.
struct TrimSpool {
  std::string job;
  std::vector<SpoolSegment> segments;
};
// Likewise: what readers that are gone have left in the job's spool, as SweepSpool says; `facts`
// are all there are. `reader`: nobody's, where none is to come. Answered by SpoolTidied. The reader
// is told from where it is to spool only then: what a sweep for the reader before it would delete,
// it has not made yet.
struct TidySpool {
  std::string job;
  std::vector<SpoolSegment> facts;
  Incarnation reader;
};
struct ComputeDigest {
  std::string job;
  StartNumber start;
  Manifest manifest;
};
// Off the driver's thread: ledger, manifests, checkpoints and spool of the job are removed, and
// last its journal entry. Answered by JobDeleted; asked again after a restart.
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
    std::variant<PersistJob, PersistRecords, PersistFingerprint, PersistMeasure, PersistStream,
                 PersistDrained, PersistLeftOut, PersistQuotas, PersistTokens, PersistHost,
                 ForgetHost, ToMember, ToMembers, EndSession, ToHost, Sign, RefuseToSign,
                 EndAgentSession, CommitManifest, PruneManifests, RemoveManifest, SaveMeasure,
                 TrimSpool, TidySpool, ComputeDigest, DeleteJob, Announce>;

}  // namespace muster::coordinator
