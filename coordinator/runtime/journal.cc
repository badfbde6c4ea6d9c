#include "coordinator/runtime/journal.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/domain/best_state.h"
#include "lib/domain/validation.h"
#include "lib/wire/journal_codec.h"

namespace muster::coordinator {
namespace {

constexpr char kJournal[] = "journal";
constexpr char kLedger[] = "ledger";
constexpr char kClusterKey[] = "cluster";
constexpr char kDrainedKey[] = "drained";   // hosts that are to be empty, by name
constexpr char kLeftOutKey[] = "left_out";  // hosts that are left out for all jobs: why, by name
constexpr char kQuotasKey[] = "quotas";     // by namespace
constexpr char kTokensKey[] = "tokens";     // of people
constexpr char kHostPrefix[] = "host/";
constexpr char kAuthorityKey[] = "authority";
constexpr char kUnnamedAuthority[] = "its own";  // as earlier versions wrote it
constexpr char kTermKey[] = "term";
constexpr char kClaimKey[] = "claim";
constexpr char kJobPrefix[] = "job/";
constexpr char kRecord = 'r';
constexpr char kFingerprint = 'f';
constexpr char kMeasure = 'm';
constexpr char kStreamSegment = 's';
constexpr char kStreamMark = 'p';

std::string_view Std(absl::string_view bytes) { return {bytes.data(), bytes.size()}; }

std::string RandomId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&id, absl::Hex(uint32_t{random()}, absl::kZeroPad8));
  return id;
}

void AppendBigEndian(std::string& key, int64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8)
    key.push_back(static_cast<char>((static_cast<uint64_t>(number) >> shift) & 0xff));
}

int64_t ReadBigEndian(absl::string_view bytes) {
  uint64_t number = 0;
  for (const char c : bytes.substr(0, 8)) number = number << 8 | static_cast<unsigned char>(c);
  return static_cast<int64_t>(number);
}

// "0007 HASH" → "ROLE NAMESPACE TIME USER EXPIRES", in order; none of these has a blank, and what
// does not expire has no EXPIRES.
std::string EncodeTokens(const std::vector<Token>& tokens) {
  std::map<std::string, std::string> fields;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Caller& grant = tokens[i].grant;
    std::string& field = fields[absl::StrCat(absl::Dec(i, absl::kZeroPad4), " ", tokens[i].hash)];
    field = absl::StrCat(std::string(RoleName(grant.role)), " ", grant.scope, " ",
                         tokens[i].made_unix_ms, " ", grant.user);
    if (tokens[i].expires_unix_ms != 0) absl::StrAppend(&field, " ", tokens[i].expires_unix_ms);
  }
  return EncodeFields(fields);
}

absl::StatusOr<std::vector<Token>> DecodeTokens(std::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(const auto fields, DecodeFields(bytes));
  std::vector<Token> tokens;
  for (const auto& [key, value] : fields) {
    const std::vector<std::string> names = absl::StrSplit(key, ' ');
    const std::vector<std::string> parts = absl::StrSplit(value, ' ');
    Token token;
    const bool expires = parts.size() == 5;
    const auto role = parts.size() == 4 || expires ? RoleNamed(parts[0]) : std::nullopt;
    if (names.size() != 2 || !role || !absl::SimpleAtoi(parts[2], &token.made_unix_ms) ||
        (expires && !absl::SimpleAtoi(parts[4], &token.expires_unix_ms)))
      return absl::InvalidArgumentError(absl::StrCat("token ", tokens.size(), " is not one"));
    token.hash = names[1];
    token.grant = {parts[3], *role, parts[1]};
    if (const std::string why = WhyNoGrant(token.grant); !why.empty())
      return absl::InvalidArgumentError(absl::StrCat("token ", tokens.size(), ": ", why));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::string LedgerPrefix(const std::string& job, char kind) {
  std::string key = job;
  key.push_back('\0');
  key.push_back(kind);
  return key;
}

std::string LedgerPrefix(const std::string& job, char kind, LineageNumber lineage) {
  std::string key = LedgerPrefix(job, kind);
  AppendBigEndian(key, lineage.value());
  return key;
}

std::string LedgerKey(const std::string& job, char kind, LineageNumber lineage, Step step) {
  std::string key = LedgerPrefix(job, kind, lineage);
  AppendBigEndian(key, step.value());
  return key;
}

std::string StreamKey(const std::string& job, int64_t segment) {
  std::string key = LedgerPrefix(job, kStreamSegment);
  AppendBigEndian(key, segment);
  return key;
}

absl::Status Damaged(absl::string_view what, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(
      "the journal is damaged: ", what, ": ", why,
      ". Bring back the newest copy of the directory; where there is none, begin a new "
      "cluster in another one, which knows none of the jobs"));
}

absl::Status WhyNotRead(absl::string_view key, const absl::Status& why) {
  if (absl::IsDataLoss(why)) return Damaged(key, why.message());
  return absl::FailedPreconditionError(
      absl::StrCat("the journal cannot be read: ", key, ": ", why.message()));
}

// The last line of defence against two coordinators of one term: members would obey both.
// `cluster` empty: the store is new.
absl::Status CheckTermFile(const std::string& file, const std::string& cluster, int64_t last) {
  const absl::StatusOr<std::string> text = ReadWholeFile(file);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(text.status());
  const std::vector<std::string> words = absl::StrSplit(absl::StripAsciiWhitespace(*text), ' ');
  int64_t term = 0;
  std::string what;
  if (words.size() != 2 || !absl::SimpleAtoi(words[1], &term))
    what = absl::StrCat(file, " cannot be read");
  else if (words[0] != cluster)
    what =
        absl::StrCat(cluster.empty() ? "it is empty" : absl::StrCat("it is of cluster ", cluster),
                     ", and ", file, " names cluster ", words[0]);
  else if (term > last)
    what = absl::StrCat("it ends with term ", last, ", and ", file, " names term ", term);
  if (what.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the journal is not the one that was here last: ", what,
                   ". Bring back the newest copy of the directory; or, to ",
                   cluster.empty() ? "begin anew without the jobs that were in it"
                                   : "go on from this one and lose what was decided since",
                   ", delete the folder ", std::filesystem::path(file).parent_path().string()));
}

absl::StatusOr<bool> GoesOn(const std::stop_token& stop) {
  if (stop.stop_requested()) return absl::CancelledError("reading the ledger was stopped");
  return true;
}

JobTimes Advanced(JobTimes times, JobPhase phase, int64_t now) {
  const bool goes_on = times.ended != 0 && !Ended(phase);
  if (times.submitted == 0 || goes_on) times = {now, 0, 0};
  if (phase != JobPhase::kQueued && times.started == 0) times.started = now;
  if (Ended(phase) && times.ended == 0) times.ended = now;
  return times;
}

// "SLOTS QUEUED PRIORITY", the first two each a number or "-"; earlier versions wrote and read no
// third one, and it is left out where it says nothing.
std::string EncodeQuota(const Quota& quota) {
  const auto text = [](const std::optional<int32_t>& most) {
    return most ? absl::StrCat(*most) : std::string("-");
  };
  return absl::StrCat(text(quota.slots), " ", text(quota.queued),
                      quota.priority == 0 ? "" : absl::StrCat(" ", quota.priority));
}

std::optional<Quota> DecodeQuota(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  if (words.size() != 2 && words.size() != 3) return std::nullopt;
  Quota quota;
  const auto read = [](const std::string& word, std::optional<int32_t>& most) {
    int32_t number = 0;
    if (word == "-") return true;
    if (!absl::SimpleAtoi(word, &number) || number < 0) return false;
    most = number;
    return true;
  };
  if (!read(words[0], quota.slots) || !read(words[1], quota.queued)) return std::nullopt;
  if (words.size() == 3 && !absl::SimpleAtoi(words[2], &quota.priority)) return std::nullopt;
  return quota;
}

std::string EncodeHost(const HostRecord& record) {
  return EncodeFields({{"namespace", record.name_space},
                       {"secret", record.secret},
                       {"key", record.key_hash},
                       {"certified", record.certified ? "1" : ""},
                       {"revoked", record.revoked ? "1" : ""}});
}

absl::StatusOr<HostRecord> DecodeHost(std::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(auto fields, DecodeFields(bytes));
  if (!fields.contains("namespace")) return absl::InvalidArgumentError("namespace: is missing");
  return HostRecord{.name_space = fields["namespace"],
                    .secret = fields["secret"],
                    .key_hash = fields["key"],
                    .certified = !fields["certified"].empty(),
                    .revoked = !fields["revoked"].empty()};
}

// One that was skipped has lost its measures.
void NoteMeasured(const StepRecord& record, JobTail& tail) {
  if (!record.measures.empty())
    tail.measured = MeasuredEntry{record.lineage, record.step, record.measures};
}
// Whoever reads the record for itself says that it is damaged.
void NoteMeasured(const std::string& record, JobTail& tail) {
  if (const auto decoded = DecodeStepRecord(record); decoded.ok()) NoteMeasured(*decoded, tail);
}

// Adds changes to a batch, and to what will be known of their jobs once it is written.
struct Writer {
  const Journal& journal;
  const int64_t now;
  Batch batch;
  std::map<std::string, JobTimes> times;
  std::map<std::string, JobTail> tails;
  std::map<std::string, const JobJournal*> entries;  // the last one of each job counts
  std::vector<OutboxEvent> events;

  void operator()(const PersistJob& change) {
    const std::string& id = change.job.id;
    JobTimes& at = times.try_emplace(id, journal.TimesOf(id)).first->second;
    at = Advanced(at, change.job.phase, now);
    entries[id] = &change.job;
  }
  void operator()(const PersistRecords& change) {
    for (const StepRecord& record : change.records) {
      batch.Put(kLedger, LedgerKey(change.job, kRecord, record.lineage, record.step),
                EncodeRecordedStep({record, now}));
      JobTail& tail = TailOf(change.job);
      tail.loss = MeanLoss(record);
      NoteMeasured(record, tail);
      tail.pace.Add(now, record.step);
    }
  }
  // With what is known once all is written.
  void AddEntries() {
    for (const auto& [id, job] : entries)
      batch.Put(kJournal, absl::StrCat(kJobPrefix, id),
                EncodeJob({*job, times.at(id), TailOf(id)}));
  }
  void operator()(const PersistFingerprint& change) {
    batch.Put(kLedger, LedgerKey(change.job, kFingerprint, change.lineage, change.step),
              EncodeFingerprintPart(change.value));
    TailOf(change.job).fingerprint = {change.lineage, change.step, change.value};
  }

  void operator()(const PersistMeasure& change) {
    batch.Put(kLedger, LedgerKey(change.job, kMeasure, change.fact.lineage, change.fact.step),
              EncodeRecordedFact({change.fact, now}));
    if (!change.last.empty())
      TailOf(change.job).measured = {change.fact.lineage, change.would_be_brought_by, change.last};
  }

  void operator()(const PersistStream& change) {
    for (const SpoolSegment& segment : change.segments)
      batch.Put(kLedger, StreamKey(change.job, segment.number), EncodeSpoolSegment(segment));
    for (const SpoolSegment& segment : change.trimmed)
      batch.Delete(kLedger, StreamKey(change.job, segment.number));
    batch.Put(kLedger, LedgerPrefix(change.job, kStreamMark), EncodeStreamMark(change.mark));
  }

  void operator()(const PersistDrained& change) {
    std::map<std::string, std::string> hosts;
    for (const std::string& host : change.hosts) hosts[host] = "";
    batch.Put(kJournal, kDrainedKey, EncodeFields(hosts));
  }
  void operator()(const PersistLeftOut& change) {
    batch.Put(kJournal, kLeftOutKey, EncodeFields(change.hosts));
  }

  void operator()(const PersistQuotas& change) {
    std::map<std::string, std::string> quotas;
    for (const auto& [name_space, quota] : change.quotas) quotas[name_space] = EncodeQuota(quota);
    batch.Put(kJournal, kQuotasKey, EncodeFields(quotas));
  }

  void operator()(const PersistTokens& change) {
    batch.Put(kJournal, kTokensKey, EncodeTokens(change.tokens));
  }

  void operator()(const PersistHost& change) {
    batch.Put(kJournal, absl::StrCat(kHostPrefix, change.host), EncodeHost(change.record));
  }

  void operator()(const ForgetHost& change) {
    batch.Delete(kJournal, absl::StrCat(kHostPrefix, change.host));
  }

  void operator()(const OutboxEvent& event) { events.push_back(event); }

  // Behind what was announced meanwhile. The place of the next one.
  int64_t AddEvents() {
    OutboxPlace place = journal.OutboxEnd();
    if (!journal.keeps_outbox()) return place.seq;
    for (const auto& [id, job] : entries)
      for (OutboxEvent& event : EventsOfChange(journal.PhaseOf(id), *job, now))
        events.push_back(std::move(event));
    for (const OutboxEvent& event : events) {
      PutEvent(batch, place, event);
      ++place.seq;
    }
    return place.seq;
  }

  JobTail& TailOf(const std::string& job) {
    return tails.try_emplace(job, journal.TailOf(job)).first->second;
  }
};

// The entries of a job's ledger with keys in [first, end), decoded one by one, as long as `take`
// says true.
template <class Decode, class Take>
absl::Status ScanLedger(const Kv& kv, const std::string& job, const std::string& first,
                        const std::string& end, const char* what, const Decode& decode,
                        const Take& take) {
  absl::Status status;
  const size_t numbers = LedgerPrefix(job, kRecord).size();  // lineage and step follow
  MUSTER_RETURN_IF_ERROR(
      kv.Scan(kLedger, first, end, [&](absl::string_view key, absl::string_view value) {
        if (key.size() != numbers + 16) {
          status = Damaged(absl::StrCat("a ", what, " of job ", job), "its key is not one");
          return false;
        }
        const LineageNumber lineage(ReadBigEndian(key.substr(numbers)));
        const Step step(ReadBigEndian(key.substr(numbers + 8)));
        auto decoded = decode(Std(value));
        if (!decoded.ok()) {
          status = Damaged(absl::StrCat(what, " of step ", step.value(), " of job ", job),
                           decoded.status().message());
          return false;
        }
        const absl::StatusOr<bool> more = take(lineage, step, *std::move(decoded));
        status = more.status();
        return more.ok() && *more;
      }));
  return status;
}

// In batches, so that a long ledger needs no memory of its own length.
absl::Status ErasePrefix(Kv& kv, const char* family, const std::string& prefix) {
  constexpr size_t kMostPerBatch = 10'000;
  for (bool more = true; more;) {
    Batch batch;
    more = false;
    MUSTER_RETURN_IF_ERROR(
        kv.Scan(family, prefix, PrefixEnd(prefix), [&](absl::string_view key, absl::string_view) {
          more = batch.changes().size() == kMostPerBatch;
          if (!more) batch.Delete(family, key);
          return !more;
        }));
    if (!batch.empty()) MUSTER_RETURN_IF_ERROR(kv.Write(batch));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> JournalFamilies() { return {kJournal, kLedger, kCatalogueFamily}; }

std::string JournalOf(const std::string& dir) { return dir + "/journal"; }

std::string TermFileOf(const std::string& dir) { return MarksOf(JournalOf(dir)) + "/term"; }

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(std::unique_ptr<Kv> kv,
                                                       const std::string& term_file,
                                                       const std::string& new_cluster) {
  std::unique_ptr<Journal> journal(new Journal(std::move(kv)));
  MUSTER_RETURN_IF_ERROR(journal->ReadTerm(term_file));
  MUSTER_RETURN_IF_ERROR(journal->BeginTerm(term_file, new_cluster));
  return journal;
}

absl::StatusOr<std::unique_ptr<Journal>> Journal::OpenToRead(std::unique_ptr<Kv> kv,
                                                             const std::string& term_file) {
  std::unique_ptr<Journal> journal(new Journal(std::move(kv)));
  MUSTER_RETURN_IF_ERROR(journal->ReadTerm(term_file));
  return journal;
}

absl::Status Journal::ReadTerm(const std::string& term_file) {
  const auto cluster = kv_->Get(kJournal, kClusterKey);
  if (!cluster.ok() && !absl::IsNotFound(cluster.status())) return cluster.status();
  cluster_ = cluster.value_or("");
  int64_t last = 0;
  const auto term = kv_->Get(kJournal, kTermKey);
  if (!term.ok() && !absl::IsNotFound(term.status())) return term.status();
  if (term.ok() && !absl::SimpleAtoi(*term, &last)) return Damaged("the term", "is not a number");
  if (term.ok() && !cluster.ok()) return Damaged("the id of the cluster", "is missing");
  term_ = TermNumber(last);
  return term_file.empty() ? absl::OkStatus() : CheckTermFile(term_file, cluster_, last);
}

absl::Status Journal::BeginTerm(const std::string& term_file, const std::string& new_cluster) {
  Batch batch;
  if (cluster_.empty()) {
    cluster_ = new_cluster.empty() ? RandomId() : new_cluster;
    batch.Put(kJournal, kClusterKey, cluster_);
  }
  ++term_;
  batch.Put(kJournal, kTermKey, absl::StrCat(term_.value()));
  MUSTER_RETURN_IF_ERROR(kv_->Write(batch));
  // After the store: cut short in between, the file is one behind, which says nothing.
  return term_file.empty()
             ? absl::OkStatus()
             : ReplaceFile(term_file, absl::StrCat(cluster_, " ", term_.value(), "\n"));
}

absl::StatusOr<std::string> Journal::Claim() const {
  absl::StatusOr<std::string> claim = kv_->Get(kJournal, kClaimKey);
  return absl::IsNotFound(claim.status()) ? std::string() : claim;
}

absl::Status Journal::NoteClaim(const std::string& claim) const {
  Batch batch;
  batch.Put(kJournal, kClaimKey, claim);
  return kv_->Write(batch);
}

absl::StatusOr<bool> Journal::HasAuthority() const {
  const auto mark = kv_->Get(kJournal, kAuthorityKey);
  if (absl::IsNotFound(mark.status())) return false;
  MUSTER_RETURN_IF_ERROR(mark.status());
  return true;
}

absl::Status Journal::NoteAuthority(const std::vector<std::string>& hashes) const {
  Batch batch;
  batch.Put(kJournal, kAuthorityKey, absl::StrJoin(hashes, ","));
  return kv_->Write(batch);
}

absl::StatusOr<bool> Journal::MayBeAuthority(const std::string& hash) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string mark, kv_->Get(kJournal, kAuthorityKey));
  if (mark == kUnnamedAuthority) return true;
  const std::vector<std::string> hashes = absl::StrSplit(mark, ',');
  return std::find(hashes.begin(), hashes.end(), hash) != hashes.end();
}

absl::StatusOr<HostRecords> Journal::LoadHosts() const {
  HostRecords hosts;
  absl::Status status;
  MUSTER_RETURN_IF_ERROR(kv_->Scan(kJournal, kHostPrefix, PrefixEnd(kHostPrefix),
                                   [&](absl::string_view key, absl::string_view value) {
                                     auto record = DecodeHost(Std(value));
                                     if (!record.ok()) {
                                       status = Damaged(key, record.status().message());
                                       return false;
                                     }
                                     hosts[std::string(absl::StripPrefix(key, kHostPrefix))] =
                                         *std::move(record);
                                     return true;
                                   }));
  MUSTER_RETURN_IF_ERROR(status);
  return hosts;
}

absl::StatusOr<RecoveredState> Journal::Load(std::vector<std::string>& damaged, int64_t unix_ms) {
  RecoveredState recovered;
  absl::Status status;
  MUSTER_RETURN_IF_ERROR(kv_->Scan(kJournal, kJobPrefix, PrefixEnd(kJobPrefix),
                                   [&](absl::string_view key, absl::string_view value) {
                                     auto entry = DecodeJob(Std(value));
                                     if (!entry.ok()) {
                                       status = WhyNotRead(key, entry.status());
                                       return false;
                                     }
                                     times_[entry->job.id] = entry->times;
                                     tails_[entry->job.id] = entry->tail;
                                     phases_[entry->job.id] = entry->job.phase;
                                     const int64_t ended = entry->times.ended;
                                     if (ended > 0 && unix_ms > ended)
                                       recovered.since_end[entry->job.id] =
                                           std::chrono::milliseconds(unix_ms - ended);
                                     recovered.jobs.push_back(std::move(entry->job));
                                     return true;
                                   }));
  MUSTER_RETURN_IF_ERROR(status);
  if (const auto drained = kv_->Get(kJournal, kDrainedKey); drained.ok()) {
    const auto hosts = DecodeFields(*drained);
    if (!hosts.ok()) return Damaged("the list of drained hosts", hosts.status().message());
    for (const auto& [host, none] : *hosts) recovered.drained.insert(host);
  } else if (!absl::IsNotFound(drained.status())) {
    return drained.status();
  }
  if (const auto left_out = kv_->Get(kJournal, kLeftOutKey); left_out.ok()) {
    auto hosts = DecodeFields(*left_out);
    if (!hosts.ok()) return Damaged("the list of hosts left out", hosts.status().message());
    recovered.left_out = *std::move(hosts);
  } else if (!absl::IsNotFound(left_out.status())) {
    return left_out.status();
  }
  MUSTER_ASSIGN_OR_RETURN(recovered.quotas, LoadQuotas());
  MUSTER_ASSIGN_OR_RETURN(recovered.hosts, LoadHosts());
  if (const auto tokens = kv_->Get(kJournal, kTokensKey); tokens.ok()) {
    auto decoded = DecodeTokens(*tokens);
    if (!decoded.ok()) return Damaged("the list of tokens", decoded.status().message());
    recovered.tokens = *std::move(decoded);
  } else if (!absl::IsNotFound(tokens.status())) {
    return tokens.status();
  }
  const Catalogue catalogue(*kv_);
  for (const JobJournal& job : recovered.jobs) {
    MUSTER_RETURN_IF_ERROR(LoadLedger(job, recovered));
    // Of one that is being deleted some rows may be gone already, and nobody asks for them.
    if (IsStreamed(job.spec.training) && !job.deleting) {
      MUSTER_ASSIGN_OR_RETURN(StreamRows rows, StreamOf(job.id));
      if (rows.mark.end && *rows.mark.end != rows.positions())
        return Damaged(absl::StrCat("the stream of job ", job.id),
                       "it does not end with its last segment");
      recovered.streams[job.id] = std::move(rows);
    }
    MUSTER_ASSIGN_OR_RETURN(Catalogue::Listing listing, catalogue.List(job.id));
    damaged.insert(damaged.end(), listing.damaged.begin(), listing.damaged.end());
    recovered.manifests[job.id] = std::move(listing.manifests);
  }
  return recovered;
}

absl::StatusOr<Quotas> Journal::LoadQuotas() const {
  Quotas quotas;
  const auto bytes = kv_->Get(kJournal, kQuotasKey);
  if (absl::IsNotFound(bytes.status())) return quotas;
  MUSTER_RETURN_IF_ERROR(bytes.status());
  const auto fields = DecodeFields(*bytes);
  if (!fields.ok()) return Damaged("the quotas", fields.status().message());
  for (const auto& [name_space, text] : *fields) {
    const std::optional<Quota> quota = DecodeQuota(text);
    if (!quota) return Damaged("the quotas", absl::StrCat("that of ", name_space));
    quotas[name_space] = *quota;
  }
  return quotas;
}

// The records of the current lineage without a gap, and the last values. Of both, what was known
// when the job's entry was written last stands in it: only what came after that is read.
absl::Status Journal::LoadLedger(const JobJournal& job, RecoveredState& recovered) {
  recovered.recorded[job.id] = job.recorded;
  if (job.lineages.empty()) return absl::OkStatus();
  if (Ended(job.phase) && !CanGoOn(job.phase)) {
    // Of the end of such a job something may not be written yet (MeasuresToSave). Where it is made
    // longer, a step may bring what a follower measured of its last state.
    const bool may_bring = job.phase == JobPhase::kDone && FollowersOf(job.spec.training) > 0;
    if (BestRuleOf(job.spec).wanted() || may_bring) {
      MUSTER_ASSIGN_OR_RETURN(recovered.recent[job.id], LoadRecent(job, job.recorded));
    }
    return absl::OkStatus();
  }
  const Lineage& lineage = job.lineages.back();
  const Step marked = std::max(lineage.fork, job.recorded);
  Step next = marked;
  std::string last;
  JobTail& tail = tails_[job.id];
  const auto measures = [&](Step step) {
    const uint64_t samples = job.environment ? job.environment->samples : 0;
    return samples > 0 && BroughtIn(job.spec.training, samples, step).has_value();
  };
  const std::string prefix = LedgerPrefix(job.id, kRecord, lineage.number);
  MUSTER_RETURN_IF_ERROR(kv_->Scan(kLedger, LedgerKey(job.id, kRecord, lineage.number, next),
                                   PrefixEnd(prefix),
                                   [&](absl::string_view key, absl::string_view value) {
                                     if (ReadBigEndian(key.substr(prefix.size())) != next.value())
                                       return false;
                                     last = std::string(value);
                                     if (measures(next)) NoteMeasured(last, tail);
                                     ++next;
                                     return true;
                                   }));
  recovered.recorded[job.id] = next;
  MUSTER_ASSIGN_OR_RETURN(recovered.recent[job.id], LoadRecent(job, next));
  if (tail.measured &&
      !OnAncestry(job.lineages, tail.measured->lineage,
                  tail.measured->step - (DelayOf(job.spec.training.validation) - 1)))
    tail.measured.reset();
  // What a rewind has left out was not the last one that counts.
  if (!tail.measured)
    for (const auto& [step, record] : recovered.recent[job.id].records) NoteMeasured(record, tail);
  if (!last.empty()) {
    const auto record = DecodeStepRecord(last);
    if (!record.ok())
      return Damaged(absl::StrCat("record of step ", next.value() - 1, " of job ", job.id),
                     record.status().message());
    tail.loss = MeanLoss(*record);
  }
  if (tail.fingerprint &&
      !OnAncestry(job.lineages, tail.fingerprint->lineage, tail.fingerprint->step))
    tail.fingerprint.reset();
  // A fingerprint may come some steps later than its record.
  const Step first(std::max<int64_t>(0, marked.value() - static_cast<int64_t>(kRecentSteps)));
  std::map<Step, FingerprintPart> later;
  MUSTER_RETURN_IF_ERROR(ScanFingerprints(job.id, lineage.number, first, Step(INT64_MAX), later));
  if (!later.empty())
    tail.fingerprint = {lineage.number, later.rbegin()->first, later.rbegin()->second};
  return absl::OkStatus();
}

absl::Status Journal::Write(const std::vector<Persisted>& changes, int64_t unix_ms) {
  Writer writer{*this, unix_ms, {}, {}, {}, {}, {}};
  for (const Persisted& change : changes) std::visit(writer, change);
  writer.AddEntries();
  const int64_t next_event = writer.AddEvents();
  MUSTER_RETURN_IF_ERROR(kv_->Write(writer.batch));
  next_event_ = next_event;
  for (const auto& [job, times] : writer.times) times_[job] = times;
  for (const auto& [job, tail] : writer.tails) tails_[job] = tail;
  for (const auto& [id, job] : writer.entries) phases_[id] = job->phase;
  return absl::OkStatus();
}

absl::Status Journal::Erase(const std::string& job) const {
  for (const char kind : {kRecord, kFingerprint, kMeasure, kStreamSegment, kStreamMark}) {
    MUSTER_RETURN_IF_ERROR(ErasePrefix(*kv_, kLedger, LedgerPrefix(job, kind)));
  }
  Batch entry;
  entry.Delete(kJournal, absl::StrCat(kJobPrefix, job));
  return kv_->Write(entry);
}

void Journal::Forget(const std::string& job) {
  times_.erase(job);
  tails_.erase(job);
  phases_.erase(job);
}

JobTimes Journal::TimesOf(const std::string& job) const {
  const auto it = times_.find(job);
  return it == times_.end() ? JobTimes{} : it->second;
}

JobTail Journal::TailOf(const std::string& job) const {
  const auto it = tails_.find(job);
  return it == tails_.end() ? JobTail{} : it->second;
}

std::optional<JobPhase> Journal::PhaseOf(const std::string& job) const {
  const auto it = phases_.find(job);
  return it == phases_.end() ? std::nullopt : std::optional(it->second);
}

absl::StatusOr<std::vector<FingerprintEntry>> Journal::Fingerprints(
    const std::string& job, const std::stop_token& stop) const {
  std::vector<FingerprintEntry> entries;
  const std::string prefix = LedgerPrefix(job, kFingerprint);
  MUSTER_RETURN_IF_ERROR(
      ScanLedger(*kv_, job, prefix, PrefixEnd(prefix), "fingerprint", DecodeFingerprintPart,
                 [&](LineageNumber lineage, Step step, const FingerprintPart& part) {
                   entries.push_back({lineage, step, part});
                   return GoesOn(stop);
                 }));
  return entries;
}

absl::Status Journal::ScanHistory(const std::string& job, const std::vector<LineagePart>& history,
                                  Step first, Step end, const VisitRecord& visit,
                                  const std::stop_token& stop) const {
  bool more = true;
  for (const LineagePart& part : history) {
    const Step from = std::max(part.first, first), to = std::min(part.end, end);
    if (!more || from >= to) continue;
    const auto take = [&](LineageNumber, Step, RecordedStep record) -> absl::StatusOr<bool> {
      MUSTER_RETURN_IF_ERROR(GoesOn(stop).status());
      more = visit(std::move(record));
      return more;
    };
    MUSTER_RETURN_IF_ERROR(ScanLedger(*kv_, job, LedgerKey(job, kRecord, part.lineage, from),
                                      LedgerKey(job, kRecord, part.lineage, to), "record",
                                      DecodeRecordedStep, take));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RecordedStep>> Journal::RecordsIn(
    const std::string& job, const std::vector<LineagePart>& history, Step first, Step end,
    size_t most, const std::stop_token& stop) const {
  std::vector<RecordedStep> records;
  const auto take = [&](RecordedStep record) {
    records.push_back(std::move(record));
    return records.size() < most;
  };
  MUSTER_RETURN_IF_ERROR(ScanHistory(job, history, first, end, take, stop));
  return records;
}

absl::Status Journal::ScanRecords(const std::string& job, LineageNumber lineage, Step first,
                                  Step end, std::map<Step, StepRecord>& out) const {
  return ScanLedger(*kv_, job, LedgerKey(job, kRecord, lineage, first),
                    LedgerKey(job, kRecord, lineage, end), "record", DecodeStepRecord,
                    [&](LineageNumber, Step step, StepRecord record) {
                      record.lane_holders = LaneHolders();
                      out[step] = std::move(record);
                      return true;
                    });
}

absl::Status Journal::ScanFingerprints(const std::string& job, LineageNumber lineage, Step first,
                                       Step end, std::map<Step, FingerprintPart>& out) const {
  return ScanLedger(*kv_, job, LedgerKey(job, kFingerprint, lineage, first),
                    LedgerKey(job, kFingerprint, lineage, end), "fingerprint",
                    DecodeFingerprintPart,
                    [&](LineageNumber, Step step, const FingerprintPart& part) {
                      out[step] = part;
                      return true;
                    });
}

// Along the ancestry; and what the last rewind voided, as far as it is not done again.
// Of all lineages: what was measured of a voided state is compared with what is measured again.
// That of state(next), where it is the last one, and the one that it has not learned of yet come
// last, and so stay, however old they are and however many are voided.
absl::Status Journal::LoadFacts(const JobJournal& job, Step oldest, Step next,
                                RecentSteps& recent) const {
  const std::optional<Step> outstanding =
      job.environment ? OutstandingIn(job.spec.training, job.environment->samples, next)
                      : std::nullopt;
  std::map<Step, MeasureFact> wanted;
  const std::string prefix = LedgerPrefix(job.id, kMeasure);
  MUSTER_RETURN_IF_ERROR(ScanLedger(
      *kv_, job.id, prefix, PrefixEnd(prefix), "measure", DecodeRecordedFact,
      [&](LineageNumber lineage, Step step, const RecordedFact& recorded) {
        if (step >= oldest) recent.Add(recorded.fact, job.lineages);
        if ((step == outstanding || step == next) && OnAncestry(job.lineages, lineage, step))
          wanted[step] = recorded.fact;
        return absl::StatusOr<bool>(true);
      }));
  for (const auto& [step, fact] : wanted) recent.Add(fact, job.lineages);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<RecordedFact>> Journal::FactOf(const JobJournal& job,
                                                            Step state) const {
  std::optional<RecordedFact> found;
  for (auto l = job.lineages.rbegin(); l != job.lineages.rend() && !found; ++l) {
    if (!OnAncestry(job.lineages, l->number, state)) continue;
    MUSTER_RETURN_IF_ERROR(ScanLedger(*kv_, job.id, LedgerKey(job.id, kMeasure, l->number, state),
                                      LedgerKey(job.id, kMeasure, l->number, state + 1), "measure",
                                      DecodeRecordedFact,
                                      [&](LineageNumber, Step, const RecordedFact& fact) {
                                        found = fact;
                                        return absl::StatusOr<bool>(true);
                                      }));
  }
  return found;
}

absl::StatusOr<StreamRows> Journal::StreamOf(const std::string& job) const {
  StreamRows rows;
  std::vector<SpoolSegment> segments;
  absl::Status status;
  const std::string what = absl::StrCat("the stream of job ", job);
  const std::string prefix = LedgerPrefix(job, kStreamSegment);
  MUSTER_RETURN_IF_ERROR(kv_->Scan(
      kLedger, prefix, PrefixEnd(prefix), [&](absl::string_view key, absl::string_view value) {
        const absl::StatusOr<SpoolSegment> segment = DecodeSpoolSegment(Std(value));
        status = segment.status();
        if (status.ok() && key != StreamKey(job, segment->number))
          status = absl::DataLossError("a segment stands under another number");
        if (status.ok()) segments.push_back(*segment);
        return status.ok();
      }));
  if (status.ok()) status = AddFacts(rows.segments, segments);
  if (!status.ok()) return Damaged(what, status.message());
  const auto mark = kv_->Get(kLedger, LedgerPrefix(job, kStreamMark));
  if (absl::IsNotFound(mark.status()) && rows.segments.empty()) return rows;
  if (absl::IsNotFound(mark.status())) return Damaged(what, "it has segments, and no place");
  MUSTER_RETURN_IF_ERROR(mark.status());
  absl::StatusOr<StreamMark> decoded = DecodeStreamMark(*mark);
  if (!decoded.ok()) return Damaged(what, decoded.status().message());
  rows.mark = *std::move(decoded);
  return rows;
}

absl::StatusOr<RecentSteps> Journal::LoadRecent(const JobJournal& job, Step next) const {
  constexpr auto kMany = static_cast<int64_t>(kRecentSteps);
  const Step oldest(std::max<int64_t>(0, next.value() - kMany));
  RecentSteps recent;
  Step end = next;
  for (auto l = job.lineages.rbegin(); l != job.lineages.rend() && end > oldest; ++l) {
    if (!OnAncestry(job.lineages, l->number, end)) continue;
    const Step first = std::max(oldest, l->fork);
    // The state after step s belongs to the lineage in which s was done.
    MUSTER_RETURN_IF_ERROR(ScanRecords(job.id, l->number, first, end, recent.records));
    MUSTER_RETURN_IF_ERROR(
        ScanFingerprints(job.id, l->number, first + 1, end + 1, recent.fingerprints));
    end = std::min(end, l->fork);
  }
  if (job.spec.training.validation.wanted())
    MUSTER_RETURN_IF_ERROR(LoadFacts(job, oldest, next, recent));
  const LineageNumber before = job.lineages.back().parent;
  if (before == LineageNumber(0)) return recent;
  MUSTER_RETURN_IF_ERROR(ScanRecords(job.id, before, next, next + kMany, recent.voided_records));
  MUSTER_RETURN_IF_ERROR(
      ScanFingerprints(job.id, before, next + 1, next + 1 + kMany, recent.voided_fingerprints));
  return recent;
}

}  // namespace muster::coordinator
