// What the parts of a job say to each other, as plain values. lib/wire/message_codec turns them
// into frames; the state/ rooms see nothing else. Payload bytes never stand here: a frame's payload
// holds, chunk after chunk, the elements of the chunks (and subtrees) that its header lists, 4
// bytes each, little-endian.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/version.h"
#include "lib/domain/job.h"
#include "lib/domain/lanes.h"
#include "lib/domain/layout.h"
#include "lib/domain/ledger.h"
#include "lib/domain/manifest.h"
#include "lib/domain/measure.h"
#include "lib/domain/stream.h"
#include "lib/domain/view.h"

namespace muster {

// A key of NumericEnvironment::numeric: what of the data could not be read and was left out.
inline constexpr char kDataLeftOut[] = "data_left_out";
// Others: the content hash of `initial.file`, and what of it or of the model had no counterpart
// (`strict: false`).
inline constexpr char kInitial[] = "initial";
inline constexpr char kInitialLeftOut[] = "initial_left_out";
// Another: how many threads a worker computes with.
inline constexpr char kThreads[] = "threads";
// Another: in which order the lanes of a job with sync_batch_norm meet their phases.
inline constexpr char kSyncOrder[] = "sync_order";

// What a job's workers find out, each for itself, and must agree on (docs/architecture.md
// section 1).
struct NumericEnvironment {
  uint64_t samples = 0;  // kMostSamples of a stream, whose content is in no hash either
  std::string data_hash;
  std::vector<TensorSpec> tensors;  // registration order
  // Library versions, instruction set, threads, probe fingerprints …
  std::map<std::string, std::string> numeric;
  bool operator==(const NumericEnvironment&) const = default;
};

inline std::string NumericOf(const NumericEnvironment& environment, const char* key) {
  const auto found = environment.numeric.find(key);
  return found == environment.numeric.end() ? "" : found->second;
}
// Empty: all of the data could be read.
inline std::string DataLeftOut(const NumericEnvironment& environment) {
  return NumericOf(environment, kDataLeftOut);
}
// Empty: nothing was left out, or there is no such file.
inline std::string InitialLeftOut(const NumericEnvironment& environment) {
  return NumericOf(environment, kInitialLeftOut);
}

// ---- members → coordinator

// How far a process is with what it prepares before it can join; for people.
struct HowFar {
  bool waits = false;   // another process of its machine does it
  bool hashes = false;  // it is the hash of the data, and not what the task prepares
  int32_t percent = 0;  // 0 to 100
  std::string what{};   // one line, printable, at most kMostHowFarBytes; may be empty
  bool operator==(const HowFar&) const = default;
};
inline constexpr size_t kMostHowFarBytes = 160;
// First frame of a process that does not know its job yet. While it prepares it asks again now and
// then, to say how far it is.
struct AskJob {
  std::string job;
  std::string name;
  Speaks speaks{};
  std::optional<HowFar> preparing{};  // nothing: it has nothing to say of that
};
struct Join {  // also after every new session to the coordinator: then the member is already known
  std::string job;
  StartNumber start;          // as JobIs said
  PlacementNumber placement;  // as its agent said when it started the process
  MemberId id;
  Role role = Role::kWorker;
  std::string node;
  std::string address;
  std::string cluster;  // the store it knows; empty at first
  TermNumber term;      // highest seen
  NumericEnvironment environment;
  ViewNumber sealed;  // highest view it has sealed or is active in; 0: none
  ViewNumber active;  // the view that it is active in; 0: none
  // The records of this lineage below this step are in the ledger, as it was told; lineage 0: it
  // was told of none.
  LineageNumber recorded_lineage;
  Step recorded;
  uint64_t stream_positions = 0;  // facts of the job's stream that it was told
  Speaks speaks{};
};
// Where a state is measured by a follower: of which one, and for which chunks, this member has a
// part of its checkpoint that is written or still will be.
struct MeasuredPart {
  LineageNumber lineage;
  Step step;
  ChunkSet chunks;
  bool operator==(const MeasuredPart&) const = default;
};
// What a member has, for the plan of a new view.
struct LocalState {
  bool has_state = false;
  LineageNumber lineage;
  Step step;         // state(step); of a server: its chunks
  ChunkSet results;  // held results of the open step `step` (a server: applied ones)
  ChunkSet sums;     // owners that apply: complete sums, applied or waiting for the global norm
  // Still holds every result of step - 1 (a server: of its chunks) unmodified.
  bool previous_results = false;
  std::vector<LaneId> lanes;                    // folded and running in the open step, ascending
  std::optional<MeasuredPart> measured_part{};  // of the newest such state
};
struct Sealed {
  ViewNumber view;  // the forming one
  LocalState local_state;
};
struct HoldsBase {
  ViewNumber view;
  int64_t lanes_run = 0;  // by this process in all; told with a state of a new lineage
};
struct BaseFailed {  // the checkpoint could not be loaded
  ViewNumber view;
  std::string reason;    // names the file
  bool damaged = false;  // the checkpoint is; else it is this member that could not
};
struct Records {
  // Without lane holders when they are those of the record's view and that is the active one.
  std::vector<StepRecord> records;
};
struct LanesNotFinite {  // of a step that is not: found by computing each of our lanes once more
  LineageNumber lineage;
  Step step;
  std::vector<LaneId> lanes;  // ascending
};
struct SegmentWritten {
  int64_t id = 0;  // given by the member's outbox; acknowledged
  LineageNumber lineage;
  Step step;  // of state(step)
  Segment segment;
  double seconds = 0;  // from the copy of the state until it was on disk
};
struct SegmentFailed {
  LineageNumber lineage;
  Step step;
  std::string reason;
  bool disk_is_slow = false;  // nothing failed: earlier parts wait, so this one was not copied
  bool gave_up = false;       // a part that is tried again and again; it is not any more
};
struct ThreadAge {  // of a thread that has work
  std::string thread;
  double seconds = 0;  // since it last went on
};
// The thread of a member that writes its parts of checkpoints.
inline constexpr char kCheckpointThread[] = "checkpoint";
// Whether a thread that stands still too long costs its member. The one that only waits for a disk
// is shown to people, and no more: no step waits for it.
inline bool IsJudged(const ThreadAge& age) { return age.thread != kCheckpointThread; }
// Members of a view with whom the sender has no session, though it wants one.
struct Unreachable {
  ViewNumber view;               // active or forming
  std::vector<int32_t> members;  // indices into its members; ascending
  bool operator==(const Unreachable&) const = default;
};
inline constexpr size_t kMostUnreachable = 64;  // that are named; the lowest ones
struct Alive {                                  // about three per lease
  Step step;
  std::string phase;  // for people: "lane 3 of 6", "waiting for results of worker-1"
  std::vector<ThreadAge> threads{};
  Unreachable unreachable{};
  std::string lacks{};  // why it cannot go on until somebody mends it, for people; empty: it can
};
// What the follower was asked for by MeasureState. Said in each session until AckMeasured.
struct Measured {
  LineageNumber lineage;
  Step step;
  MeasureSums sums;
};
struct MeasureFailed {
  LineageNumber lineage;
  Step step;
  std::string reason;    // names the file
  bool damaged = false;  // the checkpoint is; else it is the follower that could not
};

// ---- coordinator → members

struct JobIs {
  std::string job;
  StartNumber start;
  std::string cluster;
  TermNumber term;
  JobSpec spec;
  std::string checkpoint_dir;  // absolute
  // Once a worker has joined: what servers, which have no task, learn the layout from. Without it a
  // server waits; it is told again when it is known.
  std::optional<NumericEnvironment> environment;
  Speaks speaks{};
};
struct Seal {  // view `view` is forming: stop the one before and say what you hold
  TermNumber term;
  ViewNumber view;
};
// How each member reaches the base. Indices into `members`.
enum class HealBy {
  kHold,     // already there
  kCatchUp,  // at base - 1: fetch the missing results of base - 1 and apply
  kCopy,     // whole state, in pieces, from `donors`
  kMake,     // state(0) from the specification
  kLoad,     // from the checkpoint named in the plan
  kNothing,  // a spare
};
struct HealPlan {
  LineageNumber lineage;
  Step base;
  std::vector<ViewMember> members;
  std::vector<HealBy> how;  // by member
  // By chunk: who holds, or will hold, it at state(base), for kCopy.
  std::vector<int32_t> values_from;
  // By chunk: likewise its optimizer slots; -1: they are zero, or not copied.
  std::vector<int32_t> slots_from;
  std::vector<int32_t> catch_up_from;  // by chunk: who holds the result of base - 1; -1: unneeded
  ChunkSet done;  // results of base that everybody must hold before the view is active …
  std::vector<int32_t> done_from;    // … by chunk: from whom; -1: not done
  std::vector<int32_t> owner_of;     // by chunk, of the view to come
  LaneMap first_lanes;               // of the view to come
  std::optional<Manifest> manifest;  // what kLoad reads
};
struct Heal {
  TermNumber term;
  ViewNumber view;
  HealPlan plan;
};
struct Activate {
  View view;
};
struct ViewStands {  // to one whose session is new: the view that it is active in is the last one
  TermNumber term;
  ViewNumber view;
};
struct GiveCommand {  // to the owner of chunk 0
  TermNumber term;
  ViewNumber view;
  JobCommand command;
};
struct AckRecords {
  TermNumber term;
  LineageNumber lineage;
  Step below;  // every record of the lineage below this is in the journal
};
struct AckSegments {
  TermNumber term;
  std::vector<int64_t> ids;
};
struct MeasureState {  // to the follower: measure that checkpoint, and nothing else any more
  TermNumber term;
  LineageNumber lineage;  // of the checkpoint; the same as the manifest's
  Step step;
  Manifest manifest;
};
struct AckMeasured {  // to the follower: the coordinator has it, or needs it no more
  TermNumber term;
  LineageNumber lineage;
  Step step;
};
struct GiveMeasure {  // to the owner of the chunk of sums: what a step to come brings
  TermNumber term;
  ViewNumber view;
  LineageNumber lineage;
  Step step;  // of the measured state
  MeasureSums sums;
};
struct Leave {
  TermNumber term;
  int exit_code = 0;
  std::string reason;
  std::string cluster{};  // empty: not said, by a coordinator of an earlier version
};

// ---- member ↔ member

struct Hello {  // the first frame of each end
  std::string job;
  MemberId from;
  MemberId to;
  Speaks speaks{};
};
struct Inventory {  // at each new session and each active view: what the sender has of its open
                    // step
  LineageNumber lineage;
  ViewNumber view;
  Step step;
  ChunkSet partials;  // chunks it owns whose partials from the receiver it has (or needs no more)
  ChunkSet results;   // results it holds
};
struct Partial {
  TreeNode node;
  int64_t weight = 0;
  double loss = 0;
  uint32_t crc = 0;
  auto operator<=>(const Partial&) const = default;
};
struct ChunkPartials {  // all subtrees of one chunk
  ChunkId chunk;
  std::vector<Partial> partials;
};
struct Partials {
  LineageNumber lineage;
  ViewNumber view;
  Step step;
  std::vector<ChunkPartials> chunks;
  // Only with no chunks: commands in effect at the step boundary before `step`, for owners that
  // apply.
  std::vector<JobCommand> commands;
};
struct ResultMeta {
  int64_t weight = 0;
  double loss = 0;
  double sum_of_squares = 0;  // of the reduced gradient chunk; 0 where the job does not measure it
  uint32_t crc = 0;
  // Of a gradient: all its values and the loss are. Of what a server applied: the whole step is.
  bool finite = true;
  auto operator<=>(const ResultMeta&) const = default;
};
struct ChunkResult {
  ChunkId chunk;
  ResultMeta meta;
};
struct Results {
  LineageNumber lineage;
  ViewNumber view;
  Step step;
  std::vector<ChunkResult> chunks;
  std::vector<JobCommand> commands;  // when chunk 0 is among them
};
struct Norms {  // owners that apply → owner of chunk 0
  LineageNumber lineage;
  ViewNumber view;
  Step step;
  std::vector<ChunkResult> chunks;
};
struct GlobalNorm {  // owner of chunk 0 → owners that apply
  LineageNumber lineage;
  ViewNumber view;
  Step step;
  double norm = 0;     // 0 when the job does not clip
  bool finite = true;  // all chunks of the step are
};
enum class PieceKind { kValues, kSlot, kResult };
struct Fetch {
  ViewNumber view;  // the forming one
  PieceKind kind = PieceKind::kValues;
  int32_t slot = 0;  // kSlot: 0, 1
  Step step;         // kValues, kSlot: state(step); kResult: of this step
  std::vector<ChunkId> chunks;
};
struct Pieces {
  ViewNumber view;
  LineageNumber lineage;
  PieceKind kind = PieceKind::kValues;
  int32_t slot = 0;
  Step step;
  std::vector<ChunkResult> chunks;   // kValues, kSlot: only crc of the meta is used
  std::vector<JobCommand> commands;  // kResult with chunk 0
  std::optional<StepRecord> record;  // kResult of a step that the donor has finished
};

using ToCoordinator =
    std::variant<AskJob, Join, Sealed, HoldsBase, BaseFailed, Records, SegmentWritten,
                 SegmentFailed, Alive, LanesNotFinite, Measured, MeasureFailed, Spooled>;
using FromCoordinator =
    std::variant<JobIs, Seal, Heal, Activate, ViewStands, GiveCommand, AckRecords, AckSegments,
                 Leave, MeasureState, AckMeasured, GiveMeasure, SpoolFrom, AckSpooled, StreamIs>;
// Whatever the coordinator says, it says in its term.
inline TermNumber TermOf(const FromCoordinator& message) {
  return std::visit(
      [](const auto& said) {
        if constexpr (requires { said.term; })
          return said.term;
        else
          return said.view.term;
      },
      message);
}
// Of whom it comes, where the message says so. What a coordinator tells those whom it has not let
// in does; they may be members of another cluster.
inline std::string ClusterOf(const FromCoordinator& message) {
  return std::visit(
      [](const auto& said) -> std::string {
        if constexpr (requires { said.cluster; })
          return said.cluster;
        else
          return "";
      },
      message);
}
using PeerMessage =
    std::variant<Hello, Inventory, Partials, Results, Norms, GlobalNorm, Fetch, Pieces>;

// ---- host agent ↔ coordinator

// What a worker counts in a file that outlives it (lib/lane_counter/lane_counter.h).
struct LaneCount {
  Incarnation incarnation;  // whose count; zero: it had not joined
  int64_t total = 0;        // lanes run by this incarnation
  LineageNumber lineage;
  Step step;            // the open step …
  int64_t in_step = 0;  // … and the lanes run in it
  bool operator==(const LaneCount&) const = default;
};

struct AgentId {
  std::string host;
  Incarnation incarnation;  // of its process
  auto operator<=>(const AgentId&) const = default;
};
// Something of a host that one process at a time may use, such as a GPU.
struct HostDevice {
  std::string id;
  PlacementNumber holder{};  // whose process has it, as far as its agent knows; 0: nobody's
  bool operator==(const HostDevice&) const = default;
};
// The first frame of a session.
struct AgentHello {
  AgentId agent;
  // The agent before it on that host, whose processes have all ended, as is known for certain.
  Incarnation follows{};
  std::string node;   // the machine; several hosts may share it
  int32_t slots = 0;  // how many members, workers and servers, this host can hold
  std::vector<HostDevice> devices{};
  int64_t now_unix_ms = 0;  // by the host's clock, as certificates need clocks that agree
  Speaks speaks{};
};
// It was told to end: its members are to leave, and nothing more is placed here. Said again in each
// new session.
struct AgentEnds {};
// All devices of the host, each time that one has another holder, and when a session is up.
struct DevicesHeld {
  std::vector<HostDevice> devices;
};
struct ProcessExited {
  std::string job;
  StartNumber start;  // for which it was started; 0: not known any more
  PlacementNumber placement;
  std::string name;
  int exit_code = 0;  // when signal is 0
  int signal = 0;
  std::string cause;       // for people: "killed by SIGKILL", "out of memory"
  bool gave_up = false;    // crash loop: will not be started again
  LaneCount lanes;         // of a worker: what it had run when it ended
  std::string last_lines;  // of its log
  std::string sample{};    // text that the trained model made; empty: none
};
struct ProcessWanted {
  std::string name;
  Role role = Role::kWorker;
  PlacementNumber placement{};
  std::vector<std::string> devices{};  // ids, always the same for one number
  bool operator==(const ProcessWanted&) const = default;
};
struct JobProcesses {
  std::string job;
  StartNumber start;
  std::vector<ProcessWanted> processes;
  // The same for all starts of a job. Another job, of which the id is the same because the first
  // was deleted, has another.
  StartNumber first_start{};
  int32_t restarts = kDefaultRestarts;  // of each process (RuntimeSpec)
  bool operator==(const JobProcesses&) const = default;
};
// Everything that should run on this host, complete each time: the agent starts what is missing and
// stops what is not listed, whole jobs too.
struct Wanted {
  std::vector<JobProcesses> jobs;
  // Of whom it comes: an agent obeys no other cluster than its first, and no earlier term than it
  // has heard.
  std::string cluster{};
  TermNumber term{};
  Speaks speaks{};
  bool operator==(const Wanted&) const = default;
};
// A part of a log. Sums stay below what a number holds, whatever somebody claims to have left out.
inline constexpr int64_t kMostLogAmount = int64_t{1} << 60;
struct LogAmount {
  int64_t bytes = 0;
  int64_t lines = 0;  // ends of lines
  bool operator==(const LogAmount&) const = default;
  LogAmount& operator+=(const LogAmount& more) {
    bytes = std::min(bytes + more.bytes, kMostLogAmount);
    lines = std::min(lines + more.lines, kMostLogAmount);
    return *this;
  }
};
// What a member printed, as its agent read it from its log. Nobody answers: what is lost with a
// session is lost, and seen to be missing by what comes next.
struct LogLines {
  std::string job;
  StartNumber start;  // for which it was started
  PlacementNumber placement;
  std::string name;
  std::string text;      // any bytes, at most kMostLogText
  LogAmount left_out{};  // of the log just before these, which nobody gets
  LogAmount before{};    // that this agent has sent or left out of this log, before `left_out`
};
inline constexpr size_t kMostLogText = size_t{32} << 10;
// One process of a member that an agent starts.
struct ProcessName {
  std::string job;
  std::string name;
  PlacementNumber placement;
  Incarnation incarnation;
  bool operator==(const ProcessName&) const = default;
};
// The process is about to start and needs a certificate; or it runs and needs a new one
// (docs/identity.md section 4).
struct SignMember {
  ProcessName process;
  std::string public_key;  // lib/identity/keys.h
};
struct MemberSigned {
  ProcessName process;
  std::string certificate_pem;
  std::string authority_pem;  // whom to trust
  int64_t now_unix_ms = 0;    // by the coordinator's clock
};
struct SignRefused {
  ProcessName process;
  std::string why;
};
// Whom to trust by now, as the hash of what certificates come with (docs/identity.md section 7).
// Told at each session, and when it changes: whoever has another asks for new certificates.
struct AuthorityIs {
  std::string hash;  // SHA-256 of authority.pem, in hexadecimal digits
};
// The agent and all its members have certificates that came with that. Said when it becomes so, and
// in each session.
struct AgentTrusts {
  std::string hash;  // as of AuthorityIs
};
using FromAgent = std::variant<AgentHello, ProcessExited, AgentEnds, LogLines, DevicesHeld,
                               SignMember, AgentTrusts>;
using ToAgent = std::variant<Wanted, MemberSigned, SignRefused, AuthorityIs>;

}  // namespace muster
