#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "lib/wire/frame_proto.h"
#include "lib/wire/job_codec_proto.h"
#include "lib/wire/manifest_codec.h"
#include "lib/wire/message_codec.h"
#include "lib/wire/parts_proto.h"
#include "lib/wire/stream_proto.h"
#include "muster/v1/agent.pb.h"
#include "muster/v1/membership.pb.h"

namespace muster {
namespace {

constexpr int64_t kMaxSegments = 65536;
constexpr int64_t kMaxAcknowledged = 65536;

void Put(const JobIs& is, v1::MemberFrame& frame) {
  v1::JobIs& out = *frame.mutable_job_is();
  out.set_job(is.job);
  out.set_start(is.start.value());
  out.set_cluster(is.cluster);
  out.set_term(is.term.value());
  *out.mutable_spec() = ToProto(is.spec);
  out.set_checkpoint_dir(is.checkpoint_dir);
  if (is.environment) Write(*is.environment, *out.mutable_environment());
  Write(is.speaks, *out.mutable_speaks());
}

JobIs Get(Reader& reader, const v1::JobIs& message) {
  JobIs is;
  is.job = reader.Text("job", message.job());
  is.start = StartNumber(reader.Number("start", message.start()));
  is.cluster = reader.Text("cluster", message.cluster());
  is.term = TermNumber(reader.Number("term", message.term()));
  is.spec = reader.Unwrap("spec", FromProto(message.spec()));
  is.checkpoint_dir = reader.Text("checkpoint_dir", message.checkpoint_dir());
  is.speaks = Read(reader, message.speaks());
  if (message.has_environment()) {
    const Reader::Scope scope(reader, "environment");
    is.environment = Read(reader, message.environment());
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
  return reader.Unwrap("", FromProto(message));
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

void Put(const ViewStands& stands, v1::MemberFrame& frame) {
  v1::ViewStands& out = *frame.mutable_view_stands();
  out.set_term(stands.term.value());
  out.set_view(stands.view.value());
}

ViewStands Get(Reader& reader, const v1::ViewStands& message) {
  return {TermNumber(reader.Number("term", message.term())),
          ViewNumber(reader.Number("view", message.view()))};
}

void Put(const GiveCommand& give, v1::MemberFrame& frame) {
  v1::GiveCommand& out = *frame.mutable_give_command();
  out.set_term(give.term.value());
  out.set_view(give.view.value());
  Write(give.command, *out.mutable_command());
}

GiveCommand Get(Reader& reader, const v1::GiveCommand& message) {
  const TermNumber term(reader.Number("term", message.term()));
  const ViewNumber view(reader.Number("view", message.view()));
  const Reader::Scope scope(reader, "command");
  return {term, view, Read(reader, message.command())};
}

void Put(const AckRecords& ack, v1::MemberFrame& frame) {
  v1::AckRecords& out = *frame.mutable_ack_records();
  out.set_term(ack.term.value());
  out.set_lineage(ack.lineage.value());
  out.set_below(ack.below.value());
}

AckRecords Get(Reader& reader, const v1::AckRecords& message) {
  return {TermNumber(reader.Number("term", message.term())),
          LineageNumber(reader.Number("lineage", message.lineage())),
          Step(reader.Number("below", message.below()))};
}

void Put(const AckSegments& ack, v1::MemberFrame& frame) {
  v1::AckSegments& out = *frame.mutable_ack_segments();
  out.set_term(ack.term.value());
  out.mutable_ids()->Add(ack.ids.begin(), ack.ids.end());
}

AckSegments Get(Reader& reader, const v1::AckSegments& message) {
  AckSegments ack{TermNumber(reader.Number("term", message.term())), {}};
  if (!reader.Count("ids", message.ids_size(), kMaxAcknowledged)) return ack;
  for (const int64_t id : message.ids()) ack.ids.push_back(reader.Number("ids", id));
  return ack;
}

void Put(const MeasureState& measure, v1::MemberFrame& frame) {
  v1::MeasureState& out = *frame.mutable_measure_state();
  out.set_term(measure.term.value());
  out.set_lineage(measure.lineage.value());
  out.set_step(measure.step.value());
  *out.mutable_manifest() = ToProto(measure.manifest);
}

MeasureState Get(Reader& reader, const v1::MeasureState& message) {
  return {TermNumber(reader.Number("term", message.term())),
          LineageNumber(reader.Number("lineage", message.lineage())),
          Step(reader.Number("step", message.step())), ReadManifest(reader, message.manifest())};
}

void Put(const AckMeasured& ack, v1::MemberFrame& frame) {
  v1::AckMeasured& out = *frame.mutable_ack_measured();
  out.set_term(ack.term.value());
  out.set_lineage(ack.lineage.value());
  out.set_step(ack.step.value());
}

AckMeasured Get(Reader& reader, const v1::AckMeasured& message) {
  return {TermNumber(reader.Number("term", message.term())),
          LineageNumber(reader.Number("lineage", message.lineage())),
          Step(reader.Number("step", message.step()))};
}

void Put(const GiveMeasure& give, v1::MemberFrame& frame) {
  v1::GiveMeasure& out = *frame.mutable_give_measure();
  out.set_term(give.term.value());
  out.set_view(give.view.value());
  Write(MeasureFact{give.lineage, give.step, give.sums}, *out.mutable_fact());
}

GiveMeasure Get(Reader& reader, const v1::GiveMeasure& message) {
  const TermNumber term(reader.Number("term", message.term()));
  const ViewNumber view(reader.Number("view", message.view()));
  const Reader::Scope scope(reader, "fact");
  MeasureFact fact = Read(reader, message.fact());
  return {term, view, fact.lineage, fact.step, std::move(fact.sums)};
}

void Put(const SpoolFrom& from, v1::MemberFrame& frame) {
  Write(from, *frame.mutable_spool_from());
}
SpoolFrom Get(Reader& reader, const v1::SpoolFrom& message) { return Read(reader, message); }

void Put(const AckSpooled& ack, v1::MemberFrame& frame) {
  Write(ack, *frame.mutable_ack_spooled());
}
AckSpooled Get(Reader& reader, const v1::AckSpooled& message) { return Read(reader, message); }

void Put(const StreamIs& stream, v1::MemberFrame& frame) {
  Write(stream, *frame.mutable_stream_is());
}
StreamIs Get(Reader& reader, const v1::StreamIs& message) { return Read(reader, message); }

void Put(const Leave& leave, v1::MemberFrame& frame) {
  v1::Leave& out = *frame.mutable_leave();
  out.set_term(leave.term.value());
  out.set_exit_code(leave.exit_code);
  out.set_reason(leave.reason);
  out.set_cluster(leave.cluster);
}

Leave Get(Reader& reader, const v1::Leave& message) {
  return {TermNumber(reader.Number("term", message.term())),
          reader.Small("exit_code", message.exit_code(), 0, kMaxExitCode),
          Reader::Words(message.reason()), reader.Text("cluster", message.cluster())};
}

void Put(const Wanted& wanted, v1::MemberFrame& frame) {
  v1::Wanted& out = *frame.mutable_wanted();
  out.set_cluster(wanted.cluster);
  out.set_term(wanted.term.value());
  Write(wanted.speaks, *out.mutable_speaks());
  for (const JobProcesses& job : wanted.jobs) {
    v1::JobProcesses& to = *out.add_jobs();
    to.set_job(job.job);
    to.set_start(job.start.value());
    to.set_first_start(job.first_start.value());
    to.set_restarts(job.restarts);
    for (const ProcessWanted& process : job.processes) {
      v1::ProcessWanted& message = *to.add_processes();
      message.set_name(process.name);
      message.set_role(WireRole(process.role));
      message.set_placement(process.placement.value());
      for (const std::string& id : process.devices) message.add_devices(id);
    }
  }
}

JobProcesses ReadProcesses(Reader& reader, const v1::JobProcesses& message) {
  JobProcesses job{reader.Text("job", message.job()),
                   StartNumber(reader.Number("start", message.start())),
                   {},
                   StartNumber(reader.Number("first_start", message.first_start())),
                   reader.Small("restarts", message.restarts(), 0, kMostRestarts)};
  if (!reader.Count("processes", message.processes_size(), kMaxMembers)) return job;
  for (int i = 0; i < message.processes_size() && reader.ok(); ++i) {
    const Reader::Scope scope(reader, "processes", i);
    const v1::ProcessWanted& process = message.processes(i);
    job.processes.push_back({reader.Text("name", process.name()),
                             reader.Enum("role", process.role(), Role::kReader),
                             PlacementNumber(reader.Number("placement", process.placement()))});
    if (!reader.Count("devices", process.devices_size(), kMostDevices)) return job;
    for (const std::string& id : process.devices())
      job.processes.back().devices.push_back(reader.DeviceId("devices", id));
  }
  return job;
}

Wanted Get(Reader& reader, const v1::Wanted& message) {
  Wanted wanted;
  if (!reader.Count("jobs", message.jobs_size(), kMaxMembers)) return wanted;
  for (int i = 0; i < message.jobs_size() && reader.ok(); ++i) {
    const Reader::Scope scope(reader, "jobs", i);
    wanted.jobs.push_back(ReadProcesses(reader, message.jobs(i)));
  }
  wanted.cluster = reader.Text("cluster", message.cluster());
  wanted.term = TermNumber(reader.Number("term", message.term()));
  wanted.speaks = Read(reader, message.speaks());
  return wanted;
}

void Put(const MemberSigned& answer, v1::MemberFrame& frame) {
  v1::MemberSigned& out = *frame.mutable_member_signed();
  Write(answer.process, *out.mutable_process());
  out.set_certificate_pem(answer.certificate_pem);
  out.set_authority_pem(answer.authority_pem);
  out.set_now_unix_ms(answer.now_unix_ms);
}

MemberSigned Get(Reader& reader, const v1::MemberSigned& message) {
  return {Read(reader, message.process()),
          reader.Text("certificate_pem", message.certificate_pem()),
          reader.Text("authority_pem", message.authority_pem()),
          reader.Number("now_unix_ms", message.now_unix_ms())};
}

void Put(const SignRefused& refused, v1::MemberFrame& frame) {
  v1::SignRefused& out = *frame.mutable_sign_refused();
  Write(refused.process, *out.mutable_process());
  out.set_why(refused.why);
}

SignRefused Get(Reader& reader, const v1::SignRefused& message) {
  return {Read(reader, message.process()), Reader::Words(message.why())};
}

void Put(const AuthorityIs& is, v1::MemberFrame& frame) {
  frame.mutable_authority_is()->set_hash(is.hash);
}

AuthorityIs Get(Reader&, const v1::AuthorityIs& message) { return {Reader::Words(message.hash())}; }

using Either = std::variant<FromCoordinator, ToAgent>;

std::optional<Either> Open(Reader& reader, const v1::MemberFrame& frame) {
  using Kind = v1::MemberFrame;
  const auto member = [&](const auto& message) { return FromCoordinator(Get(reader, message)); };
  switch (frame.kind_case()) {
    case Kind::kJobIs: return member(frame.job_is());
    case Kind::kSeal: return member(frame.seal());
    case Kind::kHeal: return member(frame.heal());
    case Kind::kActivate: return member(frame.activate());
    case Kind::kViewStands: return member(frame.view_stands());
    case Kind::kGiveCommand: return member(frame.give_command());
    case Kind::kAckRecords: return member(frame.ack_records());
    case Kind::kAckSegments: return member(frame.ack_segments());
    case Kind::kLeave: return member(frame.leave());
    case Kind::kMeasureState: return member(frame.measure_state());
    case Kind::kAckMeasured: return member(frame.ack_measured());
    case Kind::kGiveMeasure: return member(frame.give_measure());
    case Kind::kSpoolFrom: return member(frame.spool_from());
    case Kind::kAckSpooled: return member(frame.ack_spooled());
    case Kind::kStreamIs: return member(frame.stream_is());
    case Kind::kWanted: return ToAgent(Get(reader, frame.wanted()));
    case Kind::kMemberSigned: return ToAgent(Get(reader, frame.member_signed()));
    case Kind::kSignRefused: return ToAgent(Get(reader, frame.sign_refused()));
    case Kind::kAuthorityIs: return ToAgent(Get(reader, frame.authority_is()));
    case Kind::KIND_NOT_SET: return std::nullopt;
  }
  return std::nullopt;
}

std::string EncodeAny(const auto& message) {
  return EncodeIn<v1::MemberFrame>(
      message, [](const auto& kind, v1::MemberFrame& frame) { Put(kind, frame); });
}

absl::StatusOr<Either> DecodeAny(std::string_view header) { return DecodeFrame(header, &Open); }

}  // namespace

std::string Encode(const FromCoordinator& message) { return EncodeAny(message); }
std::string Encode(const ToAgent& message) { return EncodeAny(message); }

absl::StatusOr<FromCoordinator> DecodeFromCoordinator(std::string_view header) {
  return Only<FromCoordinator>(DecodeAny(header), "to a member");
}
absl::StatusOr<ToAgent> DecodeToAgent(std::string_view header) {
  return Only<ToAgent>(DecodeAny(header), "to an agent");
}

}  // namespace muster
