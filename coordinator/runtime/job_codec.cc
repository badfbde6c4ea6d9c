#include "coordinator/runtime/job_codec.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/wire/job_codec.h"
#include "lib/wire/journal_codec.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kFormat = 1;

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
  void Number(const std::string& name, int64_t& to) {
    const std::string* bytes = Need(name);
    if (bytes != nullptr && !absl::SimpleAtoi(*bytes, &to)) Fail(name, "is not a number");
  }
  void Flag(const std::string& name, bool& to) {
    int64_t number = 0;
    Number(name, number);
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

void ReadJob(FieldReader& read, JobJournal& job) {
  int64_t number = 0;
  read.Text("id", job.id);
  read.Number("order", job.order);
  read.Part(
      "spec", [](const std::string& json) { return ParseJobJson(json); }, job.spec);
  ReadPhase(read, job.phase);
  read.Text("reason", job.reason);
  read.MaybePart("facts", DecodeJobFacts, job.facts);
  ReadLineages(read, job.lineages);
  read.Number("number", number);
  job.number = ViewNumber(number);
  read.MaybePart("view", DecodeView, job.view);
  read.Flag("resumes", job.resumes);
  read.Flag("stop_asked", job.stop_asked);
  if (read.Find("stop_at") != nullptr) {
    read.Number("stop_at", number);
    job.stop_at = Step(number);
  }
  read.Number("next_order", job.next_order);
  read.Number("views", job.views);
  read.Number("recoveries", job.recoveries);
  read.Number("rewinds", job.rewinds);
  read.Number("lanes_recomputed", job.lanes_recomputed);
  read.Text("digest", job.digest);
}

}  // namespace

std::string EncodeJob(const JournalEntry& entry) {
  const JobJournal& job = entry.job;
  Fields fields = {{"format", absl::StrCat(kFormat)},
                   {"id", job.id},
                   {"order", absl::StrCat(job.order)},
                   {"spec", ToJson(job.spec)},
                   {"phase", std::string(PhaseName(job.phase))},
                   {"reason", job.reason},
                   {"number", absl::StrCat(job.number.value())},
                   {"resumes", job.resumes ? "1" : "0"},
                   {"stop_asked", job.stop_asked ? "1" : "0"},
                   {"next_order", absl::StrCat(job.next_order)},
                   {"views", absl::StrCat(job.views)},
                   {"recoveries", absl::StrCat(job.recoveries)},
                   {"rewinds", absl::StrCat(job.rewinds)},
                   {"lanes_recomputed", absl::StrCat(job.lanes_recomputed)},
                   {"digest", job.digest},
                   {"time_submitted", absl::StrCat(entry.times.submitted)},
                   {"time_started", absl::StrCat(entry.times.started)},
                   {"time_ended", absl::StrCat(entry.times.ended)}};
  if (job.facts) fields["facts"] = EncodeJobFacts(*job.facts);
  for (size_t i = 0; i < job.lineages.size(); ++i)
    fields[LineageField(i)] = EncodeLineage(job.lineages[i]);
  if (job.view) fields["view"] = EncodeView(*job.view);
  if (job.stop_at) fields["stop_at"] = absl::StrCat(job.stop_at->value());
  return EncodeFields(fields);
}

absl::StatusOr<JournalEntry> DecodeJob(std::string_view bytes) {
  absl::StatusOr<Fields> fields = DecodeFields(bytes);
  if (!fields.ok()) return absl::DataLossError(fields.status().message());
  FieldReader read(*std::move(fields));
  int64_t format = 0;
  read.Number("format", format);
  if (read.status().ok() && format != kFormat)
    return Damaged(
        "format",
        absl::StrCat(format, " is not known to this version of muster; use the one that wrote it"));
  JournalEntry entry;
  ReadJob(read, entry.job);
  read.Number("time_submitted", entry.times.submitted);
  read.Number("time_started", entry.times.started);
  read.Number("time_ended", entry.times.ended);
  MUSTER_RETURN_IF_ERROR(read.status());
  return entry;
}

}  // namespace muster::coordinator
