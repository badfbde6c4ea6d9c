#include "lib/launch/lane_counter.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lib/base/status.h"

namespace muster {
namespace {

constexpr uint64_t kMagic = 0x316c656e616c756d;  // "mulanel1"
using Word = std::atomic<int64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8, "words are shared between processes");

absl::Status Failed(absl::string_view what, const std::string& path) {
  const std::string text = absl::StrCat("lane count file '", path, "': cannot ", what, ": ", strerror(errno));
  if (errno == ENOENT) return absl::NotFoundError(text);
  return errno == EACCES ? absl::PermissionDeniedError(text) : absl::UnavailableError(text);
}

}  // namespace

// As it lies in the file. `version` is odd while the rest changes.
struct LaneCounter::Page {
  std::atomic<uint64_t> magic;
  Word version;
  std::atomic<uint64_t> incarnation_hi, incarnation_lo;
  Word total, lineage, step, in_step;
};

absl::StatusOr<std::unique_ptr<LaneCounter>> LaneCounter::Open(const std::string& path,
                                                               Incarnation incarnation) {
  std::error_code ignored;  // open() below says what is wrong
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Failed("open it", path);
  if (ftruncate(fd, 0) != 0 || ftruncate(fd, sizeof(Page)) != 0) {
    const absl::Status status = Failed("size it", path);
    close(fd);
    return status;
  }
  void* memory = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return Failed("map it", path);
  Page* page = static_cast<Page*>(memory);
  page->incarnation_hi = incarnation.hi;
  page->incarnation_lo = incarnation.lo;
  page->magic = kMagic;
  return std::unique_ptr<LaneCounter>(new LaneCounter(page));
}

LaneCounter::~LaneCounter() { munmap(page_, sizeof(Page)); }

void LaneCounter::Count(LineageNumber lineage, Step step) {
  const bool same = page_->lineage == lineage.value() && page_->step == step.value();
  ++page_->version;
  page_->lineage = lineage.value();
  page_->step = step.value();
  page_->in_step = same ? page_->in_step + 1 : 1;
  ++page_->total;
  ++page_->version;
}

absl::StatusOr<LaneCount> ReadLaneCount(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failed("open it", path);
  int64_t words[8] = {};
  LaneCount count;
  for (int64_t before = -1;;) {  // until no change fell between two looks; a dead writer changes nothing
    const ssize_t n = pread(fd, words, sizeof(words), 0);
    if (n != sizeof(words) || static_cast<uint64_t>(words[0]) != kMagic) {
      close(fd);
      return absl::DataLossError(absl::StrCat("lane count file '", path, "' is not one of ours"));
    }
    if (words[1] == before) break;
    before = words[1];
  }
  close(fd);
  count.incarnation = {static_cast<uint64_t>(words[2]), static_cast<uint64_t>(words[3])};
  count.total = words[4];
  count.lineage = LineageNumber(words[5]);
  count.step = Step(words[6]);
  count.in_step = words[7];
  return count;
}

}  // namespace muster
