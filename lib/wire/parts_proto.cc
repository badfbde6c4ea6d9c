#include "lib/wire/parts_proto.h"

#include <limits>
#include <optional>
#include <utility>

#include "lib/base/speaks.h"
#include "lib/base/status.h"
#include "lib/domain/left_out.h"
#include "lib/domain/tensor_type.h"
#include "lib/domain/validation.h"
#include "lib/wire/tensor_proto.h"

namespace muster {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 40;  // of a tensor
constexpr size_t kBits = 8;
constexpr size_t kMostQuoted = 64;  // bytes of a word of a stranger, in a sentence of ours

TensorSpec Read(Reader& reader, const v1::NumericEnvironment::Tensor& message) {
  TensorSpec tensor;
  tensor.name = reader.Text("name", message.name());
  tensor.kind = KindOfTensor(message);
  reader.Require(!message.sum() || !message.buffer(), "sum", "of a buffer");
  reader.Require(!message.phase() || !(message.sum() || message.buffer()), "phase",
                 "of a buffer or a sum");
  if (!message.type().empty()) {
    const std::optional<TensorType> type = TensorTypeOf(message.type());
    reader.Require(type.has_value(), "type", "is no type of a tensor");
    tensor.type = type.value_or(TensorType::kFloat32);
  }
  if (!reader.Count("aliases", message.aliases_size(), kMaxTensors)) return tensor;
  for (const std::string& alias : message.aliases())
    tensor.aliases.push_back(reader.Text("aliases", alias));
  if (!reader.Count("shape", message.shape_size(), kMaxDimensions)) return tensor;
  int64_t room = kMaxElements;
  for (const int64_t size : message.shape()) {
    tensor.shape.push_back(reader.Number("shape", size, 1, room));
    room /= tensor.shape.back();
    if (!reader.Require(room > 0, "shape", "too many elements")) break;
  }
  return tensor;
}

}  // namespace

void Write(const MemberId& id, v1::MemberId& out) {
  out.set_name(id.name);
  out.set_incarnation_hi(id.incarnation.hi);
  out.set_incarnation_lo(id.incarnation.lo);
}

MemberId Read(Reader& reader, const v1::MemberId& message) {
  return {reader.MemberName("name", message.name()),
          {message.incarnation_hi(), message.incarnation_lo()}};
}

MemberId ReadSpeaker(Reader& reader, const char* field, const v1::MemberId& message) {
  const Reader::Scope scope(reader, field);
  return {reader.OwnName("name", message.name()),
          {message.incarnation_hi(), message.incarnation_lo()}};
}

void Write(const Speaks& speaks, v1::Speaks& out) {
  out.set_oldest(speaks.oldest);
  out.set_newest(speaks.newest);
  out.set_version(speaks.version);
}

Speaks Read(Reader& reader, const v1::Speaks& message) {
  const Reader::Scope scope(reader, "speaks");
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  return {reader.Small("oldest", message.oldest(), 0, kMost),
          reader.Small("newest", message.newest(), 0, kMost),
          Cut(Printable(message.version()), kMostQuoted)};
}

absl::Status CheckSpeaks(const std::string& who, const v1::Speaks& speaks, const char* we_are) {
  Reader reader;
  const Speaks theirs = Read(reader, speaks);
  MUSTER_RETURN_IF_ERROR(reader.status());
  const std::string why = WhyNotUnderstood(
      who.empty() ? "a process" : Cut(Printable(who), kMostQuoted), theirs, we_are, Speaks{});
  return why.empty() ? absl::OkStatus() : absl::FailedPreconditionError(why);
}

void Write(const std::vector<ViewMember>& members, ProtoMembers& out) {
  out.Reserve(static_cast<int>(members.size()));
  for (const ViewMember& member : members) {
    v1::ViewMember& message = *out.Add();
    Write(member.id, *message.mutable_id());
    message.set_role(static_cast<v1::Role>(static_cast<int>(member.role) + 1));
    message.set_node(member.node);
    message.set_address(member.address);
    message.set_rank(member.rank.value());
    message.set_local_rank(member.local_rank);
  }
}

std::vector<ViewMember> Read(Reader& reader, const ProtoMembers& message) {
  std::vector<ViewMember> members;
  if (!reader.Count("members", message.size(), kMaxMembers)) return members;
  members.reserve(static_cast<size_t>(message.size()));
  for (int i = 0; i < message.size() && reader.ok(); ++i) {
    const Reader::Scope scope(reader, "members", i);
    const v1::ViewMember& member = message[i];
    members.push_back({Read(reader, member.id()), reader.Enum("role", member.role(), Role::kServer),
                       Reader::Words(member.node()), Reader::Words(member.address()),
                       Rank(reader.Small("rank", member.rank(), 0, kMaxMembers - 1)),
                       reader.Small("local_rank", member.local_rank(), 0, kMaxMembers - 1)});
  }
  return members;
}

void Write(const ChunkSet& set, v1::ChunkSet& out) {
  out.set_size(static_cast<uint32_t>(set.size()));
  std::string& bits = *out.mutable_bits();
  bits.assign((set.size() + kBits - 1) / kBits, '\0');
  for (size_t i = 0; i < set.size(); ++i)
    if (set[i]) bits[i / kBits] = static_cast<char>(bits[i / kBits] | 1 << i % kBits);
}

ChunkSet Read(Reader& reader, const char* field, const v1::ChunkSet& message) {
  const Reader::Scope scope(reader, field);
  const auto size = static_cast<size_t>(reader.Number("size", message.size(), 0, kMaxChunks));
  const std::string& bits = message.bits();
  const auto bytes = static_cast<int64_t>((size + kBits - 1) / kBits);
  if (!reader.SameCount("bits", static_cast<int64_t>(bits.size()), bytes)) return {};
  ChunkSet set(size);
  for (size_t i = 0; i < size; ++i) set[i] = (bits[i / kBits] >> i % kBits & 1) != 0;
  if (size % kBits != 0) {
    const auto rest = static_cast<unsigned char>(bits.back()) >> size % kBits;
    reader.Require(rest == 0, "bits", "bits after the last chunk");
  }
  return set;
}

void Write(const std::vector<int32_t>& indices, PackedIndices& out, int32_t shift) {
  out.Reserve(static_cast<int>(indices.size()));
  for (const int32_t index : indices) out.AddAlreadyReserved(static_cast<uint32_t>(index + shift));
}

std::vector<int32_t> ReadIndices(Reader& reader, const char* field, const PackedIndices& message,
                                 int64_t most, size_t end, int32_t shift) {
  std::vector<int32_t> indices;
  if (!reader.Count(field, message.size(), most)) return indices;
  indices.reserve(static_cast<size_t>(message.size()));
  for (const uint32_t value : message) {
    const int64_t index = int64_t{value} - shift;
    if (index >= static_cast<int64_t>(end)) {
      reader.Refuse(field, absl::StrCat("index ", index, " of ", end));
      return {};
    }
    indices.push_back(static_cast<int32_t>(index));
  }
  return indices;
}

void Write(const View& view, v1::View& out) {
  out.set_job(view.job);
  out.set_term(view.term.value());
  out.set_number(view.number.value());
  out.set_lineage(view.lineage.value());
  Write(view.members, *out.mutable_members());
  Write(view.lanes.holder_of, *out.mutable_lanes());
  Write(view.owner_of, *out.mutable_owner_of());
  out.set_first_step(view.first_step.value());
  Write(view.first_lanes.holder_of, *out.mutable_first_lanes());
  Write(view.first_done, *out.mutable_first_done());
  out.set_end(view.end.value());
}

View Read(Reader& reader, const v1::View& message) {
  View view;
  view.job = reader.Text("job", message.job());
  view.term = TermNumber(reader.Number("term", message.term()));
  view.number = ViewNumber(reader.Number("number", message.number()));
  view.lineage = LineageNumber(reader.Number("lineage", message.lineage()));
  view.members = Read(reader, message.members());
  const size_t members = view.members.size();
  view.lanes.holder_of = ReadIndices(reader, "lanes", message.lanes(), kMaxLanes, members);
  view.owner_of = ReadIndices(reader, "owner_of", message.owner_of(), kMaxChunks, members);
  view.first_step = Step(reader.Number("first_step", message.first_step()));
  view.first_lanes.holder_of =
      ReadIndices(reader, "first_lanes", message.first_lanes(), kMaxLanes, members);
  reader.SameCount("first_lanes", message.first_lanes_size(), message.lanes_size());
  view.first_done = Read(reader, "first_done", message.first_done());
  reader.SameCount("first_done", message.first_done().size(), message.owner_of_size());
  view.end = Step(reader.Number("end", message.end()));
  return view;
}

void Write(const JobCommand& command, v1::JobCommand& out) {
  out.set_id(command.id);
  out.set_kind(static_cast<v1::JobCommandKind>(static_cast<int>(command.kind) + 1));
}

JobCommand Read(Reader& reader, const v1::JobCommand& message) {
  return {reader.Number("id", message.id()),
          reader.Enum("kind", message.kind(), JobCommandKind::kEnough)};
}

void Write(const std::vector<JobCommand>& commands, ProtoCommands& out) {
  for (const JobCommand& command : commands) Write(command, *out.Add());
}

std::vector<JobCommand> Read(Reader& reader, const ProtoCommands& message) {
  std::vector<JobCommand> commands;
  if (!reader.Count("commands", message.size(), kMaxCommands)) return commands;
  commands.reserve(static_cast<size_t>(message.size()));
  for (int i = 0; i < message.size() && reader.ok(); ++i) {
    const Reader::Scope scope(reader, "commands", i);
    commands.push_back(Read(reader, message[i]));
  }
  return commands;
}

void Write(const FingerprintPart& part, v1::FingerprintPart& out) {
  out.set_hi(part.hi);
  out.set_lo(part.lo);
  out.set_whole(part.whole);
}

FingerprintPart Read(const v1::FingerprintPart& message) {
  return {message.hi(), message.lo(), message.whole()};
}

void Write(const StepRecord& record, v1::StepRecord& out) {
  out.set_lineage(record.lineage.value());
  out.set_step(record.step.value());
  out.set_view(record.view.value());
  for (const MemberId& member : record.lane_holders.members()) Write(member, *out.add_members());
  Write(record.lane_holders.by_lane(), *out.mutable_lane_holders());
  out.set_epoch(record.samples.epoch);
  out.set_first_sample(record.samples.first);
  out.set_sample_count(record.samples.count);
  out.set_weight(record.weight);
  out.set_loss(record.loss);
  if (record.fingerprint) Write(*record.fingerprint, *out.mutable_fingerprint());
  Write(record.commands, *out.mutable_commands());
  out.set_skipped(record.skipped);
  if (record.norm) out.set_norm(*record.norm);
  out.set_without_weight(record.without_weight);
  for (const Measure& measure : record.measures) {
    v1::Measure& one = *out.add_measures();
    one.set_sum(measure.sum);
    one.set_weight(measure.weight);
  }
  out.set_cuts(record.cuts);
  out.mutable_left_out()->Add(record.left_out.begin(), record.left_out.end());
}

StepRecord Read(Reader& reader, const v1::StepRecord& message) {
  StepRecord record;
  record.lineage = LineageNumber(reader.Number("lineage", message.lineage()));
  record.step = Step(reader.Number("step", message.step()));
  record.view = ViewNumber(reader.Number("view", message.view()));
  std::vector<MemberId> members;
  if (!reader.Count("members", message.members_size(), kMaxLanes)) return record;
  for (int i = 0; i < message.members_size() && reader.ok(); ++i) {
    const Reader::Scope scope(reader, "members", i);
    members.push_back(Read(reader, message.members(i)));
  }
  std::vector<int32_t> by_lane =
      ReadIndices(reader, "lane_holders", message.lane_holders(), kMaxLanes, members.size());
  record.lane_holders = {std::move(members), std::move(by_lane)};
  record.samples.epoch = reader.Number("epoch", message.epoch());
  record.samples.first = message.first_sample();
  record.samples.count = message.sample_count();
  record.weight = reader.Number("weight", message.weight());
  record.loss = message.loss();
  if (message.has_fingerprint()) record.fingerprint = Read(message.fingerprint());
  record.commands = Read(reader, message.commands());
  record.skipped = message.skipped();
  if (message.has_norm()) record.norm = message.norm();
  record.without_weight = message.without_weight();
  record.cuts = reader.Number("cuts", message.cuts());
  if (!reader.Count("measures", message.measures_size(), kMostMetrics)) return record;
  for (const v1::Measure& measure : message.measures())
    record.measures.push_back({measure.sum(), measure.weight()});
  if (!reader.Count("left_out", message.left_out_size(), kMostSamplesWithPlaces)) return record;
  record.left_out = {message.left_out().begin(), message.left_out().end()};
  return record;
}

void Write(const Lineage& lineage, v1::Lineage& out) {
  out.set_number(lineage.number.value());
  out.set_parent(lineage.parent.value());
  out.set_fork(lineage.fork.value());
  out.set_cause(lineage.cause);
}

Lineage Read(Reader& reader, const v1::Lineage& message) {
  return {LineageNumber(reader.Number("number", message.number())),
          LineageNumber(reader.Number("parent", message.parent())),
          Step(reader.Number("fork", message.fork())), reader.Text("cause", message.cause())};
}

void Write(const MeasureFact& fact, v1::MeasureFact& out) {
  out.set_lineage(fact.lineage.value());
  out.set_step(fact.step.value());
  out.mutable_sums()->Add(fact.sums.floats.begin(), fact.sums.floats.end());
}

MeasureFact Read(Reader& reader, const v1::MeasureFact& message) {
  MeasureFact fact{LineageNumber(reader.Number("lineage", message.lineage())),
                   Step(reader.Number("step", message.step())),
                   {}};
  if (!reader.Count("sums", message.sums_size(), kMostMetrics * kFloatsOfMetric)) return fact;
  // lint: not tensor bytes (a measure)
  fact.sums.floats.assign(message.sums().begin(), message.sums().end());
  if (const std::string why = WhyNotSums(fact.sums); !why.empty()) reader.Refuse("sums", why);
  return fact;
}

void Write(const NumericEnvironment& environment, v1::NumericEnvironment& out) {
  out.set_samples(environment.samples);
  out.set_data_hash(environment.data_hash);
  for (const TensorSpec& tensor : environment.tensors) WriteTensor(tensor, *out.add_tensors());
  for (const auto& [key, value] : environment.numeric) {
    v1::NumericEnvironment::Numeric& numeric = *out.add_numeric();
    numeric.set_key(key);
    numeric.set_value(value);
  }
}

NumericEnvironment Read(Reader& reader, const v1::NumericEnvironment& message) {
  NumericEnvironment environment;
  environment.samples = message.samples();
  environment.data_hash = reader.Text("data_hash", message.data_hash());
  if (!reader.Count("tensors", message.tensors_size(), kMaxTensors)) return environment;
  for (int i = 0; i < message.tensors_size() && reader.ok(); ++i) {
    const Reader::Scope scope(reader, "tensors", i);
    environment.tensors.push_back(Read(reader, message.tensors(i)));
  }
  if (!reader.Count("numeric", message.numeric_size(), kMaxTensors)) return environment;
  for (int i = 0; i < message.numeric_size() && reader.ok(); ++i) {
    const Reader::Scope scope(reader, "numeric", i);
    const v1::NumericEnvironment::Numeric& numeric = message.numeric(i);
    const bool ascending =
        environment.numeric.empty() || environment.numeric.rbegin()->first < numeric.key();
    if (!reader.Require(ascending, "key", "not after the one before")) break;
    environment.numeric.emplace_hint(environment.numeric.end(), reader.Text("key", numeric.key()),
                                     reader.Text("value", numeric.value()));
  }
  return environment;
}

void Write(const ProcessName& process, v1::ProcessName& out) {
  out.set_job(process.job);
  out.set_name(process.name);
  out.set_placement(process.placement.value());
  out.set_incarnation_hi(process.incarnation.hi);
  out.set_incarnation_lo(process.incarnation.lo);
}

ProcessName Read(Reader& reader, const v1::ProcessName& message) {
  const Reader::Scope scope(reader, "process");
  return {reader.Text("job", message.job()),
          reader.MemberName("name", message.name()),
          PlacementNumber(reader.Number("placement", message.placement())),
          {message.incarnation_hi(), message.incarnation_lo()}};
}

}  // namespace muster
