#include "coordinator/runtime/journal_entry.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/domain/device_id.h"
#include "lib/wire/job_codec.h"
#include "lib/wire/journal_codec.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kFormat = 4;
constexpr int64_t kMaxExitCode = 255;
constexpr int64_t kMostRanMs = int64_t{1} << 42;  // a century, as nanoseconds within 63 bits

using Fields = std::map<std::string, std::string>;

absl::Status Damaged(absl::string_view field, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("field ", field, ": ", why));
}

// Reads one field after another; the first error stays.
class FieldReader {
 public:
  explicit FieldReader(Fields fields) : fields_(std::move(fields)) {}

  const std::string* Find(const std::string& name) const {
    const auto it = fields_.find(name);
    return it == fields_.end() ? nullptr : &it->second;
  }
  void Text(const std::string& name, std::string& to) {
    if (const std::string* bytes = Need(name)) to = *bytes;
  }
  // low … high; the value that is wrong is not handed out.
  void Number(const std::string& name, int64_t& to, int64_t low = 0, int64_t high = kMaxNumber) {
    const std::string* bytes = Need(name);
    if (bytes == nullptr) return;
    int64_t number = 0;
    if (!absl::SimpleAtoi(*bytes, &number)) return Fail(name, "is not a number");
    if (number < low || number > high)
      return Fail(name, absl::StrCat(number, " is not in ", low, " … ", high));
    to = number;
  }
  // Any 64 bits, written as a signed number: bits of something else, and sums of lanes.
  void Signed(const std::string& name, int64_t& to) {
    Number(name, to, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  }
  void Flag(const std::string& name, bool& to) {
    int64_t number = 0;
    Number(name, number, 0, 1);
    to = number != 0;
  }
  template <class T, class Decode>
  void Part(const std::string& name, const Decode& decode, T& to) {
    const std::string* bytes = Need(name);
    if (bytes == nullptr) return;
    auto part = decode(*bytes);
    if (part.ok()) {
      to = *std::move(part);
    } else {
      Fail(name, part.status().message());
    }
  }
  template <class T, class Decode>
  void MaybePart(const std::string& name, const Decode& decode, std::optional<T>& to) {
    if (Find(name) != nullptr) Part(name, decode, to);
  }
  void Fail(absl::string_view name, absl::string_view why) {
    if (status_.ok()) status_ = Damaged(name, why);
  }
  const absl::Status& status() const { return status_; }

 private:
  const std::string* Need(const std::string& name) {
    const std::string* bytes = Find(name);
    if (bytes == nullptr) Fail(name, "is missing");
    return bytes;
  }

  const Fields fields_;
  absl::Status status_;
};

std::string LineageField(size_t index) { return absl::StrCat("lineage/", index); }

void ReadPhase(FieldReader& read, JobPhase& phase) {
  std::string name;
  read.Text("phase", name);
  for (const JobPhase candidate : kJobPhases) {
    if (PhaseName(candidate) != name) continue;
    phase = candidate;
    return;
  }
  read.Fail("phase", absl::StrCat("'", name, "' is not known to this version"));
}

void ReadLineages(FieldReader& read, std::vector<Lineage>& lineages) {
  for (size_t i = 0; read.Find(LineageField(i)) != nullptr; ++i)
    read.Part(LineageField(i), DecodeLineage, lineages.emplace_back());
}

std::string Whole(uint64_t x) { return absl::StrCat(static_cast<int64_t>(x)); }

std::string PlacementField(size_t index) { return absl::StrCat("placement/", index); }
std::string LeftOutField(size_t index) { return absl::StrCat("left_out/", index); }

std::string LacksPluginField(size_t index) { return absl::StrCat("lacks_plugin/", index); }

std::string ApartField(size_t index, const char* end) {
  return absl::StrCat("apart/", index, "/", end);
}

using PlacementEntry = std::pair<std::string, Placement>;

std::string EncodePlacement(const std::string& member, const Placement& placement) {
  Fields fields = {{"member", member},
                   {"server", placement.role == Role::kServer ? "1" : "0"},
                   {"number", absl::StrCat(placement.number.value())},
                   {"agent_hi", Whole(placement.agent.hi)},
                   {"agent_lo", Whole(placement.agent.lo)}};
  if (placement.role == Role::kFollower) fields["follower"] = "1";
  if (placement.role == Role::kReader) fields["reader"] = "1";
  if (placement.leaving) fields["leaving"] = "1";
  if (!placement.devices.empty()) fields["devices"] = absl::StrJoin(placement.devices, ",");
  if (placement.host) fields["host"] = *placement.host;
  return EncodeFields(fields);
}

absl::StatusOr<PlacementEntry> DecodePlacement(std::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(Fields fields, DecodeFields(bytes));
  FieldReader read(std::move(fields));
  PlacementEntry entry;
  auto& [member, placement] = entry;
  read.Text("member", member);
  bool is_server = false;
  read.Flag("server", is_server);
  bool is_follower = false;
  if (read.Find("follower") != nullptr) read.Flag("follower", is_follower);
  bool is_reader = false;
  if (read.Find("reader") != nullptr) read.Flag("reader", is_reader);
  placement.role = is_server     ? Role::kServer
                   : is_follower ? Role::kFollower
                   : is_reader   ? Role::kReader
                                 : Role::kWorker;
  int64_t number = 0;
  read.Number("number", number);
  placement.number = PlacementNumber(number);
  read.Signed("agent_hi", number);
  placement.agent.hi = static_cast<uint64_t>(number);
  read.Signed("agent_lo", number);
  placement.agent.lo = static_cast<uint64_t>(number);
  if (read.Find("leaving") != nullptr) read.Flag("leaving", placement.leaving);
  if (read.Find("host") != nullptr) read.Text("host", placement.host.emplace());
  if (read.Find("devices") != nullptr) {
    std::string ids;
    read.Text("devices", ids);
    placement.devices = absl::StrSplit(ids, ',');
    for (const std::string& id : placement.devices)
      if (!IsDeviceId(id)) read.Fail("devices", absl::StrCat("'", id, "' is no id of a device"));
  }
  MUSTER_RETURN_IF_ERROR(read.status());
  return entry;
}

std::string SignatureField(size_t index) { return absl::StrCat("signed/", index); }

using SignatureEntry = std::pair<Incarnation, Signature>;

std::string EncodeSignature(Incarnation process, const Signature& signature) {
  return EncodeFields({{"hi", Whole(process.hi)},
                       {"lo", Whole(process.lo)},
                       {"number", absl::StrCat(signature.placement.value())},
                       {"host", signature.host},
                       {"key", signature.key_hash}});
}

absl::StatusOr<SignatureEntry> DecodeSignature(std::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(Fields fields, DecodeFields(bytes));
  FieldReader read(std::move(fields));
  SignatureEntry entry;
  auto& [process, signature] = entry;
  int64_t number = 0;
  read.Signed("hi", number);
  process.hi = static_cast<uint64_t>(number);
  read.Signed("lo", number);
  process.lo = static_cast<uint64_t>(number);
  read.Number("number", number);
  signature.placement = PlacementNumber(number);
  read.Text("host", signature.host);
  read.Text("key", signature.key_hash);
  MUSTER_RETURN_IF_ERROR(read.status());
  return entry;
}

void ReadPlacements(FieldReader& read, JobJournal& job) {
  for (size_t i = 0; read.Find(PlacementField(i)) != nullptr; ++i) {
    PlacementEntry entry;
    read.Part(PlacementField(i), DecodePlacement, entry);
    job.placements.insert(std::move(entry));
  }
  for (size_t i = 0; read.Find(LeftOutField(i)) != nullptr; ++i) {
    std::string host;
    read.Text(LeftOutField(i), host);
    job.left_out.insert(std::move(host));
  }
  for (size_t i = 0; read.Find(LacksPluginField(i)) != nullptr; ++i) {
    std::string host;
    read.Text(LacksPluginField(i), host);
    job.without_plugin.insert(std::move(host));
  }
  for (size_t i = 0; read.Find(ApartField(i, "a")) != nullptr; ++i) {
    std::pair<std::string, std::string> nodes;
    read.Text(ApartField(i, "a"), nodes.first);
    read.Text(ApartField(i, "b"), nodes.second);
    job.apart.insert(std::move(nodes));
  }
  for (size_t i = 0; read.Find(SignatureField(i)) != nullptr; ++i) {
    SignatureEntry entry;
    read.Part(SignatureField(i), DecodeSignature, entry);
    job.signatures.insert(std::move(entry));
  }
}

std::string DepartedField(size_t index) { return absl::StrCat("departed/", index); }

std::string EncodeDeparted(Incarnation member, const LaneAccount::Departed& departed) {
  Fields fields = {{"hi", Whole(member.hi)},
                   {"lo", Whole(member.lo)},
                   {"lost", departed.lost ? "1" : "0"},
                   {"counted", departed.counted ? "1" : "0"},
                   {"lineage", absl::StrCat(departed.lineage.value())},
                   {"reassigned", absl::StrCat(departed.reassigned)},
                   {"rewound", departed.rewound ? "1" : "0"}};
  if (departed.base) fields["base"] = absl::StrCat(departed.base->value());
  if (departed.ran) {
    fields["ran_total"] = absl::StrCat(departed.ran->total);
    fields["ran_lineage"] = absl::StrCat(departed.ran->lineage.value());
    fields["ran_step"] = absl::StrCat(departed.ran->step.value());
    fields["ran_in_step"] = absl::StrCat(departed.ran->in_step);
  }
  return EncodeFields(fields);
}

using DepartedEntry = std::pair<Incarnation, LaneAccount::Departed>;

absl::StatusOr<DepartedEntry> DecodeDeparted(std::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(Fields fields, DecodeFields(bytes));
  FieldReader read(std::move(fields));
  DepartedEntry entry;
  auto& [member, departed] = entry;
  const auto number = [&read](const char* name) {
    int64_t value = 0;
    read.Number(name, value);
    return value;
  };
  const auto bits = [&read](const char* name) {
    int64_t value = 0;
    read.Signed(name, value);
    return static_cast<uint64_t>(value);
  };
  member = {bits("hi"), bits("lo")};
  read.Flag("lost", departed.lost);
  read.Flag("counted", departed.counted);
  departed.lineage = LineageNumber(number("lineage"));
  departed.reassigned = number("reassigned");
  read.Flag("rewound", departed.rewound);
  if (read.Find("base") != nullptr) departed.base = Step(number("base"));
  if (read.Find("ran_total") != nullptr)
    departed.ran = LaneCount{member, number("ran_total"), LineageNumber(number("ran_lineage")),
                             Step(number("ran_step")), number("ran_in_step")};
  MUSTER_RETURN_IF_ERROR(read.status());
  return entry;
}

std::string EncodeLanes(const LaneAccount& lanes) {
  const LaneAccount::Value& value = lanes.value();
  Fields fields = {{"known", absl::StrCat(value.known)},
                   {"recomputed", absl::StrCat(value.recomputed)},
                   {"settled_total", absl::StrCat(value.settled_total)}};
  size_t index = 0;
  for (const auto& [member, departed] : value.departed)
    fields[DepartedField(index++)] = EncodeDeparted(member, departed);
  return EncodeFields(fields);
}

absl::StatusOr<LaneAccount> DecodeLanes(std::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(Fields fields, DecodeFields(bytes));
  FieldReader read(std::move(fields));
  LaneAccount::Value value;
  read.Signed("known", value.known);
  read.Signed("recomputed", value.recomputed);
  read.Signed("settled_total", value.settled_total);
  for (size_t i = 0; read.Find(DepartedField(i)) != nullptr; ++i) {
    DepartedEntry entry;
    read.Part(DepartedField(i), DecodeDeparted, entry);
    value.departed.insert(entry);
  }
  MUSTER_RETURN_IF_ERROR(read.status());
  return LaneAccount(std::move(value));
}

std::string PluginField(size_t index) { return absl::StrCat("plugin/", index); }

std::string EncodePluginChange(const PluginChange& change) {
  return EncodeFields({{"lineage", absl::StrCat(change.lineage.value())},
                       {"step", absl::StrCat(change.step.value())},
                       {"before", change.before},
                       {"after", change.after},
                       {"by", change.by}});
}

absl::StatusOr<PluginChange> DecodePluginChange(std::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(Fields fields, DecodeFields(bytes));
  FieldReader read(std::move(fields));
  PluginChange change;
  int64_t number = 0;
  read.Number("lineage", number);
  change.lineage = LineageNumber(number);
  read.Number("step", number);
  change.step = Step(number);
  read.Text("before", change.before);
  read.Text("after", change.after);
  read.Text("by", change.by);
  MUSTER_RETURN_IF_ERROR(read.status());
  return change;
}

void ReadPlugins(FieldReader& read, JobJournal& job) {
  for (size_t i = 0; read.Find(PluginField(i)) != nullptr; ++i)
    read.Part(PluginField(i), DecodePluginChange, job.plugin_changes.emplace_back());
  if (read.Find("accepted") == nullptr) return;
  AcceptedPlugin& accepted = job.accepted.emplace();
  read.Part("accepted", DecodeEnvironment, accepted.environment);
  read.Text("accepted_by", accepted.by);
}

void ReadJob(FieldReader& read, JobJournal& job) {
  int64_t number = 0;
  read.Text("id", job.id);
  read.Number("submission", job.submission);
  read.Part(
      "spec", [](const std::string& json) { return ParseStoredJob(json); }, job.spec);
  read.Number("start", number);
  job.start = StartNumber(number);
  read.Number("first_start", number);
  job.first_start = StartNumber(number);
  ReadPlacements(read, job);
  ReadPhase(read, job.phase);
  read.Text("reason", job.reason);
  read.MaybePart("environment", DecodeEnvironment, job.environment);
  ReadLineages(read, job.lineages);
  read.Number("number", number);
  job.number = ViewNumber(number);
  read.MaybePart("view", DecodeView, job.view);
  read.Flag("resumes", job.resumes);
  read.Flag("stop_asked", job.ending.stop_asked);
  if (read.Find("gives_way") != nullptr) read.Flag("gives_way", job.ending.gives_way);
  if (read.Find("stop_at") != nullptr) {
    read.Number("stop_at", number);
    job.ending.stop_at = Step(number);
  }
  if (read.Find("enough_at") != nullptr) {
    read.Number("enough_at", number);
    job.ending.enough_at = Step(number);
  }
  if (read.Find("unmeasured") != nullptr) read.Text("unmeasured", job.ending.unmeasured);
  read.Number("next_command", job.next_command);
  read.Number("views", job.views);
  read.Number("recoveries", job.recoveries);
  read.Number("rewinds", job.rewinds);
  if (read.Find("skipped") != nullptr) read.Number("skipped", job.tally.skipped);
  if (read.Find("samples_left_out") != nullptr) read.Number("samples_left_out", job.tally.left_out);
  read.Part("lanes", DecodeLanes, job.lanes);
  read.Text("digest", job.ending.digest);
  if (read.Find("sample") != nullptr) read.Text("sample", job.ending.sample);
  read.Number("exit_code", number, 0, kMaxExitCode);
  job.ending.exit_code = static_cast<int>(number);
  read.Number("recorded", number);
  job.recorded = Step(number);
  read.Flag("deleting", job.deleting);
  if (read.Find("urgent") != nullptr) read.Flag("urgent", job.ending.is_urgent);
  if (read.Find("late") != nullptr) read.Flag("late", job.ending.is_late);
  if (read.Find("ran_ms") != nullptr) {
    read.Number("ran_ms", number, 0, kMostRanMs);
    job.ran = std::chrono::milliseconds(number);
  }
  if (read.Find("launch") != nullptr) {
    read.Number("launch", job.launch.number, 1, std::numeric_limits<int64_t>::max());
    read.Number("launch/hosts", number, 0, std::numeric_limits<int32_t>::max());
    job.launch.hosts = static_cast<int32_t>(number);
    read.Number("launch/elastic", number, 0, 1);
    job.launch.is_elastic = number == 1;
  }
  if (read.Find("retried") != nullptr) {
    read.Number("retried", number, 0, kMostRetries);
    job.retried = static_cast<int32_t>(number);
  }
  if (read.Find("owner") != nullptr) read.Text("owner", job.owner);
  ReadPlugins(read, job);
}

std::string BitsOf(double number) { return Whole(std::bit_cast<uint64_t>(number)); }

void ReadBits(FieldReader& read, const std::string& name, double& to) {
  int64_t bits = 0;
  read.Signed(name, bits);
  to = std::bit_cast<double>(bits);
}

std::string MeasureField(size_t index, const char* part) {
  return absl::StrCat("measure/", index, "/", part);
}

void AddMeasured(const MeasuredEntry& entry, Fields& fields) {
  fields["measured_lineage"] = absl::StrCat(entry.lineage.value());
  fields["measured_step"] = absl::StrCat(entry.step.value());
  for (size_t m = 0; m < entry.measures.size(); ++m) {
    fields[MeasureField(m, "sum")] = BitsOf(entry.measures[m].sum);
    fields[MeasureField(m, "weight")] = BitsOf(entry.measures[m].weight);
  }
}

void ReadMeasured(FieldReader& read, std::optional<MeasuredEntry>& to) {
  if (read.Find("measured_step") == nullptr) return;
  MeasuredEntry& entry = to.emplace();
  int64_t number = 0;
  read.Number("measured_lineage", number);
  entry.lineage = LineageNumber(number);
  read.Number("measured_step", number);
  entry.step = Step(number);
  for (size_t m = 0; read.Find(MeasureField(m, "sum")) != nullptr; ++m) {
    Measure& measure = entry.measures.emplace_back();
    ReadBits(read, MeasureField(m, "sum"), measure.sum);
    ReadBits(read, MeasureField(m, "weight"), measure.weight);
  }
}

void AddTail(const JobTail& tail, Fields& fields) {
  if (tail.loss) fields["loss"] = BitsOf(*tail.loss);
  if (tail.measured) AddMeasured(*tail.measured, fields);
  if (!tail.fingerprint) return;
  fields["fingerprint"] = EncodeFingerprintPart(tail.fingerprint->value);
  fields["fingerprint_lineage"] = absl::StrCat(tail.fingerprint->lineage.value());
  fields["fingerprint_step"] = absl::StrCat(tail.fingerprint->step.value());
}

void ReadTail(FieldReader& read, JobTail& tail) {
  int64_t number = 0;
  if (read.Find("loss") != nullptr) ReadBits(read, "loss", tail.loss.emplace());
  ReadMeasured(read, tail.measured);
  if (read.Find("fingerprint") == nullptr) return;
  FingerprintEntry& entry = tail.fingerprint.emplace();
  read.Part("fingerprint", DecodeFingerprintPart, entry.value);
  read.Number("fingerprint_lineage", number);
  entry.lineage = LineageNumber(number);
  read.Number("fingerprint_step", number);
  entry.step = Step(number);
}

}  // namespace

std::string EncodeStreamMark(const StreamMark& mark) {
  Fields fields = {{"place", EncodeStreamPlace(mark.place)}};
  if (mark.end) fields["end"] = absl::StrCat(*mark.end);
  return EncodeFields(fields);
}

absl::StatusOr<StreamMark> DecodeStreamMark(std::string_view bytes) {
  auto fields = DecodeFields(bytes);
  if (!fields.ok()) return absl::DataLossError(fields.status().message());
  FieldReader read(*std::move(fields));
  StreamMark mark;
  read.Part("place", DecodeStreamPlace, mark.place);
  int64_t end = 0;
  if (read.Find("end") != nullptr) {
    read.Number("end", end, 0, static_cast<int64_t>(kMostSamples));
    mark.end = static_cast<uint64_t>(end);
  }
  if (!read.status().ok()) return read.status();
  return mark;
}

std::string EncodeJob(const JournalEntry& entry) {
  const JobJournal& job = entry.job;
  Fields fields = {{"format", absl::StrCat(kFormat)},
                   {"id", job.id},
                   {"submission", absl::StrCat(job.submission)},
                   {"spec", ToJson(job.spec)},
                   {"start", absl::StrCat(job.start.value())},
                   {"first_start", absl::StrCat(job.first_start.value())},
                   {"phase", std::string(PhaseName(job.phase))},
                   {"reason", job.reason},
                   {"number", absl::StrCat(job.number.value())},
                   {"resumes", job.resumes ? "1" : "0"},
                   {"stop_asked", job.ending.stop_asked ? "1" : "0"},
                   {"next_command", absl::StrCat(job.next_command)},
                   {"views", absl::StrCat(job.views)},
                   {"recoveries", absl::StrCat(job.recoveries)},
                   {"rewinds", absl::StrCat(job.rewinds)},
                   {"skipped", absl::StrCat(job.tally.skipped)},
                   {"samples_left_out", absl::StrCat(job.tally.left_out)},
                   {"lanes", EncodeLanes(job.lanes)},
                   {"digest", job.ending.digest},
                   {"exit_code", absl::StrCat(job.ending.exit_code)},
                   {"recorded", absl::StrCat(job.recorded.value())},
                   {"deleting", job.deleting ? "1" : "0"},
                   {"time_submitted", absl::StrCat(entry.times.submitted)},
                   {"time_started", absl::StrCat(entry.times.started)},
                   {"time_ended", absl::StrCat(entry.times.ended)}};
  AddTail(entry.tail, fields);
  if (job.environment) fields["environment"] = EncodeEnvironment(*job.environment);
  for (size_t i = 0; i < job.lineages.size(); ++i)
    fields[LineageField(i)] = EncodeLineage(job.lineages[i]);
  size_t place = 0;
  for (const auto& [member, placement] : job.placements)
    fields[PlacementField(place++)] = EncodePlacement(member, placement);
  size_t left_out = 0;
  for (const std::string& host : job.left_out) fields[LeftOutField(left_out++)] = host;
  size_t without = 0;
  for (const std::string& host : job.without_plugin) fields[LacksPluginField(without++)] = host;
  size_t apart = 0;
  for (const auto& [a, b] : job.apart) {
    fields[ApartField(apart, "a")] = a;
    fields[ApartField(apart++, "b")] = b;
  }
  size_t signature = 0;
  for (const auto& [process, one] : job.signatures)
    fields[SignatureField(signature++)] = EncodeSignature(process, one);
  if (job.view) fields["view"] = EncodeView(*job.view);
  if (!job.ending.sample.empty()) fields["sample"] = job.ending.sample;
  if (job.ending.gives_way) fields["gives_way"] = "1";
  if (job.ending.is_urgent) fields["urgent"] = "1";
  if (job.ending.is_late) fields["late"] = "1";
  if (const auto ran = std::chrono::duration_cast<std::chrono::milliseconds>(job.ran).count();
      ran > 0)
    fields["ran_ms"] = absl::StrCat(std::min<int64_t>(ran, kMostRanMs));
  if (job.launch.number > 0) {
    fields["launch"] = absl::StrCat(job.launch.number);
    fields["launch/hosts"] = absl::StrCat(job.launch.hosts);
    fields["launch/elastic"] = job.launch.is_elastic ? "1" : "0";
  }
  if (job.retried > 0) fields["retried"] = absl::StrCat(job.retried);
  if (!job.owner.empty()) fields["owner"] = job.owner;
  for (size_t i = 0; i < job.plugin_changes.size(); ++i)
    fields[PluginField(i)] = EncodePluginChange(job.plugin_changes[i]);
  if (job.accepted) {
    fields["accepted"] = EncodeEnvironment(job.accepted->environment);
    fields["accepted_by"] = job.accepted->by;
  }
  if (!job.ending.unmeasured.empty()) fields["unmeasured"] = job.ending.unmeasured;
  if (job.ending.enough_at) fields["enough_at"] = absl::StrCat(job.ending.enough_at->value());
  if (job.ending.stop_at) fields["stop_at"] = absl::StrCat(job.ending.stop_at->value());
  return EncodeFields(fields);
}

absl::StatusOr<JournalEntry> DecodeJob(std::string_view bytes) {
  absl::StatusOr<Fields> fields = DecodeFields(bytes);
  if (!fields.ok()) return absl::DataLossError(fields.status().message());
  FieldReader read(*std::move(fields));
  int64_t format = 0;
  read.Number("format", format);
  if (read.status().ok() && format != kFormat)
    return absl::FailedPreconditionError(
        absl::StrCat("it has format ", format, ", and this version of muster knows ", kFormat,
                     ": use the version that wrote it, or begin a new cluster in another folder"));
  JournalEntry entry;
  ReadJob(read, entry.job);
  read.Number("time_submitted", entry.times.submitted);
  read.Number("time_started", entry.times.started);
  read.Number("time_ended", entry.times.ended);
  ReadTail(read, entry.tail);
  MUSTER_RETURN_IF_ERROR(read.status());
  return entry;
}

}  // namespace muster::coordinator
