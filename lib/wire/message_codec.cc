#include "lib/wire/message_codec.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "google/protobuf/arena.h"
#include "lib/base/status.h"
#include "lib/wire/job_codec_proto.h"
#include "lib/wire/manifest_codec.h"
#include "lib/wire/parts_proto.h"
#include "muster/v1/agent.pb.h"
#include "muster/v1/exchange.pb.h"
#include "muster/v1/membership.pb.h"

namespace muster {
namespace {

constexpr int kMaxExitCode = 255;
constexpr int kMaxSignal = 127;
constexpr int64_t kMaxRecords = 65536;
constexpr int64_t kMaxSegments = 65536;
constexpr int64_t kMaxAcknowledged = 65536;

// An arena over memory that the thread keeps: a header of usual size is made and read without
// malloc. One at a time per thread.
class ThreadArena {
 public:
  ThreadArena() : arena_(memory().data(), memory().size()) {}
  template <class Message>
  Message& New() {
    return *google::protobuf::Arena::CreateMessage<Message>(&arena_);
  }

 private:
  static std::array<char, 16 * 1024>& memory() {
    alignas(8) thread_local std::array<char, 16 * 1024> memory;
    return memory;
  }
  google::protobuf::Arena arena_;
};

// ---- members → coordinator

void Put(const AskJob& ask, v1::CoordinatorFrame& frame) {
  v1::AskJob& out = *frame.mutable_ask_job();
  out.set_job(ask.job);
  out.set_name(ask.name);
}

AskJob Get(Reader& reader, const v1::AskJob& message) {
  return {reader.Text("job", message.job()), reader.Text("name", message.name())};
}

v1::Role WireRole(Role role) { return static_cast<v1::Role>(static_cast<int>(role) + 1); }

void Put(const Join& join, v1::CoordinatorFrame& frame) {
  v1::Join& out = *frame.mutable_join();
  out.set_job(join.job);
  Write(join.id, *out.mutable_id());
  out.set_role(WireRole(join.role));
  out.set_node(join.node);
  out.set_address(join.address);
  out.set_cluster(join.cluster);
  out.set_term(join.term.value());
  Write(join.facts, *out.mutable_facts());
  out.set_sealed(join.sealed.value());
  out.set_active(join.active);
}

Join Get(Reader& reader, const v1::Join& message) {
  Join join;
  join.job = reader.Text("job", message.job());
  join.id = Read(reader, message.id());
  join.role = reader.Enum("role", message.role(), Role::kServer);
  join.node = reader.Text("node", message.node());
  join.address = reader.Text("address", message.address());
  join.cluster = reader.Text("cluster", message.cluster());
  join.term = TermNumber(reader.Number("term", message.term()));
  {
    const Reader::Scope scope(reader, "facts");
    join.facts = Read(reader, message.facts());
  }
  join.sealed = ViewNumber(reader.Number("sealed", message.sealed()));
  join.active = message.active();
  return join;
}

void Put(const Sealed& sealed, v1::CoordinatorFrame& frame) {
  v1::Sealed& out = *frame.mutable_sealed();
  out.set_view(sealed.view.value());
  const Holdings& holdings = sealed.holdings;
  v1::Holdings& held = *out.mutable_holdings();
  held.set_has_state(holdings.has_state);
  held.set_lineage(holdings.lineage.value());
  held.set_step(holdings.step.value());
  Write(holdings.results, *held.mutable_results());
  Write(holdings.sums, *held.mutable_sums());
  held.set_previous_results(holdings.previous_results);
  for (const LaneId lane : holdings.lanes) held.add_lanes(static_cast<uint32_t>(lane.value()));
}

Holdings ReadHoldings(Reader& reader, const v1::Holdings& message) {
  const Reader::Scope scope(reader, "holdings");
  Holdings holdings;
  holdings.has_state = message.has_state();
  holdings.lineage = LineageNumber(reader.Number("lineage", message.lineage()));
  holdings.step = Step(reader.Number("step", message.step()));
  holdings.results = Read(reader, "results", message.results());
  holdings.sums = Read(reader, "sums", message.sums());
  holdings.previous_results = message.previous_results();
  for (const int32_t lane :
       ReadIndices(reader, "lanes", message.lanes(), kMaxLanes, static_cast<size_t>(kMaxLanes))) {
    const bool ascending = holdings.lanes.empty() || holdings.lanes.back() < LaneId(lane);
    if (!reader.Require(ascending, "lanes", "not ascending")) break;
    holdings.lanes.emplace_back(lane);
  }
  return holdings;
}

Sealed Get(Reader& reader, const v1::Sealed& message) {
  return {ViewNumber(reader.Number("view", message.view())),
          ReadHoldings(reader, message.holdings())};
}

void Put(const HoldsBase& holds, v1::CoordinatorFrame& frame) {
  v1::HoldsBase& out = *frame.mutable_holds_base();
  out.set_view(holds.view.value());
  out.set_lanes_run(holds.lanes_run);
}

HoldsBase Get(Reader& reader, const v1::HoldsBase& message) {
  return {ViewNumber(reader.Number("view", message.view())),
          reader.Number("lanes_run", message.lanes_run())};
}

void Put(const BaseFailed& failed, v1::CoordinatorFrame& frame) {
  v1::BaseFailed& out = *frame.mutable_base_failed();
  out.set_view(failed.view.value());
  out.set_reason(failed.reason);
  out.set_damaged(failed.damaged);
}

BaseFailed Get(Reader& reader, const v1::BaseFailed& message) {
  return {ViewNumber(reader.Number("view", message.view())),
          reader.Text("reason", message.reason()), message.damaged()};
}

void Put(const Records& records, v1::CoordinatorFrame& frame) {
  v1::Records& out = *frame.mutable_records();
  for (const StepRecord& record : records.records) Write(record, *out.add_records());
}

Records Get(Reader& reader, const v1::Records& message) {
  Records records;
  if (!reader.Count("records", message.records_size(), kMaxRecords)) return records;
  for (int i = 0; i < message.records_size() && reader.ok(); ++i) {
    const Reader::Scope scope(reader, "records", i);
    records.records.push_back(Read(reader, message.records(i)));
  }
  return records;
}

void Put(const SegmentWritten& written, v1::CoordinatorFrame& frame) {
  v1::SegmentWritten& out = *frame.mutable_segment_written();
  out.set_id(written.id);
  out.set_lineage(written.lineage.value());
  out.set_step(written.step.value());
  *out.mutable_segment() = ToProto(written.segment);
  out.set_stall_seconds(written.stall_seconds);
  out.set_seconds(written.seconds);
}

SegmentWritten Get(Reader& reader, const v1::SegmentWritten& message) {
  SegmentWritten written;
  written.id = reader.Number("id", message.id());
  written.lineage = LineageNumber(reader.Number("lineage", message.lineage()));
  written.step = Step(reader.Number("step", message.step()));
  written.segment = reader.Take("segment", FromProto(message.segment()));
  written.stall_seconds = reader.Amount("stall_seconds", message.stall_seconds());
  written.seconds = reader.Amount("seconds", message.seconds());
  return written;
}

void Put(const SegmentFailed& failed, v1::CoordinatorFrame& frame) {
  v1::SegmentFailed& out = *frame.mutable_segment_failed();
  out.set_lineage(failed.lineage.value());
  out.set_step(failed.step.value());
  out.set_reason(failed.reason);
}

SegmentFailed Get(Reader& reader, const v1::SegmentFailed& message) {
  return {LineageNumber(reader.Number("lineage", message.lineage())),
          Step(reader.Number("step", message.step())), reader.Text("reason", message.reason())};
}

void Put(const Alive& alive, v1::CoordinatorFrame& frame) {
  v1::Alive& out = *frame.mutable_alive();
  out.set_step(alive.step.value());
  out.set_phase(alive.phase);
}

Alive Get(Reader& reader, const v1::Alive& message) {
  return {Step(reader.Number("step", message.step())), reader.Text("phase", message.phase())};
}

// ---- coordinator → members

void Put(const JobIs& is, v1::MemberFrame& frame) {
  v1::JobIs& out = *frame.mutable_job_is();
  out.set_job(is.job);
  out.set_cluster(is.cluster);
  out.set_term(is.term.value());
  *out.mutable_spec() = ToProto(is.spec);
  out.set_checkpoint_dir(is.checkpoint_dir);
  if (is.facts) Write(*is.facts, *out.mutable_facts());
}

JobIs Get(Reader& reader, const v1::JobIs& message) {
  JobIs is;
  is.job = reader.Text("job", message.job());
  is.cluster = reader.Text("cluster", message.cluster());
  is.term = TermNumber(reader.Number("term", message.term()));
  is.spec = reader.Take("spec", FromProto(message.spec()));
  is.checkpoint_dir = reader.Text("checkpoint_dir", message.checkpoint_dir());
  if (message.has_facts()) {
    const Reader::Scope scope(reader, "facts");
    is.facts = Read(reader, message.facts());
  }
  return is;
}

void Put(const Seal& seal, v1::MemberFrame& frame) {
  v1::Seal& out = *frame.mutable_seal();
  out.set_term(seal.term.value());
  out.set_view(seal.view.value());
}

Seal Get(Reader& reader, const v1::Seal& message) {
  return {TermNumber(reader.Number("term", message.term())),
          ViewNumber(reader.Number("view", message.view()))};
}

void Put(const Heal& heal, v1::MemberFrame& frame) {
  v1::Heal& message = *frame.mutable_heal();
  message.set_term(heal.term.value());
  message.set_view(heal.view.value());
  const HealPlan& plan = heal.plan;
  v1::HealPlan& out = *message.mutable_plan();
  out.set_lineage(plan.lineage.value());
  out.set_base(plan.base.value());
  Write(plan.members, *out.mutable_members());
  for (const HealBy how : plan.how) out.add_how(static_cast<v1::HealBy>(static_cast<int>(how) + 1));
  Write(plan.values_from, *out.mutable_values_from(), 1);
  Write(plan.slots_from, *out.mutable_slots_from(), 1);
  Write(plan.catch_up_from, *out.mutable_catch_up_from(), 1);
  Write(plan.done, *out.mutable_done());
  Write(plan.done_from, *out.mutable_done_from(), 1);
  Write(plan.owner_of, *out.mutable_owner_of());
  Write(plan.first_lanes.holder_of, *out.mutable_first_lanes());
  if (plan.manifest) *out.mutable_manifest() = ToProto(*plan.manifest);
}

Manifest ReadManifest(Reader& reader, const v1::Manifest& message) {
  const Reader::Scope scope(reader, "manifest");
  if (!reader.Count("tensors", message.tensors_size(), kMaxTensors) ||
      !reader.Count("segments", message.segments_size(), kMaxSegments))
    return {};
  for (int i = 0; i < message.tensors_size(); ++i) {
    const Reader::Scope tensor(reader, "tensors", i);
    const auto& shape = message.tensors(i).shape();
    if (!reader.Count("shape", shape.size(), kMaxDimensions)) return {};
    for (const int64_t size : shape) reader.Number("shape", size, 1);
  }
  reader.Number("chunk_bytes", message.chunk_bytes(), 0, kMaxChunkBytes);
  return reader.Take("", FromProto(message));
}

// What each way of healing needs, so that a member may follow the plan without asking again.
void CheckHealing(Reader& reader, const HealPlan& plan) {
  const auto somebody = [](const std::vector<int32_t>& from) {
    return std::all_of(from.begin(), from.end(), [](int32_t index) { return index >= 0; });
  };
  for (const HealBy how : plan.how) {
    if (how == HealBy::kCopy)
      reader.Require(somebody(plan.values_from), "values_from", "a chunk that nobody gives");
    if (how == HealBy::kCatchUp)
      reader.Require(somebody(plan.catch_up_from), "catch_up_from", "a chunk that nobody gives");
    if (how == HealBy::kLoad)
      reader.Require(plan.manifest.has_value(), "manifest", "missing; a member is to load it");
    if (!reader.ok()) return;
  }
  for (size_t c = 0; c < plan.done.size() && reader.ok(); ++c)
    reader.Require(plan.done[c] == (plan.done_from[c] >= 0), "done_from", "differs from done");
}

HealPlan ReadPlan(Reader& reader, const v1::HealPlan& message) {
  const Reader::Scope scope(reader, "plan");
  HealPlan plan;
  plan.lineage = LineageNumber(reader.Number("lineage", message.lineage()));
  plan.base = Step(reader.Number("base", message.base()));
  plan.members = Read(reader, message.members());
  const size_t members = plan.members.size();
  if (!reader.SameCount("how", message.how_size(), message.members_size())) return plan;
  for (const int how : message.how()) plan.how.push_back(reader.Enum("how", how, HealBy::kNothing));
  const auto by_chunk = [&](const char* field, const PackedIndices& indices, int32_t shift) {
    reader.SameCount(field, indices.size(), message.owner_of_size());
    return ReadIndices(reader, field, indices, kMaxChunks, members, shift);
  };
  plan.values_from = by_chunk("values_from", message.values_from(), 1);
  plan.slots_from = by_chunk("slots_from", message.slots_from(), 1);
  plan.catch_up_from = by_chunk("catch_up_from", message.catch_up_from(), 1);
  plan.done = Read(reader, "done", message.done());
  reader.SameCount("done", message.done().size(), message.owner_of_size());
  plan.done_from = by_chunk("done_from", message.done_from(), 1);
  plan.owner_of = by_chunk("owner_of", message.owner_of(), 0);
  plan.first_lanes.holder_of =
      ReadIndices(reader, "first_lanes", message.first_lanes(), kMaxLanes, members);
  if (message.has_manifest()) plan.manifest = ReadManifest(reader, message.manifest());
  if (reader.ok()) CheckHealing(reader, plan);
  return plan;
}

Heal Get(Reader& reader, const v1::Heal& message) {
  return {TermNumber(reader.Number("term", message.term())),
          ViewNumber(reader.Number("view", message.view())), ReadPlan(reader, message.plan())};
}

void Put(const Activate& activate, v1::MemberFrame& frame) {
  Write(activate.view, *frame.mutable_activate()->mutable_view());
}

Activate Get(Reader& reader, const v1::Activate& message) {
  const Reader::Scope scope(reader, "view");
  return {Read(reader, message.view())};
}

void Put(const GiveOrder& give, v1::MemberFrame& frame) {
  v1::GiveOrder& out = *frame.mutable_give_order();
  out.set_view(give.view.value());
  Write(give.order, *out.mutable_order());
}

GiveOrder Get(Reader& reader, const v1::GiveOrder& message) {
  const ViewNumber view(reader.Number("view", message.view()));
  const Reader::Scope scope(reader, "order");
  return {view, Read(reader, message.order())};
}

void Put(const AckRecords& ack, v1::MemberFrame& frame) {
  v1::AckRecords& out = *frame.mutable_ack_records();
  out.set_lineage(ack.lineage.value());
  out.set_below(ack.below.value());
}

AckRecords Get(Reader& reader, const v1::AckRecords& message) {
  return {LineageNumber(reader.Number("lineage", message.lineage())),
          Step(reader.Number("below", message.below()))};
}

void Put(const AckSegments& ack, v1::MemberFrame& frame) {
  frame.mutable_ack_segments()->mutable_ids()->Add(ack.ids.begin(), ack.ids.end());
}

AckSegments Get(Reader& reader, const v1::AckSegments& message) {
  AckSegments ack;
  if (!reader.Count("ids", message.ids_size(), kMaxAcknowledged)) return ack;
  for (const int64_t id : message.ids()) ack.ids.push_back(reader.Number("ids", id));
  return ack;
}

void Put(const Leave& leave, v1::MemberFrame& frame) {
  v1::Leave& out = *frame.mutable_leave();
  out.set_exit_code(leave.exit_code);
  out.set_reason(leave.reason);
}

Leave Get(Reader& reader, const v1::Leave& message) {
  return {reader.Small("exit_code", message.exit_code(), 0, kMaxExitCode),
          reader.Text("reason", message.reason())};
}

// ---- agents

void Put(const AgentHello& hello, v1::CoordinatorFrame& frame) {
  frame.mutable_agent_hello()->set_node(hello.node);
}

AgentHello Get(Reader& reader, const v1::AgentHello& message) {
  return {reader.Text("node", message.node())};
}

void Put(const ProcessExited& exited, v1::CoordinatorFrame& frame) {
  v1::ProcessExited& out = *frame.mutable_process_exited();
  out.set_job(exited.job);
  out.set_name(exited.name);
  out.set_exit_code(exited.exit_code);
  out.set_signal(exited.signal);
  out.set_cause(exited.cause);
  out.set_gave_up(exited.gave_up);
  v1::LaneCount& lanes = *out.mutable_lanes();
  lanes.set_incarnation_hi(exited.lanes.incarnation.hi);
  lanes.set_incarnation_lo(exited.lanes.incarnation.lo);
  lanes.set_total(exited.lanes.total);
  lanes.set_lineage(exited.lanes.lineage.value());
  lanes.set_step(exited.lanes.step.value());
  lanes.set_in_step(exited.lanes.in_step);
  out.set_last_lines(exited.last_lines);
}

LaneCount ReadLanes(Reader& reader, const v1::LaneCount& message) {
  const Reader::Scope scope(reader, "lanes");
  return {{message.incarnation_hi(), message.incarnation_lo()},
          reader.Number("total", message.total()),
          LineageNumber(reader.Number("lineage", message.lineage())),
          Step(reader.Number("step", message.step())),
          reader.Number("in_step", message.in_step())};
}

ProcessExited Get(Reader& reader, const v1::ProcessExited& message) {
  return {reader.Text("job", message.job()),
          reader.Text("name", message.name()),
          reader.Small("exit_code", message.exit_code(), 0, kMaxExitCode),
          reader.Small("signal", message.signal(), 0, kMaxSignal),
          reader.Text("cause", message.cause()),
          message.gave_up(),
          ReadLanes(reader, message.lanes()),
          reader.Text("last_lines", message.last_lines())};
}

void Put(const Wanted& wanted, v1::MemberFrame& frame) {
  v1::Wanted& out = *frame.mutable_wanted();
  out.set_job(wanted.job);
  for (const ProcessWanted& process : wanted.processes) {
    v1::ProcessWanted& message = *out.add_processes();
    message.set_name(process.name);
    message.set_role(WireRole(process.role));
  }
}

Wanted Get(Reader& reader, const v1::Wanted& message) {
  Wanted wanted{reader.Text("job", message.job()), {}};
  if (!reader.Count("processes", message.processes_size(), kMaxMembers)) return wanted;
  for (int i = 0; i < message.processes_size() && reader.ok(); ++i) {
    const Reader::Scope scope(reader, "processes", i);
    const v1::ProcessWanted& process = message.processes(i);
    wanted.processes.push_back(
        {reader.Text("name", process.name()), reader.Enum("role", process.role(), Role::kServer)});
  }
  return wanted;
}

// ---- member ↔ member

// Norms, Results and the like begin alike.
template <class Part, class Message>
void PutPlace(const Part& part, Message& out) {
  out.set_lineage(part.lineage.value());
  out.set_view(part.view.value());
  out.set_step(part.step.value());
}

template <class Part, class Message>
void GetPlace(Reader& reader, const Message& message, Part& part) {
  part.lineage = LineageNumber(reader.Number("lineage", message.lineage()));
  part.view = ViewNumber(reader.Number("view", message.view()));
  part.step = Step(reader.Number("step", message.step()));
}

ChunkId ReadChunk(Reader& reader, uint32_t chunk) {
  return ChunkId(reader.Small("chunks", chunk, 0, kMaxChunks - 1));
}

void Put(const Hello& hello, v1::PeerFrame& frame) {
  v1::Hello& out = *frame.mutable_hello();
  out.set_job(hello.job);
  Write(hello.from, *out.mutable_from());
  Write(hello.to, *out.mutable_to());
}

Hello Get(Reader& reader, const v1::Hello& message) {
  return {reader.Text("job", message.job()), Read(reader, message.from()),
          Read(reader, message.to())};
}

void Put(const Have& have, v1::PeerFrame& frame) {
  v1::Have& out = *frame.mutable_have();
  PutPlace(have, out);
  Write(have.partials, *out.mutable_partials());
  Write(have.results, *out.mutable_results());
}

Have Get(Reader& reader, const v1::Have& message) {
  Have have;
  GetPlace(reader, message, have);
  have.partials = Read(reader, "partials", message.partials());
  have.results = Read(reader, "results", message.results());
  reader.SameCount("results", message.results().size(), message.partials().size());
  return have;
}

void Put(const Partials& partials, v1::PeerFrame& frame) {
  v1::Partials& out = *frame.mutable_partials();
  PutPlace(partials, out);
  for (const ChunkPartials& chunk : partials.chunks) {
    out.add_chunks(static_cast<uint32_t>(chunk.chunk.value()));
    out.add_counts(static_cast<uint32_t>(chunk.partials.size()));
    for (const Partial& partial : chunk.partials) {
      out.add_lo(static_cast<uint32_t>(partial.node.lo));
      out.add_hi(static_cast<uint32_t>(partial.node.hi));
      out.add_weights(partial.weight);
      out.add_losses(partial.loss);
      out.add_crcs(partial.crc);
    }
  }
  Write(partials.orders, *out.mutable_orders());
}

bool PartialListsMatch(Reader& reader, const v1::Partials& message) {
  int64_t subtrees = 0;
  for (const uint32_t count : message.counts()) subtrees += count;
  return reader.Count("chunks", message.chunks_size(), kMaxChunks) &&
         reader.SameCount("counts", message.counts_size(), message.chunks_size()) &&
         reader.SameCount("lo", message.lo_size(), subtrees) &&
         reader.SameCount("hi", message.hi_size(), subtrees) &&
         reader.SameCount("weights", message.weights_size(), subtrees) &&
         reader.SameCount("losses", message.losses_size(), subtrees) &&
         reader.SameCount("crcs", message.crcs_size(), subtrees);
}

Partial ReadPartial(Reader& reader, const v1::Partials& message, int i) {
  Partial partial;
  partial.node.hi = reader.Small("hi", message.hi(i), 1, kMaxLanes);
  partial.node.lo = reader.Small("lo", message.lo(i), 0, partial.node.hi - 1);
  partial.weight = reader.Number("weights", message.weights(i));
  partial.loss = message.losses(i);
  partial.crc = message.crcs(i);
  return partial;
}

Partials Get(Reader& reader, const v1::Partials& message) {
  Partials partials;
  GetPlace(reader, message, partials);
  if (!PartialListsMatch(reader, message)) return partials;
  partials.chunks.reserve(static_cast<size_t>(message.chunks_size()));
  int next = 0;
  for (int c = 0; c < message.chunks_size() && reader.ok(); ++c) {
    ChunkPartials& chunk = partials.chunks.emplace_back();
    chunk.chunk = ReadChunk(reader, message.chunks(c));
    const int end = next + static_cast<int>(message.counts(c));
    chunk.partials.reserve(message.counts(c));
    for (; next < end; ++next) chunk.partials.push_back(ReadPartial(reader, message, next));
  }
  partials.orders = Read(reader, message.orders());
  reader.Require(partials.orders.empty() || partials.chunks.empty(), "orders",
                 "only without chunks");
  return partials;
}

void Write(const std::vector<ChunkResult>& chunks, v1::ChunkResults& out) {
  for (const ChunkResult& chunk : chunks) {
    out.add_chunks(static_cast<uint32_t>(chunk.chunk.value()));
    out.add_weights(chunk.meta.weight);
    out.add_losses(chunk.meta.loss);
    out.add_sums_of_squares(chunk.meta.sum_of_squares);
    out.add_crcs(chunk.meta.crc);
  }
}

std::vector<ChunkResult> ReadChunks(Reader& reader, const v1::ChunkResults& message) {
  const Reader::Scope scope(reader, "chunks");
  std::vector<ChunkResult> chunks;
  const int count = message.chunks_size();
  if (!reader.Count("chunks", count, kMaxChunks) ||
      !reader.SameCount("weights", message.weights_size(), count) ||
      !reader.SameCount("losses", message.losses_size(), count) ||
      !reader.SameCount("sums_of_squares", message.sums_of_squares_size(), count) ||
      !reader.SameCount("crcs", message.crcs_size(), count))
    return chunks;
  chunks.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count && reader.ok(); ++i)
    chunks.push_back({ReadChunk(reader, message.chunks(i)),
                      {reader.Number("weights", message.weights(i)), message.losses(i),
                       message.sums_of_squares(i), message.crcs(i)}});
  return chunks;
}

void Put(const Results& results, v1::PeerFrame& frame) {
  v1::Results& out = *frame.mutable_results();
  PutPlace(results, out);
  Write(results.chunks, *out.mutable_chunks());
  Write(results.orders, *out.mutable_orders());
}

Results Get(Reader& reader, const v1::Results& message) {
  Results results;
  GetPlace(reader, message, results);
  results.chunks = ReadChunks(reader, message.chunks());
  results.orders = Read(reader, message.orders());
  return results;
}

void Put(const Norms& norms, v1::PeerFrame& frame) {
  v1::Norms& out = *frame.mutable_norms();
  PutPlace(norms, out);
  Write(norms.chunks, *out.mutable_chunks());
}

Norms Get(Reader& reader, const v1::Norms& message) {
  Norms norms;
  GetPlace(reader, message, norms);
  norms.chunks = ReadChunks(reader, message.chunks());
  return norms;
}

void Put(const Verdict& verdict, v1::PeerFrame& frame) {
  v1::Verdict& out = *frame.mutable_verdict();
  PutPlace(verdict, out);
  out.set_norm(verdict.norm);
  Write(verdict.orders, *out.mutable_orders());
}

Verdict Get(Reader& reader, const v1::Verdict& message) {
  Verdict verdict;
  GetPlace(reader, message, verdict);
  verdict.norm = message.norm();
  verdict.orders = Read(reader, message.orders());
  return verdict;
}

v1::PieceKind WireKind(PieceKind kind) {
  return static_cast<v1::PieceKind>(static_cast<int>(kind) + 1);
}

void Put(const Fetch& fetch, v1::PeerFrame& frame) {
  v1::Fetch& out = *frame.mutable_fetch();
  out.set_view(fetch.view.value());
  out.set_kind(WireKind(fetch.kind));
  out.set_slot(fetch.slot);
  out.set_step(fetch.step.value());
  for (const ChunkId chunk : fetch.chunks) out.add_chunks(static_cast<uint32_t>(chunk.value()));
}

Fetch Get(Reader& reader, const v1::Fetch& message) {
  Fetch fetch;
  fetch.view = ViewNumber(reader.Number("view", message.view()));
  fetch.kind = reader.Enum("kind", message.kind(), PieceKind::kResult);
  fetch.slot = reader.Small("slot", message.slot(), 0, kMaxOptimizerSlots - 1);
  fetch.step = Step(reader.Number("step", message.step()));
  if (!reader.Count("chunks", message.chunks_size(), kMaxChunks)) return fetch;
  fetch.chunks.reserve(static_cast<size_t>(message.chunks_size()));
  for (const uint32_t chunk : message.chunks()) fetch.chunks.push_back(ReadChunk(reader, chunk));
  return fetch;
}

void Put(const Pieces& pieces, v1::PeerFrame& frame) {
  v1::Pieces& out = *frame.mutable_pieces();
  PutPlace(pieces, out);
  out.set_kind(WireKind(pieces.kind));
  out.set_slot(pieces.slot);
  Write(pieces.chunks, *out.mutable_chunks());
  Write(pieces.orders, *out.mutable_orders());
  if (pieces.record) Write(*pieces.record, *out.mutable_record());
}

Pieces Get(Reader& reader, const v1::Pieces& message) {
  Pieces pieces;
  GetPlace(reader, message, pieces);
  pieces.kind = reader.Enum("kind", message.kind(), PieceKind::kResult);
  pieces.slot = reader.Small("slot", message.slot(), 0, kMaxOptimizerSlots - 1);
  pieces.chunks = ReadChunks(reader, message.chunks());
  pieces.orders = Read(reader, message.orders());
  if (message.has_record()) {
    const Reader::Scope scope(reader, "record");
    pieces.record = Read(reader, message.record());
  }
  return pieces;
}

// ---- frames

template <class Frame, class Message>
std::string EncodeIn(const Message& message) {
  ThreadArena arena;
  Frame& frame = arena.New<Frame>();
  std::visit([&frame](const auto& kind) { Put(kind, frame); }, message);
  return frame.SerializeAsString();
}

// The message in the frame; nothing when the frame is of a kind that this reader has no use for.
std::optional<std::variant<ToCoordinator, FromAgent>> Open(Reader& reader,
                                                           const v1::CoordinatorFrame& frame) {
  using Kind = v1::CoordinatorFrame;
  const auto member = [&](const auto& message) { return ToCoordinator(Get(reader, message)); };
  switch (frame.kind_case()) {
    case Kind::kAskJob: return member(frame.ask_job());
    case Kind::kJoin: return member(frame.join());
    case Kind::kSealed: return member(frame.sealed());
    case Kind::kHoldsBase: return member(frame.holds_base());
    case Kind::kBaseFailed: return member(frame.base_failed());
    case Kind::kRecords: return member(frame.records());
    case Kind::kSegmentWritten: return member(frame.segment_written());
    case Kind::kSegmentFailed: return member(frame.segment_failed());
    case Kind::kAlive: return member(frame.alive());
    case Kind::kAgentHello: return FromAgent(Get(reader, frame.agent_hello()));
    case Kind::kProcessExited: return FromAgent(Get(reader, frame.process_exited()));
    case Kind::KIND_NOT_SET: return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::variant<FromCoordinator, ToAgent>> Open(Reader& reader,
                                                           const v1::MemberFrame& frame) {
  using Kind = v1::MemberFrame;
  const auto member = [&](const auto& message) { return FromCoordinator(Get(reader, message)); };
  switch (frame.kind_case()) {
    case Kind::kJobIs: return member(frame.job_is());
    case Kind::kSeal: return member(frame.seal());
    case Kind::kHeal: return member(frame.heal());
    case Kind::kActivate: return member(frame.activate());
    case Kind::kGiveOrder: return member(frame.give_order());
    case Kind::kAckRecords: return member(frame.ack_records());
    case Kind::kAckSegments: return member(frame.ack_segments());
    case Kind::kLeave: return member(frame.leave());
    case Kind::kWanted: return ToAgent(Get(reader, frame.wanted()));
    case Kind::KIND_NOT_SET: return std::nullopt;
  }
  return std::nullopt;
}

std::optional<PeerMessage> Open(Reader& reader, const v1::PeerFrame& frame) {
  using Kind = v1::PeerFrame;
  switch (frame.kind_case()) {
    case Kind::kHello: return Get(reader, frame.hello());
    case Kind::kHave: return Get(reader, frame.have());
    case Kind::kPartials: return Get(reader, frame.partials());
    case Kind::kResults: return Get(reader, frame.results());
    case Kind::kNorms: return Get(reader, frame.norms());
    case Kind::kVerdict: return Get(reader, frame.verdict());
    case Kind::kFetch: return Get(reader, frame.fetch());
    case Kind::kPieces: return Get(reader, frame.pieces());
    case Kind::KIND_NOT_SET: return std::nullopt;
  }
  return std::nullopt;
}

template <class Frame, class Message>
absl::StatusOr<Message> DecodeFrame(std::string_view header) {
  if (header.size() > kMaxMessageBytes)
    return absl::InvalidArgumentError(absl::StrCat("header: ", header.size(), " bytes; at most ",
                                                   kMaxMessageBytes, " are allowed"));
  ThreadArena arena;
  Frame& frame = arena.New<Frame>();
  MUSTER_RETURN_IF_ERROR(Parse(header, frame));
  Reader reader;
  std::optional<Message> message = Open(reader, frame);
  if (!message)
    return absl::InvalidArgumentError(
        "kind: none that this version of muster knows; use equal versions");
  if (!reader.ok()) {
    const auto* kind =
        Frame::GetReflection()->GetOneofFieldDescriptor(frame, Frame::descriptor()->oneof_decl(0));
    return Prefix(kind->name(), reader.status());
  }
  return *std::move(message);
}

// The half of a two-way frame that this session is about.
template <class Message, class Either>
absl::StatusOr<Message> Only(absl::StatusOr<Either> either, const char* who) {
  if (!either.ok()) return either.status();
  if (Message* message = std::get_if<Message>(&*either)) return std::move(*message);
  return absl::InvalidArgumentError(absl::StrCat("kind: not a message ", who));
}

absl::StatusOr<std::variant<FromCoordinator, ToAgent>> DecodeOfCoordinator(
    std::string_view header) {
  return DecodeFrame<v1::MemberFrame, std::variant<FromCoordinator, ToAgent>>(header);
}

}  // namespace

std::string Encode(const ToCoordinator& message) { return EncodeIn<v1::CoordinatorFrame>(message); }
std::string Encode(const FromCoordinator& message) { return EncodeIn<v1::MemberFrame>(message); }
std::string Encode(const PeerMessage& message) { return EncodeIn<v1::PeerFrame>(message); }
std::string Encode(const FromAgent& message) { return EncodeIn<v1::CoordinatorFrame>(message); }
std::string Encode(const ToAgent& message) { return EncodeIn<v1::MemberFrame>(message); }

absl::StatusOr<std::variant<ToCoordinator, FromAgent>> DecodeAtCoordinator(
    std::string_view header) {
  return DecodeFrame<v1::CoordinatorFrame, std::variant<ToCoordinator, FromAgent>>(header);
}

absl::StatusOr<ToCoordinator> DecodeToCoordinator(std::string_view header) {
  return Only<ToCoordinator>(DecodeAtCoordinator(header), "of a member");
}
absl::StatusOr<FromAgent> DecodeFromAgent(std::string_view header) {
  return Only<FromAgent>(DecodeAtCoordinator(header), "of an agent");
}
absl::StatusOr<FromCoordinator> DecodeFromCoordinator(std::string_view header) {
  return Only<FromCoordinator>(DecodeOfCoordinator(header), "to a member");
}
absl::StatusOr<ToAgent> DecodeToAgent(std::string_view header) {
  return Only<ToAgent>(DecodeOfCoordinator(header), "to an agent");
}
absl::StatusOr<PeerMessage> DecodePeerMessage(std::string_view header) {
  return DecodeFrame<v1::PeerFrame, PeerMessage>(header);
}

}  // namespace muster
