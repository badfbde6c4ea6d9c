// The coordinator's memory on disk: journal, ledger and catalogue, families of one store. Layout
// (docs/formats.md):
//   journal    cluster · term · claim · drained → hosts · left_out → hosts · quotas ·
//              tokens → EncodeTokens · host/NAME → HostRecord · authority ·
//              job/ID → JournalEntry · what webhooks are to be told (outbox.h)
//   ledger     ID \0 r LINEAGE STEP → StepRecord        (numbers: 8 bytes, big-endian)
//              ID \0 f LINEAGE STEP → FingerprintPart
//              ID \0 m LINEAGE STEP → MeasureFact
//              ID \0 s NUMBER → SpoolSegment · ID \0 p → StreamMark
//   catalogue  lib/checkpoint/catalogue.h
// The cluster and its last term stand in a small file outside of the store as well.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/runtime/journal_entry.h"
#include "coordinator/runtime/outbox.h"
#include "coordinator/state/coordinator.h"
#include "lib/storage/kv.h"

namespace muster::coordinator {

std::vector<std::string> JournalFamilies();
// Where the store and its term file lie in a coordinator's --dir.
std::string JournalOf(const std::string& dir);
std::string TermFileOf(const std::string& dir);

using Persisted = std::variant<PersistJob, PersistRecords, PersistFingerprint, PersistMeasure,
                               PersistStream, PersistDrained, PersistLeftOut, PersistQuotas,
                               PersistTokens, PersistHost, ForgetHost, OutboxEvent>;

// One thread at a time, except for the methods that say otherwise. Errors of the store pass
// through; kDataLoss: damaged, and the message says what and what to do.
class Journal {
 public:
  // Begins a term: the cluster's id is made at the first start, the term grows durably at each.
  // `term_file` lies outside of the store and holds the last term, too (empty: nobody keeps it).
  // It is to be alone in its folder but for the store's own marks: who deletes the folder goes on
  // from what is there. kDataLoss also where it tells of a later term or of another cluster: an
  // older copy of the store, or another one, was brought back.
  // `new_cluster`: the id of a cluster that is begun now; empty: a random one.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(std::unique_ptr<Kv> kv,
                                                       const std::string& term_file = "",
                                                       const std::string& new_cluster = "");

  // The journal as the last term left it, only to be read; of the store only what reads is called.
  static absl::StatusOr<std::unique_ptr<Journal>> OpenToRead(std::unique_ptr<Kv> kv,
                                                             const std::string& term_file = "");

  const std::string& cluster() const { return cluster_; }
  TermNumber term() const { return term_; }
  Kv& kv() const { return *kv_; }  // thread-safe

  // What this store, or the one that it is a copy of, claimed last (checkpoint_root.h); empty:
  // nothing.
  absl::StatusOr<std::string> Claim() const;
  absl::Status NoteClaim(const std::string& claim) const;

  // The cluster has an authority of its own, which was made with the store.
  absl::StatusOr<bool> HasAuthority() const;
  // Those that may sign for this cluster, as hashes of their certificates: so that an older copy of
  // the authority's folder is known.
  absl::Status NoteAuthority(const std::vector<std::string>& hashes) const;
  // True, too, where nobody has said which one it is.
  absl::StatusOr<bool> MayBeAuthority(const std::string& hash) const;

  // What earlier terms left; once, before the first Write. The ledger is read only of jobs that can
  // go on. Damaged manifests are passed over and told in `damaged`. `unix_ms` is now, for how long
  // ago jobs have ended; 0: that is not wanted.
  absl::StatusOr<RecoveredState> Load(std::vector<std::string>& damaged, int64_t unix_ms = 0);

  // All or nothing, synced. After an error nothing of it is remembered: the same call may be made
  // again.
  absl::Status Write(const std::vector<Persisted>& changes, int64_t unix_ms);

  // From now on each change of a job's phase is an event in the outbox, too; until then, and where
  // there are no webhooks, none is. Before the first Write.
  void KeepOutbox() { keeps_outbox_ = true; }
  bool keeps_outbox() const { return keeps_outbox_; }
  // The place of the next event: those before it are on disk. Thread-safe.
  OutboxPlace OutboxEnd() const { return {term_.value(), next_event_}; }

  // The job's ledger, and last its entry: broken off, it can be called again. Thread-safe for a job
  // that is not written any more.
  absl::Status Erase(const std::string& job) const;
  void Forget(const std::string& job);  // what this object remembers of it

  // What is known of the job's stream: segments that follow each other without a gap. Thread-safe.
  absl::StatusOr<StreamRows> StreamOf(const std::string& job) const;

  JobTimes TimesOf(const std::string& job) const;
  JobTail TailOf(const std::string& job) const;
  std::optional<JobPhase> PhaseOf(const std::string& job) const;  // as it was written last

  // Of all lineages, ascending (lineage, step), all in memory. Thread-safe. kCancelled: `stop` was
  // asked for before the end.
  absl::StatusOr<std::vector<FingerprintEntry>> Fingerprints(
      const std::string& job, const std::stop_token& stop = {}) const;
  // Of a history (lib/domain/ledger.h), by step, in [first, end), one after another until `visit`
  // returns false: however long the ledger is, one record of it is in memory. Likewise.
  using VisitRecord = std::function<bool(RecordedStep)>;
  absl::Status ScanHistory(const std::string& job, const std::vector<LineagePart>& history,
                           Step first, Step end, const VisitRecord& visit,
                           const std::stop_token& stop = {}) const;
  // The same at once, no more than `most`.
  absl::StatusOr<std::vector<RecordedStep>> RecordsIn(const std::string& job,
                                                      const std::vector<LineagePart>& history,
                                                      Step first, Step end, size_t most,
                                                      const std::stop_token& stop = {}) const;
  // What was measured of that state of the job's newest lineage, or of one that it came from;
  // nothing: no fact of it is there. Thread-safe.
  absl::StatusOr<std::optional<RecordedFact>> FactOf(const JobJournal& job, Step state) const;

 private:
  explicit Journal(std::unique_ptr<Kv> kv) : kv_(std::move(kv)) {}
  // What the store says of its cluster and its last term; nothing: it is new.
  absl::Status ReadTerm(const std::string& term_file);
  absl::Status BeginTerm(const std::string& term_file, const std::string& new_cluster);
  absl::StatusOr<HostRecords> LoadHosts() const;
  absl::StatusOr<Quotas> LoadQuotas() const;
  absl::Status LoadLedger(const JobJournal& job, RecoveredState& found);
  absl::Status LoadFacts(const JobJournal& job, Step oldest, Step next, RecentSteps& recent) const;
  absl::StatusOr<RecentSteps> LoadRecent(const JobJournal& job, Step next) const;
  // Of one lineage, steps in [first, end). What cannot be read is kDataLoss.
  absl::Status ScanRecords(const std::string& job, LineageNumber lineage, Step first, Step end,
                           std::map<Step, StepRecord>& out) const;
  absl::Status ScanFingerprints(const std::string& job, LineageNumber lineage, Step first, Step end,
                                std::map<Step, FingerprintPart>& out) const;

  const std::unique_ptr<Kv> kv_;
  std::string cluster_;
  TermNumber term_;
  std::map<std::string, JobTimes> times_;
  std::map<std::string, JobTail> tails_;
  std::map<std::string, JobPhase> phases_;
  bool keeps_outbox_ = false;
  std::atomic<int64_t> next_event_{1};
};

}  // namespace muster::coordinator
