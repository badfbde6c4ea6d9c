#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"
#include "lib/wire/frame_proto.h"
#include "lib/wire/manifest_codec.h"
#include "lib/wire/message_codec.h"
#include "lib/wire/parts_proto.h"
#include "lib/wire/stream_proto.h"
#include "muster/v1/agent.pb.h"
#include "muster/v1/membership.pb.h"

namespace muster {
namespace {

constexpr int64_t kMaxRecords = 65536;
constexpr int kMaxSignal = 127;
constexpr int64_t kMaxNameBytes = 1024;
// An empty record takes two bytes of a frame and some two hundred here. Nobody has reason to tell
// of many; one that says something takes less than this for each byte.
constexpr size_t kMostRecordBytesPerByte = 32;
constexpr size_t kRecordBytesInAnyCase = size_t{16} << 10;

// What a stranger says first is kept before anybody knows whether there is such a job.
std::string Name(Reader& reader, const char* field, const std::string& text) {
  if (static_cast<int64_t>(text.size()) <= kMaxNameBytes) return text;
  reader.Refuse(field,
                absl::StrCat(text.size(), " bytes; at most ", kMaxNameBytes, " are allowed"));
  return "";
}

void Put(const AskJob& ask, v1::CoordinatorFrame& frame) {
  v1::AskJob& out = *frame.mutable_ask_job();
  out.set_job(ask.job);
  out.set_name(ask.name);
  Write(ask.speaks, *out.mutable_speaks());
  if (!ask.preparing) return;
  v1::AskJob::HowFar& how_far = *out.mutable_preparing();
  how_far.set_waits(ask.preparing->waits);
  how_far.set_hashes(ask.preparing->hashes);
  how_far.set_percent(static_cast<uint32_t>(ask.preparing->percent));
  how_far.set_what(ask.preparing->what);
}

HowFar Read(Reader& reader, const v1::AskJob::HowFar& message) {
  const Reader::Scope scope(reader, "preparing");
  return {message.waits(), message.hashes(), reader.Small("percent", message.percent(), 0, 100),
          Cut(Printable(message.what()), kMostHowFarBytes)};
}

AskJob Get(Reader& reader, const v1::AskJob& message) {
  AskJob ask{Name(reader, "job", message.job()), reader.OwnName("name", message.name()),
             Read(reader, message.speaks())};
  if (message.has_preparing()) ask.preparing = Read(reader, message.preparing());
  return ask;
}

void Put(const Join& join, v1::CoordinatorFrame& frame) {
  v1::Join& out = *frame.mutable_join();
  out.set_job(join.job);
  out.set_start(join.start.value());
  out.set_placement(join.placement.value());
  Write(join.id, *out.mutable_id());
  out.set_role(WireRole(join.role));
  out.set_node(join.node);
  out.set_address(join.address);
  out.set_cluster(join.cluster);
  out.set_term(join.term.value());
  Write(join.environment, *out.mutable_environment());
  out.set_sealed(join.sealed.value());
  out.set_active(join.active.value());
  out.set_recorded_lineage(join.recorded_lineage.value());
  out.set_recorded(join.recorded.value());
  out.set_stream_positions(join.stream_positions);
  Write(join.speaks, *out.mutable_speaks());
}

Join Get(Reader& reader, const v1::Join& message) {
  Join join;
  join.job = Name(reader, "job", message.job());
  join.start = StartNumber(reader.Number("start", message.start()));
  join.placement = PlacementNumber(reader.Number("placement", message.placement()));
  join.id = ReadSpeaker(reader, "id", message.id());
  join.role = reader.Enum("role", message.role(), Role::kReader);
  join.node = Reader::Words(message.node());
  join.address = Reader::Words(message.address());
  join.cluster = Reader::Words(message.cluster());
  join.term = TermNumber(reader.Number("term", message.term()));
  {
    const Reader::Scope scope(reader, "environment");
    join.environment = Read(reader, message.environment());
  }
  join.sealed = ViewNumber(reader.Number("sealed", message.sealed()));
  join.active = ViewNumber(reader.Number("active", message.active()));
  join.recorded_lineage =
      LineageNumber(reader.Number("recorded_lineage", message.recorded_lineage()));
  join.recorded = Step(reader.Number("recorded", message.recorded()));
  join.stream_positions = ReadPositions(reader, "stream_positions", message.stream_positions());
  join.speaks = Read(reader, message.speaks());
  return join;
}

void Put(const Sealed& sealed, v1::CoordinatorFrame& frame) {
  v1::Sealed& out = *frame.mutable_sealed();
  out.set_view(sealed.view.value());
  const LocalState& local_state = sealed.local_state;
  v1::LocalState& held = *out.mutable_local_state();
  held.set_has_state(local_state.has_state);
  held.set_lineage(local_state.lineage.value());
  held.set_step(local_state.step.value());
  Write(local_state.results, *held.mutable_results());
  Write(local_state.sums, *held.mutable_sums());
  held.set_previous_results(local_state.previous_results);
  for (const LaneId lane : local_state.lanes) held.add_lanes(static_cast<uint32_t>(lane.value()));
  if (!local_state.measured_part) return;
  v1::MeasuredPart& part = *held.mutable_measured_part();
  part.set_lineage(local_state.measured_part->lineage.value());
  part.set_step(local_state.measured_part->step.value());
  Write(local_state.measured_part->chunks, *part.mutable_chunks());
}

std::vector<LaneId> ReadLaneIds(Reader& reader, const PackedIndices& message) {
  std::vector<LaneId> lanes;
  for (const int32_t lane :
       ReadIndices(reader, "lanes", message, kMaxLanes, static_cast<size_t>(kMaxLanes))) {
    const bool ascending = lanes.empty() || lanes.back() < LaneId(lane);
    if (!reader.Require(ascending, "lanes", "not ascending")) break;
    lanes.emplace_back(lane);
  }
  return lanes;
}

LocalState ReadLocalState(Reader& reader, const v1::LocalState& message) {
  const Reader::Scope scope(reader, "local_state");
  LocalState local_state;
  local_state.has_state = message.has_state();
  local_state.lineage = LineageNumber(reader.Number("lineage", message.lineage()));
  local_state.step = Step(reader.Number("step", message.step()));
  local_state.results = Read(reader, "results", message.results());
  local_state.sums = Read(reader, "sums", message.sums());
  local_state.previous_results = message.previous_results();
  local_state.lanes = ReadLaneIds(reader, message.lanes());
  if (!message.has_measured_part()) return local_state;
  const Reader::Scope part(reader, "measured_part");
  const v1::MeasuredPart& from = message.measured_part();
  local_state.measured_part = {LineageNumber(reader.Number("lineage", from.lineage())),
                               Step(reader.Number("step", from.step())),
                               Read(reader, "chunks", from.chunks())};
  return local_state;
}

Sealed Get(Reader& reader, const v1::Sealed& message) {
  return {ViewNumber(reader.Number("view", message.view())),
          ReadLocalState(reader, message.local_state())};
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
  return {ViewNumber(reader.Number("view", message.view())), Reader::Words(message.reason()),
          message.damaged()};
}

void Put(const Records& records, v1::CoordinatorFrame& frame) {
  v1::Records& out = *frame.mutable_records();
  for (const StepRecord& record : records.records) Write(record, *out.add_records());
}

Records Get(Reader& reader, const v1::Records& message) {
  Records records;
  const auto count = static_cast<size_t>(message.records_size());
  if (!reader.Count("records", message.records_size(), kMaxRecords) ||
      !reader.Require(count * sizeof(StepRecord) <=
                          kRecordBytesInAnyCase + kMostRecordBytesPerByte * message.ByteSizeLong(),
                      "records", "too many that say nothing"))
    return records;
  records.records.reserve(count);
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
  out.set_seconds(written.seconds);
}

SegmentWritten Get(Reader& reader, const v1::SegmentWritten& message) {
  SegmentWritten written;
  written.id = reader.Number("id", message.id());
  written.lineage = LineageNumber(reader.Number("lineage", message.lineage()));
  written.step = Step(reader.Number("step", message.step()));
  written.segment = reader.Unwrap("segment", FromProto(message.segment()));
  written.seconds = reader.Amount("seconds", message.seconds());
  return written;
}

void Put(const SegmentFailed& failed, v1::CoordinatorFrame& frame) {
  v1::SegmentFailed& out = *frame.mutable_segment_failed();
  out.set_lineage(failed.lineage.value());
  out.set_step(failed.step.value());
  out.set_reason(failed.reason);
  out.set_disk_is_slow(failed.disk_is_slow);
  out.set_gave_up(failed.gave_up);
}

SegmentFailed Get(Reader& reader, const v1::SegmentFailed& message) {
  return {LineageNumber(reader.Number("lineage", message.lineage())),
          Step(reader.Number("step", message.step())), Reader::Words(message.reason()),
          message.disk_is_slow(), message.gave_up()};
}

void Put(const Alive& alive, v1::CoordinatorFrame& frame) {
  v1::Alive& out = *frame.mutable_alive();
  out.set_step(alive.step.value());
  out.set_phase(alive.phase);
  for (const ThreadAge& age : alive.threads) {
    v1::Alive::Thread& thread = *out.add_threads();
    thread.set_name(age.thread);
    thread.set_seconds(age.seconds);
  }
  Write(alive.unreachable.members, *out.mutable_unreachable());
  out.set_unreachable_in(alive.unreachable.view.value());
  out.set_lacks(alive.lacks);
}

Unreachable ReadUnreachable(Reader& reader, const v1::Alive& message) {
  Unreachable unreachable{ViewNumber(reader.Number("unreachable_in", message.unreachable_in())),
                          ReadIndices(reader, "unreachable", message.unreachable(),
                                      int64_t{kMostUnreachable}, size_t{kMaxMembers})};
  const std::vector<int32_t>& members = unreachable.members;
  const bool ascending =
      std::adjacent_find(members.begin(), members.end(), std::greater_equal<>()) == members.end();
  reader.Require(ascending, "unreachable", "not ascending");
  return unreachable;
}

Alive Get(Reader& reader, const v1::Alive& message) {
  Alive alive{Step(reader.Number("step", message.step())), Reader::Words(message.phase())};
  alive.lacks = Reader::Words(message.lacks());
  alive.unreachable = ReadUnreachable(reader, message);
  if (!reader.Count("threads", message.threads_size(), kMaxThreads)) return alive;
  for (int i = 0; i < message.threads_size() && reader.ok(); ++i) {
    const Reader::Scope scope(reader, "threads", i);
    const v1::Alive::Thread& thread = message.threads(i);
    alive.threads.push_back(
        {Reader::Words(thread.name()), reader.Amount("seconds", thread.seconds())});
  }
  return alive;
}

void Put(const LanesNotFinite& found, v1::CoordinatorFrame& frame) {
  v1::LanesNotFinite& out = *frame.mutable_lanes_not_finite();
  out.set_lineage(found.lineage.value());
  out.set_step(found.step.value());
  for (const LaneId lane : found.lanes) out.add_lanes(static_cast<uint32_t>(lane.value()));
}

LanesNotFinite Get(Reader& reader, const v1::LanesNotFinite& message) {
  return {LineageNumber(reader.Number("lineage", message.lineage())),
          Step(reader.Number("step", message.step())), ReadLaneIds(reader, message.lanes())};
}

void Put(const Spooled& spooled, v1::CoordinatorFrame& frame) {
  Write(spooled, *frame.mutable_spooled());
}
Spooled Get(Reader& reader, const v1::Spooled& message) { return Read(reader, message); }

void Put(const Measured& measured, v1::CoordinatorFrame& frame) {
  Write(MeasureFact{measured.lineage, measured.step, measured.sums}, *frame.mutable_measured());
}

Measured GetMeasured(Reader& reader, const v1::MeasureFact& message) {
  MeasureFact fact = Read(reader, message);
  return {fact.lineage, fact.step, std::move(fact.sums)};
}

void Put(const MeasureFailed& failed, v1::CoordinatorFrame& frame) {
  v1::MeasureFailed& out = *frame.mutable_measure_failed();
  out.set_lineage(failed.lineage.value());
  out.set_step(failed.step.value());
  out.set_reason(failed.reason);
  out.set_damaged(failed.damaged);
}

MeasureFailed Get(Reader& reader, const v1::MeasureFailed& message) {
  return {LineageNumber(reader.Number("lineage", message.lineage())),
          Step(reader.Number("step", message.step())), Reader::Words(message.reason()),
          message.damaged()};
}

void Put(const std::vector<HostDevice>& devices,
         google::protobuf::RepeatedPtrField<v1::HostDevice>& out) {
  for (const HostDevice& device : devices) {
    v1::HostDevice& message = *out.Add();
    message.set_id(device.id);
    message.set_holder(device.holder.value());
  }
}

std::vector<HostDevice> ReadDevices(
    Reader& reader, const google::protobuf::RepeatedPtrField<v1::HostDevice>& message) {
  std::vector<HostDevice> devices;
  if (!reader.Count("devices", message.size(), kMostDevices)) return devices;
  std::set<std::string> ids;
  for (int i = 0; i < message.size() && reader.ok(); ++i) {
    const Reader::Scope scope(reader, "devices", i);
    devices.push_back({reader.DeviceId("id", message[i].id()),
                       PlacementNumber(reader.Number("holder", message[i].holder()))});
    reader.Require(ids.insert(devices.back().id).second, "id", "is there twice");
  }
  return devices;
}

void Put(const AgentHello& hello, v1::CoordinatorFrame& frame) {
  v1::AgentHello& out = *frame.mutable_agent_hello();
  out.set_host(hello.agent.host);
  out.set_incarnation_hi(hello.agent.incarnation.hi);
  out.set_incarnation_lo(hello.agent.incarnation.lo);
  out.set_follows_hi(hello.follows.hi);
  out.set_follows_lo(hello.follows.lo);
  out.set_node(hello.node);
  out.set_slots(hello.slots);
  Put(hello.devices, *out.mutable_devices());
  out.set_now_unix_ms(hello.now_unix_ms);
  Write(hello.speaks, *out.mutable_speaks());
}

AgentHello Get(Reader& reader, const v1::AgentHello& message) {
  const Incarnation incarnation{message.incarnation_hi(), message.incarnation_lo()};
  reader.Require(incarnation != Incarnation{}, "incarnation", "an agent has one");
  return {{reader.OwnName("host", message.host()), incarnation},
          {message.follows_hi(), message.follows_lo()},
          Reader::Words(message.node()),
          reader.Small("slots", message.slots(), 0, kMaxMembers),
          ReadDevices(reader, message.devices()),
          reader.Number("now_unix_ms", message.now_unix_ms()),
          Read(reader, message.speaks())};
}

void Put(const AgentEnds&, v1::CoordinatorFrame& frame) { frame.mutable_agent_ends(); }

void Put(const DevicesHeld& held, v1::CoordinatorFrame& frame) {
  Put(held.devices, *frame.mutable_devices_held()->mutable_devices());
}

DevicesHeld Get(Reader& reader, const v1::DevicesHeld& message) {
  return {ReadDevices(reader, message.devices())};
}

void Put(const ProcessExited& exited, v1::CoordinatorFrame& frame) {
  v1::ProcessExited& out = *frame.mutable_process_exited();
  out.set_job(exited.job);
  out.set_start(exited.start.value());
  out.set_placement(exited.placement.value());
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
  out.set_sample(exited.sample);
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
          StartNumber(reader.Number("start", message.start())),
          PlacementNumber(reader.Number("placement", message.placement())),
          reader.MemberName("name", message.name()),
          reader.Small("exit_code", message.exit_code(), 0, kMaxExitCode),
          reader.Small("signal", message.signal(), 0, kMaxSignal),
          Reader::Words(message.cause()),
          message.gave_up(),
          ReadLanes(reader, message.lanes()),
          Reader::Lines(message.last_lines()),
          Reader::Lines(message.sample())};
}

void Put(const LogLines& lines, v1::CoordinatorFrame& frame) {
  v1::LogLines& out = *frame.mutable_log_lines();
  out.set_job(lines.job);
  out.set_start(lines.start.value());
  out.set_placement(lines.placement.value());
  out.set_name(lines.name);
  out.set_text(lines.text);
  out.set_left_out(lines.left_out.bytes);
  out.set_left_out_lines(lines.left_out.lines);
  out.set_before(lines.before.bytes);
  out.set_before_lines(lines.before.lines);
}

// The text stays as it is: it is made printable where people read it.
LogLines Get(Reader& reader, const v1::LogLines& message) {
  return {reader.Text("job", message.job()),
          StartNumber(reader.Number("start", message.start())),
          PlacementNumber(reader.Number("placement", message.placement())),
          reader.MemberName("name", message.name()),
          reader.Text("text", message.text()),
          {reader.Number("left_out", message.left_out(), 0, kMostLogAmount),
           reader.Number("left_out_lines", message.left_out_lines(), 0, kMostLogAmount)},
          {reader.Number("before", message.before(), 0, kMostLogAmount),
           reader.Number("before_lines", message.before_lines(), 0, kMostLogAmount)}};
}

void Put(const SignMember& sign, v1::CoordinatorFrame& frame) {
  v1::SignMember& out = *frame.mutable_sign_member();
  Write(sign.process, *out.mutable_process());
  out.set_public_key(sign.public_key);
}

SignMember Get(Reader& reader, const v1::SignMember& message) {
  return {Read(reader, message.process()), Name(reader, "public_key", message.public_key())};
}

void Put(const AgentTrusts& trusts, v1::CoordinatorFrame& frame) {
  frame.mutable_agent_trusts()->set_hash(trusts.hash);
}

AgentTrusts Get(Reader&, const v1::AgentTrusts& message) { return {Reader::Words(message.hash())}; }

using Either = std::variant<ToCoordinator, FromAgent>;

std::optional<Either> Open(Reader& reader, const v1::CoordinatorFrame& frame) {
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
    case Kind::kLanesNotFinite: return member(frame.lanes_not_finite());
    case Kind::kMeasured: return ToCoordinator(GetMeasured(reader, frame.measured()));
    case Kind::kMeasureFailed: return member(frame.measure_failed());
    case Kind::kSpooled: return member(frame.spooled());
    case Kind::kAgentHello: return FromAgent(Get(reader, frame.agent_hello()));
    case Kind::kProcessExited: return FromAgent(Get(reader, frame.process_exited()));
    case Kind::kLogLines: return FromAgent(Get(reader, frame.log_lines()));
    case Kind::kAgentEnds: return FromAgent(AgentEnds{});
    case Kind::kDevicesHeld: return FromAgent(Get(reader, frame.devices_held()));
    case Kind::kSignMember: return FromAgent(Get(reader, frame.sign_member()));
    case Kind::kAgentTrusts: return FromAgent(Get(reader, frame.agent_trusts()));
    case Kind::KIND_NOT_SET: return std::nullopt;
  }
  return std::nullopt;
}

std::string EncodeAny(const auto& message) {
  return EncodeIn<v1::CoordinatorFrame>(
      message, [](const auto& kind, v1::CoordinatorFrame& frame) { Put(kind, frame); });
}

// The rest of a greeting of another form may mean anything.
absl::Status CheckForm(const v1::CoordinatorFrame& frame) {
  constexpr char kWe[] = "the coordinator";
  using Kind = v1::CoordinatorFrame;
  switch (frame.kind_case()) {
    case Kind::kAskJob: return CheckSpeaks(frame.ask_job().name(), frame.ask_job().speaks(), kWe);
    case Kind::kJoin: return CheckSpeaks(frame.join().id().name(), frame.join().speaks(), kWe);
    case Kind::kAgentHello:
      return CheckSpeaks(absl::StrCat("host ", frame.agent_hello().host()),
                         frame.agent_hello().speaks(), kWe);
    default: return absl::OkStatus();
  }
}

}  // namespace

std::string Encode(const ToCoordinator& message) { return EncodeAny(message); }
std::string Encode(const FromAgent& message) { return EncodeAny(message); }

absl::StatusOr<Either> DecodeAtCoordinator(std::string_view header) {
  return DecodeFrame(header, &Open);
}
absl::StatusOr<Either> DecodeGreetingAtCoordinator(std::string_view header) {
  using Kind = v1::CoordinatorFrame;
  return DecodeGreeting(
      header, {Kind::kAskJobFieldNumber, Kind::kJoinFieldNumber, Kind::kAgentHelloFieldNumber},
      "who has not joined may say AskJob, Join or AgentHello, and nothing else", &CheckForm, &Open);
}
bool AsksForItsJob(std::string_view header) {
  return HoldsOnly(header, {v1::CoordinatorFrame::kAskJobFieldNumber});
}
absl::StatusOr<ToCoordinator> DecodeToCoordinator(std::string_view header) {
  return Only<ToCoordinator>(DecodeAtCoordinator(header), "of a member");
}
absl::StatusOr<FromAgent> DecodeFromAgent(std::string_view header) {
  return Only<FromAgent>(DecodeAtCoordinator(header), "of an agent");
}

}  // namespace muster
