#include "lib/data/so_far_file.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <thread>

#include "absl/status/statusor.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"

namespace muster {
namespace {

using Moment = std::chrono::steady_clock::time_point;
constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
constexpr auto kBetweenWords = std::chrono::milliseconds(200);

}  // namespace

Saying::Saying(const Descriptor* lock, const std::function<void(const PreparedSoFar&)>& told,
               PreparedSoFar begins)
    : lock_(lock), told_(told), hashes_(begins.hashes) {
  begins.maker = getpid();
  Write(begins);
  told_(begins);
}

void Saying::Say(double share, absl::string_view what) {
  PreparedSoFar so_far;
  {
    const MutexLock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (said_ && now - *said_ < kBetweenWords) return;
    said_ = now;
    so_far = {std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0,
              Cut(Printable(what), kMostWhatBytes), getpid(), true, hashes_};
    Write(so_far);
  }
  told_(so_far);
}

// In one go and always as long, so that no reader sees the half of it. That it cannot be written is
// no error: it is for people.
void Saying::Write(const PreparedSoFar& so_far) const {
  if (lock_ == nullptr) return;
  std::string line = SoFarLine(so_far);
  line.resize(kSoFarBytes, '\n');
  if (pwrite(lock_->get(), line.data(), line.size(), 0) < 0) return;
}

void Saying::Clear() const {
  if (lock_ != nullptr && ftruncate(lock_->get(), 0) != 0) return;  // as of Write
}

PreparedSoFar HeardAt(const std::string& lock_path) {
  const absl::StatusOr<Descriptor> file = OpenRegularFile(lock_path, O_RDONLY);
  std::array<char, kSoFarBytes> line{};
  const ssize_t got = file.ok() ? pread(file->get(), line.data(), line.size(), 0) : 0;
  PreparedSoFar heard = SoFarOf({line.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))});
  const bool is_gone = kill(static_cast<pid_t>(heard.maker), 0) != 0 && errno == ESRCH;
  if (is_gone) heard.maker = 0;
  return heard;
}

absl::Status WaitForOther(const std::function<absl::StatusOr<bool>()>& look,
                          const WhileWaiting& waiting) {
  std::optional<Moment> said;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_found, look());
    if (has_found) return absl::OkStatus();
    if (!waiting.may_wait()) return absl::CancelledError("it is not waited for any more");
    const Moment now = std::chrono::steady_clock::now();
    if (!said || now - *said >= kBetweenWords) {
      said = now;
      waiting.told(waiting.heard());
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace muster
