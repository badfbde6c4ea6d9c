// What a coordinator finds in its store when it starts: journal, ledger and catalogue with keys and
// values of any bytes. The input is a list of pairs (muster.v1.Fields): the first byte of a name
// says in which family, the rest is the key.
#include "coordinator/runtime/journal.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "lib/storage/kv.h"
#include "lib/wire/journal_codec.h"
#include "lib/wire/manifest_codec.h"
#include "muster/v1/journal.pb.h"
#include "muster/v1/membership.pb.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"
#include "tests/lib/wire/random_message.h"
#include "tests/support/recorded_steps.h"

namespace muster::coordinator {
namespace {

using fuzz::Below;
using fuzz::Check;
using fuzz::Random;
using Fields = v1::Fields;

constexpr size_t kMostHeld = size_t{4} << 20;
constexpr size_t kMostHeldPerByte = 500;
constexpr char kJob[] = "job";

LaneAccount AnyLanes(RandomMessage& any, Random& random) {
  LaneAccount::Value value;
  any.Fill(value.known);
  for (size_t n = Below(random, 3); n > 0; --n) {
    Incarnation member{random(), random()};
    LaneAccount::Departed& departed = value.departed[member];
    any.Fill(departed);
    if (departed.ran) departed.ran->incarnation = member;
  }
  return LaneAccount(std::move(value));
}

JobJournal AnyJob(Random& random) {
  RandomMessage any(random(), /*printable=*/true);
  JobJournal job;
  job.id = kJob;
  job.spec = RandomJob(random()).Make();
  job.phase = kJobPhases[Below(random, std::size(kJobPhases))];
  any.Fill(job.reason);
  any.Fill(job.environment);
  any.Fill(job.view);
  any.Fill(job.start);
  job.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), "start"}};
  if (Below(random, 2) == 0)
    job.lineages.push_back({LineageNumber(2), LineageNumber(1), Step(2), "rewind"});
  any.Fill(job.ending.stop_at);
  any.Fill(job.ending.digest);
  job.lanes = AnyLanes(any, random);
  for (size_t left = Below(random, 3); left > 0; --left)
    job.signatures[{random(), random()}] = {PlacementNumber(7), "host", "00ff"};
  job.recorded = Step(static_cast<int64_t>(Below(random, 4)));
  if (Below(random, 2) == 0)
    job.placements["worker-0"] = {
        .host = "host", .number = PlacementNumber(7), .agent = {1, 2}, .devices = {"0", "GPU-1"}};
  job.deleting = Below(random, 4) == 0;
  return job;
}

std::vector<Persisted> AnyChanges(Random& random) {
  RandomMessage any(random(), /*printable=*/true);
  const JobJournal job = AnyJob(random);
  std::vector<Persisted> changes;
  for (int64_t step = 0; step < static_cast<int64_t>(Below(random, 5)); ++step) {
    PersistRecords records{kJob, {{}}};
    any.Fill(records.records[0]);
    records.records[0].lineage = LineageNumber(1 + static_cast<int64_t>(Below(random, 2)));
    records.records[0].step = Step(step);
    changes.emplace_back(std::move(records));
    changes.emplace_back(PersistFingerprint{kJob, LineageNumber(1), Step(step), {1, 2, true}});
  }
  changes.emplace_back(PersistJob{job});
  return changes;
}

std::string ManifestKey(const Manifest& manifest) {
  return absl::StrCat("manifest/3:job/", absl::StrFormat("%016x/%016x", manifest.lineage.value(),
                                                         manifest.step.value()));
}

Fields Listed(const Kv& kv) {
  Fields fields;
  const std::vector<std::string> families = JournalFamilies();
  for (size_t family = 0; family < families.size(); ++family) {
    const auto pairs = ScanAll(kv, families[family]);
    for (const auto& [key, value] : *pairs) {
      Fields::Field& field = *fields.add_fields();
      field.set_name(static_cast<char>('0' + family) + key);
      field.set_value(value);
    }
  }
  return fields;
}

std::unique_ptr<Kv> Store(const Fields& fields) {
  const std::vector<std::string> families = JournalFamilies();
  std::unique_ptr<Kv> kv = OpenMemory(families);
  Batch batch;
  for (const Fields::Field& field : fields.fields()) {
    if (field.name().empty()) continue;
    const auto family = static_cast<size_t>(static_cast<uint8_t>(field.name()[0]));
    batch.Put(families[family % families.size()], field.name().substr(1), field.value());
  }
  Check(kv->Write(batch).ok(), "the store in memory takes it");
  return kv;
}

std::string Make(Random& random) {
  std::unique_ptr<Kv> kv = OpenMemory(JournalFamilies());
  Batch batch;
  for (size_t n = Below(random, 3); n > 0; --n) {
    Manifest manifest;
    RandomMessage(random(), true).Fill(manifest);
    batch.Put(JournalFamilies()[2], ManifestKey(manifest), EncodeManifest(manifest));
  }
  Check(kv->Write(batch).ok(), "manifests");
  auto journal = Journal::Open(std::move(kv));
  Check(journal.ok() && (*journal)->Write(AnyChanges(random), 1000).ok(), "a journal is written");
  return Listed((*journal)->kv()).SerializeAsString();
}

// A part of a job's entry, by the message that its name stands for.
std::string ChangedPart(const std::string& name, const std::string& value, Random& random) {
  using fuzz::ChangedMessage;
  if (name == "environment" || name == "accepted")
    return ChangedMessage<v1::NumericEnvironment>(value, random);
  if (name == "view") return ChangedMessage<v1::View>(value, random);
  if (name == "fingerprint") return ChangedMessage<v1::FingerprintPart>(value, random);
  if (name.starts_with("lineage/")) return ChangedMessage<v1::Lineage>(value, random);
  if (name == "spec") return fuzz::ChangedWords(value, {"null", "{}", "1", "sgd"}, random);
  if (name == "phase" && Below(random, 2) == 0)
    return std::string(PhaseName(kJobPhases[Below(random, std::size(kJobPhases))]));
  return Below(random, 2) == 0 ? std::to_string(fuzz::UglyNumber(random)) : fuzz::UglyText(random);
}

// A list of fields as the journal has them; `lanes` holds another, whose parts hold others.
std::string ChangedFields(const std::string& bytes, Random& random) {
  Fields fields;
  if (!fields.ParseFromString(bytes) || fields.fields_size() == 0) return bytes;
  const auto at = static_cast<int>(Below(random, static_cast<size_t>(fields.fields_size())));
  Fields::Field& field = *fields.mutable_fields(at);
  const bool nested = field.name() == "lanes" || field.name().starts_with("departed/") ||
                      field.name().starts_with("plugin/") || field.name().starts_with("placement/");
  switch (Below(random, 8)) {
    case 0: fields.mutable_fields()->DeleteSubrange(at, 1); break;
    case 1: *fields.add_fields() = Fields::Field(field); break;
    case 2: field.set_name(fuzz::UglyText(random)); break;
    default:
      field.set_value(nested ? ChangedFields(field.value(), random)
                             : ChangedPart(field.name(), field.value(), random));
  }
  return fields.SerializeAsString();
}

std::string ChangedKey(const std::string& name, Random& random) {
  std::string key = name;
  if (key.empty()) return "0job/";
  switch (Below(random, 3)) {
    case 0: key.resize(Below(random, key.size())); break;
    case 1: key[Below(random, key.size())] = static_cast<char>(random()); break;
    default: key += static_cast<char>(random());
  }
  return key;
}

std::string Change(const std::string& input, Random& random) {
  Fields fields;
  if (!fields.ParseFromString(input) || fields.fields_size() == 0) return "";
  const auto at = static_cast<int>(Below(random, static_cast<size_t>(fields.fields_size())));
  Fields::Field& field = *fields.mutable_fields(at);
  const char family = field.name().empty() ? '0' : field.name()[0];
  std::string changed;
  if (family == '1' && field.name().find(std::string("\0f", 2)) == std::string::npos)
    changed = fuzz::ChangedMessage<v1::StepRecord>(field.value(), random);
  else if (family == '1')
    changed = fuzz::ChangedMessage<v1::FingerprintPart>(field.value(), random);
  else if (family == '0')
    changed = ChangedFields(field.value(), random);
  if (changed.empty() || Below(random, 5) == 0)
    field.set_name(ChangedKey(field.name(), random));
  else
    field.set_value(changed);
  return fields.SerializeAsString();
}

const fuzz::Form kForm = {Make, Change};

void ExpectAll() {
  std::vector<std::string> names;
  Random random(1);
  // Every field that an entry of a job can have, as its encoder writes it.
  for (int i = 0; i < 100; ++i) {
    const auto fields = DecodeFields(EncodeJob({AnyJob(random), {1, 2, 3}, {}}));
    for (const auto& [name, value] : *fields) names.push_back(name);
  }
  fuzz::Expect("field", names);
  fuzz::Expect("read", {"jobs", "records", "fingerprints", "manifests", "damaged manifests"});
  fuzz::ExpectAtLeast("error", 60);
}

void ReadLedger(const Journal& journal, const std::string& job) {
  const auto records = RecordedSteps(journal, job);
  if (!records.ok()) fuzz::ReachError(records.status().message());
  if (records.ok() && !records->empty()) fuzz::Reach("read", "records");
  const auto fingerprints = journal.Fingerprints(job);
  if (!fingerprints.ok()) fuzz::ReachError(fingerprints.status().message());
  if (fingerprints.ok() && !fingerprints->empty()) fuzz::Reach("read", "fingerprints");
}

void ReadJobs(const Fields& fields) {
  for (const Fields::Field& field : fields.fields()) {
    const auto entry = DecodeJob(field.value());
    if (!entry.ok()) continue;
    const std::string written = EncodeJob(*entry);
    const auto again = DecodeJob(written);
    Check(again.ok() && EncodeJob(*again) == written, "an entry, written and read again");
    const auto parts = DecodeFields(field.value());
    for (const auto& [name, value] : *parts) fuzz::Reach("field", name);
  }
}

void Run(std::string_view input) {
  Fields fields;
  if (!fields.ParseFromArray(input.data(), static_cast<int>(input.size()))) return;
  ReadJobs(fields);
  const fuzz::MemoryLimit limit(kMostHeld + kMostHeldPerByte * input.size());
  auto journal = Journal::Open(Store(fields));
  if (!journal.ok()) return fuzz::ReachError(journal.status().message());
  std::vector<std::string> damaged;
  const auto found = (*journal)->Load(damaged);
  if (!damaged.empty()) fuzz::Reach("read", "damaged manifests");
  ReadLedger(**journal, kJob);
  if (!found.ok()) return fuzz::ReachError(found.status().message());
  if (!found->jobs.empty()) fuzz::Reach("read", "jobs");
  for (const JobJournal& job : found->jobs) ReadLedger(**journal, job.id);
  for (const auto& [job, manifests] : found->manifests)
    if (!manifests.empty()) fuzz::Reach("read", "manifests");
}

}  // namespace
}  // namespace muster::coordinator

MUSTER_FUZZ_TARGET(muster::coordinator::kForm, muster::coordinator::ExpectAll,
                   muster::coordinator::Run);
