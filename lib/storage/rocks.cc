#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/log/log.h"
#include "lib/storage/kv.h"
#include "lib/storage/sequence_mark.h"

namespace muster {
namespace {

rocksdb::Slice ToSlice(absl::string_view s) { return {s.data(), s.size()}; }
absl::string_view FromSlice(const rocksdb::Slice& s) { return {s.data(), s.size()}; }

bool HeldByAnother(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  return status.IsIOError() && (absl::StrContains(text, "While lock file") ||
                                absl::StrContains(text, "lock hold by current process"));
}

constexpr size_t kWriteBuffer = 8 << 20;  // of a family: small values, and a short log to replay
// RocksDB begins another file long before, for its log as well as for its manifest.
constexpr uintmax_t kLongestLog = 64 * kWriteBuffer;

// The one place where RocksDB's errors become ours.
absl::Status Translate(const std::string& path, const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string where = absl::StrCat("store '", path, "'");
  if (status.IsNotFound()) return absl::NotFoundError(absl::StrCat(where, ": no such key"));
  if (HeldByAnother(status))
    return absl::AlreadyExistsError(absl::StrCat(
        where, " is open in another process: stop that one first, or choose another directory"));
  const std::string text = absl::StrCat(where, ": ", status.ToString());
  // With a fatal one RocksDB never takes a write again, whatever space there is.
  if (status.IsNoSpace() && status.severity() < rocksdb::Status::kFatalError)
    return absl::ResourceExhaustedError(
        absl::StrCat(where, ": the disk is full, free some space: ", status.ToString()));
  if (status.IsCorruption()) return absl::DataLossError(text);
  if (status.IsInvalidArgument()) return absl::InvalidArgumentError(text);
  if (absl::StrContains(text, "Permission denied") ||
      absl::StrContains(text, "Read-only file system"))
    return absl::PermissionDeniedError(text);
  return absl::UnavailableError(text);
}

// We recover ourselves, with the next write: RocksDB's own recovery runs at any time, and refuses
// ours meanwhile.
class NoRecoveryByItself final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* recover) override {
    *recover = false;
  }
};

// RocksDB's own log file ends the process when its disk is full; what matters goes to ours.
class ToOurLog final : public rocksdb::Logger {
 public:
  ToOurLog() : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::array<char, 1024> line{};
    std::vsnprintf(line.data(), line.size(), format, arguments);
    LogWarning("RocksDB: %s", line.data());
  }
  void LogHeader(const char* /*format*/, va_list /*arguments*/) override {}  // all its options
};

// `track_logs`: an error where a file of the log that was complete is missing or shorter. RocksDB
// keeps no account of the file that it writes to, nor of what lacks at the end: SequenceMark does.
rocksdb::Options StoreOptions(bool track_logs) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  // A torn tail is what a crash leaves; damage in the middle of the log would lose what was
  // acknowledged: an error.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.track_and_verify_wals_in_manifest = track_logs;
  options.write_buffer_size = kWriteBuffer;
  options.max_manifest_file_size = kWriteBuffer;
  options.allow_fallocate = false;  // the log takes the space it uses: small disks stay usable
  options.max_bgerror_resume_count = 0;
  options.avoid_flush_during_shutdown = true;  // all that counts is in the log
  options.listeners.push_back(std::make_shared<NoRecoveryByItself>());
  options.info_log = std::make_shared<ToOurLog>();
  return options;
}

// A failed write stops RocksDB until Resume; the log is not to be touched in between. Resume begins
// a new one, but only where something is in memory that it can write to a table first: where
// nothing is, the next write would meet the log that failed, and RocksDB 7 ends the process. So
// there always is something before a log is written to.
class RocksKv final : public Kv {
 public:
  RocksKv(std::string path, std::unique_ptr<rocksdb::DB> db,
          std::vector<rocksdb::ColumnFamilyHandle*> handles, std::unique_ptr<SequenceMark> mark)
      : path_(std::move(path)),
        db_(std::move(db)),
        handles_(std::move(handles)),
        mark_(std::move(mark)) {
    for (rocksdb::ColumnFamilyHandle* handle : handles_) families_[handle->GetName()] = handle;
  }
  ~RocksKv() override {
    for (rocksdb::ColumnFamilyHandle* handle : handles_)
      db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    db_->Close().PermitUncheckedError();
  }

  absl::StatusOr<std::string> Get(absl::string_view family, absl::string_view key) const override {
    MUSTER_ASSIGN_OR_RETURN(rocksdb::ColumnFamilyHandle* const handle, Find(family));
    std::string value;
    MUSTER_RETURN_IF_ERROR(
        Translate(path_, db_->Get(rocksdb::ReadOptions(), handle, ToSlice(key), &value)));
    return value;
  }

  absl::Status Write(const Batch& batch) override {
    if (mark_ == nullptr)
      return absl::FailedPreconditionError(
          absl::StrCat("store '", path_, "' was opened only to be read"));
    rocksdb::WriteBatch changes;
    for (const Batch::Change& change : batch.changes()) {
      MUSTER_ASSIGN_OR_RETURN(rocksdb::ColumnFamilyHandle* const handle, Find(change.family));
      MUSTER_RETURN_IF_ERROR(Translate(path_, change.value
                                                  ? changes.Put(handle, change.key, *change.value)
                                                  : changes.Delete(handle, change.key)));
    }
    MUSTER_RETURN_IF_ERROR(ResumeIfStopped());
    if (!batch.changes().empty()) {
      const rocksdb::Status held =
          HoldSomething(families_.find(batch.changes().front().family)->second);
      if (!held.ok()) return Stop(Stopped::kBeforeItsLog, held);
    }
    rocksdb::WriteOptions options;
    options.sync = true;
    const rocksdb::Status written = db_->Write(options, &changes);
    if (!written.ok()) return Stop(Stopped::kInItsLog, written);
    mark_->Reach(db_->GetLatestSequenceNumber());
    return absl::OkStatus();
  }

  absl::Status Scan(absl::string_view family, absl::string_view first, absl::string_view last,
                    const Visit& visit) const override {
    MUSTER_ASSIGN_OR_RETURN(rocksdb::ColumnFamilyHandle* const handle, Find(family));
    const rocksdb::Slice bound = ToSlice(last);
    rocksdb::ReadOptions options;
    if (!last.empty()) options.iterate_upper_bound = &bound;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options, handle));
    for (it->Seek(ToSlice(first)); it->Valid(); it->Next()) {
      if (!visit(FromSlice(it->key()), FromSlice(it->value()))) return absl::OkStatus();
    }
    return Translate(path_, it->status());
  }

 private:
  enum class Stopped {
    kNo,
    kBeforeItsLog,
    kInItsLog
  };  // by a write that failed; the last weighs most

  absl::StatusOr<rocksdb::ColumnFamilyHandle*> Find(absl::string_view family) const {
    const auto it = families_.find(family);
    if (it == families_.end())
      return absl::InvalidArgumentError(
          absl::StrCat("store '", path_, "': there is no family '", family, "'"));
    return it->second;
  }

  bool HoldsSomething() const {
    for (rocksdb::ColumnFamilyHandle* const handle : handles_) {
      for (const std::string& of : {rocksdb::DB::Properties::kNumEntriesActiveMemTable,
                                    rocksdb::DB::Properties::kNumEntriesImmMemTables}) {
        uint64_t entries = 0;
        if (db_->GetIntProperty(handle, of, &entries) && entries > 0) return true;
      }
    }
    return false;
  }

  // In memory alone, and in the family that is written to next: another one would keep old logs.
  rocksdb::Status HoldSomething(rocksdb::ColumnFamilyHandle* family) {
    if (HoldsSomething()) return rocksdb::Status::OK();
    constexpr absl::string_view kNobodysKey("\0nobody's key", 13);
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    return db_->Delete(options, family, ToSlice(kNobodysKey));
  }

  absl::Status Stop(Stopped where, const rocksdb::Status& why) {
    MutexLock lock(mutex_);
    stopped_ = std::max(stopped_, where);
    return Translate(path_, why);
  }

  absl::Status ResumeIfStopped() {
    MutexLock lock(mutex_);
    if (stopped_ == Stopped::kNo) return absl::OkStatus();
    // All was written to tables while that write was under way.
    if (stopped_ == Stopped::kInItsLog && !HoldsSomething())
      return absl::UnavailableError(absl::StrCat(
          "store '", path_, "': its log could not be written; it is to be opened anew"));
    MUSTER_RETURN_IF_ERROR(Translate(path_, db_->Resume()));
    stopped_ = Stopped::kNo;
    return absl::OkStatus();
  }

  const std::string path_;
  const std::unique_ptr<rocksdb::DB> db_;
  const std::vector<rocksdb::ColumnFamilyHandle*> handles_;  // owned; destroyed before db_
  const std::unique_ptr<SequenceMark> mark_;                 // null: it is only read
  std::map<std::string, rocksdb::ColumnFamilyHandle*, std::less<>>
      families_;  // fixed after construction
  Mutex mutex_;
  Stopped stopped_ ABSL_GUARDED_BY(mutex_) = Stopped::kNo;  // since the last Resume
};

absl::Status MakeStoreDirectory(const std::string& path) {
  absl::Status made = MakeDirectories(path);
  if (made.ok() && access(path.c_str(), W_OK | X_OK) != 0) made = FileError(errno, "write", path);
  const bool known = made.ok() || absl::IsResourceExhausted(made) || absl::IsPermissionDenied(made);
  const absl::Status told = known ? made : absl::InvalidArgumentError(made.message());
  return Prefix(absl::StrCat("store '", path, "'"), told);
}

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::path(path) / "CURRENT", error);
}

std::string MarkFile(const std::string& path) { return MarksOf(path) + "/sequence"; }

absl::Status Lost(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      "store '", path, "' lacks something that it had acknowledged (", what,
      "): a file of it was deleted or cut, or an older copy was brought back. Bring back the "
      "newest copy of the directory; or, to go on from what is there and lose the rest, delete the "
      "folder '",
      MarksOf(path), "'"));
}

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("store '", path, "' is damaged: ", what,
                   ". Bring back the newest copy of the directory; where there is none, begin anew "
                   "in another one, which knows nothing of what was recorded in this one"));
}

// RocksDB waits for ever for the writer of a pipe, and for hours for the end of a log that somebody
// made long without writing to it. Only its tables may be large.
absl::Status CheckFiles(const std::string& path) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    if (it->is_directory(gone) && !it->is_symlink(gone)) continue;
    const std::string file = it->path().string();
    if (const absl::Status regular = CheckRegularFile(file); !regular.ok())
      return Damaged(path, regular.message());
    const uintmax_t bytes = it->file_size(gone);
    if (!gone && bytes > kLongestLog && it->path().extension() != ".sst")
      return Damaged(path, absl::StrCat("its file '", file, "' has ", bytes,
                                        " bytes, many more than are ever written to it"));
  }
  if (error == std::errc::permission_denied)
    return absl::PermissionDeniedError(absl::StrCat(
        "store '", path, "' may not be read by this user: give the command as the one who may"));
  return absl::OkStatus();
}

// RocksDB tells it by its text only.
absl::Status TranslateOpening(const std::string& path, const rocksdb::Status& status) {
  const bool log_is_missing =
      status.IsCorruption() && (absl::StrContains(status.ToString(), "Missing WAL") ||
                                absl::StrContains(status.ToString(), "WAL (log number"));
  if (log_is_missing) return Lost(path, status.ToString());
  const absl::Status told = Translate(path, status);
  const bool is_incomplete = status.IsPathNotFound() || status.IsNotFound();
  if (!absl::IsDataLoss(told) && !is_incomplete) return told;
  return Damaged(path, status.ToString());
}

// RocksDB wants every family of the store named when it opens.
absl::StatusOr<std::set<std::string>> AllFamilies(const std::string& path,
                                                  const rocksdb::Options& options,
                                                  const std::vector<std::string>& wanted) {
  std::set<std::string> names(wanted.begin(), wanted.end());
  names.insert(rocksdb::kDefaultColumnFamilyName);
  if (!IsThere(path)) return names;
  std::vector<std::string> present;
  MUSTER_RETURN_IF_ERROR(
      TranslateOpening(path, rocksdb::DB::ListColumnFamilies(options, path, &present)));
  names.insert(present.begin(), present.end());
  return names;
}

// Without CURRENT a new store would be made over what is left of the old one.
absl::Status CheckNotLost(const std::string& path, std::optional<uint64_t> reached) {
  if (IsThere(path)) return absl::OkStatus();
  bool had_one = reached.value_or(0) > 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    const std::string file = it->path().filename().string();
    had_one = had_one || absl::EndsWith(file, ".sst") || absl::EndsWith(file, ".log");
  }
  if (!had_one) return absl::OkStatus();
  return Damaged(path, "its file CURRENT is missing, without which the others cannot be read");
}

struct Opened {
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
};

enum class Use { kReadAndWrite, kRead };

absl::StatusOr<Opened> Open(const std::string& path, const std::vector<std::string>& families,
                            bool track_logs, Use use) {
  const rocksdb::Options options = StoreOptions(track_logs);
  MUSTER_ASSIGN_OR_RETURN(const std::set<std::string> names, AllFamilies(path, options, families));
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const std::string& name : names)
    descriptors.emplace_back(name, rocksdb::ColumnFamilyOptions(options));
  Opened opened;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status =
      use == Use::kRead
          ? rocksdb::DB::OpenForReadOnly(options, path, descriptors, &opened.handles, &db)
          : rocksdb::DB::Open(options, path, descriptors, &opened.handles, &db);
  MUSTER_RETURN_IF_ERROR(TranslateOpening(path, status));
  opened.db.reset(db);
  return opened;
}

void Close(Opened opened) {
  for (rocksdb::ColumnFamilyHandle* handle : opened.handles)
    opened.db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  opened.db->Close().PermitUncheckedError();
}

// `reached`: changes that the store had acknowledged, where something says how many.
absl::Status CheckReached(const std::string& path, std::optional<uint64_t> reached,
                          const Opened& opened) {
  const uint64_t found = opened.db->GetLatestSequenceNumber();
  if (!reached || found >= *reached) return absl::OkStatus();
  return Lost(path, absl::StrCat(*reached, " changes were written, ", found, " are there"));
}

absl::StatusOr<std::optional<uint64_t>> ReadMark(const std::string& path) {
  absl::StatusOr<std::optional<uint64_t>> reached = SequenceMark::Read(MarkFile(path));
  if (!absl::IsDataLoss(reached.status())) return reached;
  return absl::DataLossError(absl::StrCat(
      "store '", path,
      "' may lack something that it had acknowledged: ", reached.status().message(),
      ", which is to say how much was written. Bring back the newest copy of the directory and of "
      "that file; or, to take the store as it is, delete the folder '",
      MarksOf(path), "'"));
}

}  // namespace

std::string MarksOf(const std::string& path) { return path + ".marks"; }

absl::StatusOr<std::unique_ptr<Kv>> OpenRocks(const std::string& path,
                                              const std::vector<std::string>& families) {
  MUSTER_RETURN_IF_ERROR(MakeStoreDirectory(path));
  MUSTER_ASSIGN_OR_RETURN(const std::optional<uint64_t> reached, ReadMark(path));
  MUSTER_RETURN_IF_ERROR(CheckFiles(path));
  MUSTER_RETURN_IF_ERROR(CheckNotLost(path, reached));
  const bool as_it_is = !reached && IsThere(path);
  if (as_it_is)
    LogWarning("the store %s is taken as it is: nothing says how far it had come", path);
  MUSTER_ASSIGN_OR_RETURN(Opened opened,
                          Open(path, families, /*track_logs=*/!as_it_is, Use::kReadAndWrite));
  absl::Status status = CheckReached(path, reached, opened);
  absl::StatusOr<std::unique_ptr<SequenceMark>> mark(nullptr);
  if (status.ok()) mark = SequenceMark::Begin(MarkFile(path), opened.db->GetLatestSequenceNumber());
  if (status.ok()) status = mark.status();
  if (!status.ok()) {
    Close(std::move(opened));
    return status;
  }
  return std::make_unique<RocksKv>(path, std::move(opened.db), std::move(opened.handles),
                                   *std::move(mark));
}

absl::StatusOr<std::unique_ptr<Kv>> OpenRocksToRead(const std::string& path,
                                                    const std::vector<std::string>& families) {
  MUSTER_ASSIGN_OR_RETURN(const std::optional<uint64_t> reached, ReadMark(path));
  MUSTER_RETURN_IF_ERROR(CheckFiles(path));
  MUSTER_RETURN_IF_ERROR(CheckNotLost(path, reached));
  if (!IsThere(path)) return absl::NotFoundError(absl::StrCat("there is no store '", path, "'"));
  // Where logs are not tracked RocksDB would note that in the store.
  MUSTER_ASSIGN_OR_RETURN(Opened opened, Open(path, families, /*track_logs=*/true, Use::kRead));
  if (const absl::Status whole = CheckReached(path, reached, opened); !whole.ok()) {
    Close(std::move(opened));
    return whole;
  }
  return std::make_unique<RocksKv>(path, std::move(opened.db), std::move(opened.handles), nullptr);
}

}  // namespace muster
