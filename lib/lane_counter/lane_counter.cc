#include "lib/lane_counter/lane_counter.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "lib/base/descriptor.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"

namespace muster {
namespace {

constexpr uint64_t kMagic = 0x316c656e616c756d;  // "mulanel1"
using Word = std::atomic<int64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8, "words are shared between processes");

absl::Status Failed(absl::string_view what, const std::string& path, int error) {
  const std::string text =
      absl::StrCat("lane count file '", path, "': cannot ", what, ": ", strerror(error));
  switch (error) {
    case ENOENT: return absl::NotFoundError(text);
    case EACCES: return absl::PermissionDeniedError(text);
    case EDQUOT:
    case ENOSPC: return absl::ResourceExhaustedError(absl::StrCat(text, "; free some space"));
    default: return absl::UnavailableError(text);
  }
}

}  // namespace

// As it lies in the file, one after the other. `version` is odd while the rest changes.
struct LaneCounter::Record {
  std::atomic<uint64_t> magic;  // 0: its worker died before it could begin
  Word version;
  std::atomic<uint64_t> incarnation_hi, incarnation_lo;
  Word total, lineage, step, in_step;
};

namespace {

constexpr off_t kRecordBytes = 64;
constexpr size_t kWords = kRecordBytes / sizeof(int64_t);
constexpr off_t kPageBytes = 4096;  // no record lies across two
static_assert(kPageBytes % kRecordBytes == 0);

absl::StatusOr<Descriptor> OpenFile(const std::string& path, int flags) {
  absl::StatusOr<Descriptor> file = OpenRegularFile(path, flags);
  if (!file.ok()) return Prefix("lane count file", file.status());
  return file;
}

// Where the new record begins. Its space is allocated now, because a write into a hole of a mapped
// file raises SIGBUS when the disk is full.
absl::StatusOr<off_t> Grow(int fd, const std::string& path) {
  struct stat file {};
  if (fstat(fd, &file) != 0) return Failed("look at it", path, errno);
  const off_t begin = file.st_size / kRecordBytes * kRecordBytes;
  if (const int error = posix_fallocate(fd, begin, kRecordBytes); error != 0)
    return Failed("make room in it", path, error);
  return begin;
}

LaneCount CountFrom(const std::array<int64_t, kWords>& words) {
  LaneCount count;
  count.incarnation = {static_cast<uint64_t>(words[2]), static_cast<uint64_t>(words[3])};
  count.total = words[4];
  count.lineage = LineageNumber(words[5]);
  count.step = Step(words[6]);
  count.in_step = words[7];
  return count;
}

// False at the end of the file.
absl::StatusOr<bool> ReadRecord(int fd, off_t at, const std::string& path,
                                std::array<int64_t, kWords>& words) {
  // Reads until the record did not change while it was read; a dead writer changes nothing.
  for (int64_t before = -1; words[1] != before || before < 0;) {
    before = words[1];
    const ssize_t n = pread(fd, words.data(), kRecordBytes, at);
    if (n == 0) return false;
    const auto magic = static_cast<uint64_t>(words[0]);
    if (n != kRecordBytes || (magic != kMagic && magic != 0))
      return absl::DataLossError(absl::StrCat("lane count file '", path, "' is not one of ours"));
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaneCounter>> LaneCounter::Open(const std::string& path,
                                                               Incarnation incarnation) {
  static_assert(sizeof(Record) == kRecordBytes);
  std::error_code ignored;  // opening below says what is wrong
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  MUSTER_ASSIGN_OR_RETURN(const Descriptor file, OpenFile(path, O_RDWR | O_CREAT));
  const int fd = file.get();
  MUSTER_ASSIGN_OR_RETURN(const off_t begin, Grow(fd, path));
  const off_t page = begin / kPageBytes * kPageBytes;
  void* memory = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, page);
  if (memory == MAP_FAILED) return Failed("map it", path, errno);
  Record* record = reinterpret_cast<Record*>(static_cast<std::byte*>(memory) + (begin - page));
  record->incarnation_hi = incarnation.hi;
  record->incarnation_lo = incarnation.lo;
  record->magic = kMagic;
  return std::unique_ptr<LaneCounter>(new LaneCounter(memory, record));
}

LaneCounter::~LaneCounter() { munmap(mapping_, kPageBytes); }

void LaneCounter::Count(LineageNumber lineage, Step step) {
  const bool same = record_->lineage == lineage.value() && record_->step == step.value();
  ++record_->version;
  record_->lineage = lineage.value();
  record_->step = step.value();
  record_->in_step = same ? record_->in_step + 1 : 1;
  ++record_->total;
  ++record_->version;
}

absl::StatusOr<std::vector<LaneCount>> ReadLaneCounts(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const Descriptor file, OpenFile(path, O_RDONLY));
  std::vector<LaneCount> counts;
  for (off_t at = 0;; at += kRecordBytes) {
    std::array<int64_t, kWords> words{};
    MUSTER_ASSIGN_OR_RETURN(const bool is_there, ReadRecord(file.get(), at, path, words));
    if (!is_there) return counts;
    if (words[0] != 0) counts.push_back(CountFrom(words));
  }
}

}  // namespace muster
