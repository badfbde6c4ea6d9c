#include "lib/launch/last_word.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr size_t kMostBytes = 4096;
constexpr absl::string_view kRuns = "runs ", kEnded = "ended";

void Write(int fd, absl::string_view word) {
  if (fd < 0) return;
  word = word.substr(0, kMostBytes);
  // A word that cannot be written is missed by whoever waits for it.
  if (pwrite(fd, word.data(), word.size(), 0) == static_cast<ssize_t>(word.size()))
    static_cast<void>(!ftruncate(fd, static_cast<off_t>(word.size())));
}

}  // namespace

void LastWord::Runs(absl::string_view what) const { Write(fd_, absl::StrCat(kRuns, what)); }
void LastWord::HasEnded() const { Write(fd_, kEnded); }

absl::StatusOr<Descriptor> NewLastWord() {
  Descriptor file(memfd_create("last word", MFD_CLOEXEC));
  if (!file.is_open())
    return absl::InternalError(absl::ErrnoToStatus(errno, "memfd_create").message());
  return file;
}

HeardWord HearLastWord(const Descriptor& file) {
  std::string text(kMostBytes, '\0');
  const ssize_t length = pread(file.get(), text.data(), text.size(), 0);
  text.resize(length < 0 ? 0 : static_cast<size_t>(length));
  HeardWord heard;
  heard.has_ended = text == kEnded;
  if (absl::StartsWith(text, kRuns)) heard.runs = text.substr(kRuns.size());
  return heard;
}

}  // namespace muster
