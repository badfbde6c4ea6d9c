#include "lib/data/so_far_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/status/statusor.h"
#include "lib/base/printable.h"
#include "lib/base/whole_file.h"

namespace muster {

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

PreparedSoFar HeardAt(const std::string& lock_path) {
  const absl::StatusOr<Descriptor> file = OpenRegularFile(lock_path, O_RDONLY);
  std::array<char, kSoFarBytes> line{};
  const ssize_t got = file.ok() ? pread(file->get(), line.data(), line.size(), 0) : 0;
  return SoFarOf({line.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))});
}

}  // namespace muster
