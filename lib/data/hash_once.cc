#include "lib/data/hash_once.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/descriptor.h"
#include "lib/base/file_lock.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/data/kept_hash.h"
#include "lib/data/so_far_file.h"

namespace muster {
namespace {

constexpr double kLeastSeconds = 0.5;  // before that a rate says nothing

struct Turn {
  std::optional<std::string> kept;  // another has computed it
  std::optional<Descriptor> lock;   // ours, while we do; neither: nobody can be waited for
};

absl::StatusOr<Turn> WaitForTurn(const HashOnceOptions& options, const std::string& lock_path) {
  if (!MakeDirectories(options.folder).ok()) return Turn{};
  std::optional<std::chrono::steady_clock::time_point> said;
  while (true) {
    absl::StatusOr<Descriptor> lock = LockFile(lock_path);
    // Whoever had it has kept its hash before it let go.
    if (auto kept = FindKeptHash(options.folder, options.key)) {
      if (lock.ok() && IsLockAt(*lock, lock_path)) unlink(lock_path.c_str());
      return Turn{.kept = std::move(kept), .lock = std::nullopt};
    }
    if (lock.ok() && IsLockAt(*lock, lock_path))
      return Turn{.kept = std::nullopt, .lock = *std::move(lock)};
    if (lock.ok()) continue;  // that one was deleted meanwhile
    if (!absl::IsAborted(lock.status())) return Turn{};
    if (!options.may_wait()) return absl::CancelledError("the data is not read any more");
    const auto now = std::chrono::steady_clock::now();
    if (!said || now - *said >= kBetweenWords) {
      said = now;
      PreparedSoFar heard = HeardAt(lock_path);
      heard.hashes = true;
      options.told(heard);
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace

std::string RateText(uint64_t bytes, uint64_t all, double seconds) {
  if (seconds < kLeastSeconds || bytes == 0) return "";
  const double rate = static_cast<double>(bytes) / seconds;
  const double left = bytes < all ? static_cast<double>(all - bytes) / rate : 0;
  const std::string fast = rate >= 1e9 ? absl::StrFormat("%.1f GB/s", rate / 1e9)
                                       : absl::StrFormat("%.0f MB/s", rate / 1e6);
  const std::string time = left < 120 ? absl::StrFormat("%.0f s", std::ceil(left))
                                      : absl::StrFormat("%.0f min", std::ceil(left / 60));
  return absl::StrCat(fast, ", ", time, " left");
}

absl::StatusOr<HashedOnce> HashOnce(const HashOnceOptions& options) {
  const bool has_place = !options.folder.empty();
  const std::string lock_path = absl::StrCat(options.folder, "/", options.key, ".lock");
  if (has_place && options.finds)
    if (auto kept = FindKeptHash(options.folder, options.key))
      return HashedOnce{*std::move(kept), true};
  Turn turn;
  if (has_place && options.finds && options.keeps) {
    MUSTER_ASSIGN_OR_RETURN(turn, WaitForTurn(options, lock_path));
    if (turn.kept) return HashedOnce{*std::move(turn.kept), true};
  }
  const auto began = std::chrono::steady_clock::now();
  const std::function<void(const PreparedSoFar&)> told = [&](const PreparedSoFar& so_far) {
    if (std::chrono::steady_clock::now() - began >= options.quiet_for) options.told(so_far);
  };
  Saying saying(turn.lock ? &*turn.lock : nullptr, told, {.hashes = true});
  absl::StatusOr<std::string> hash = options.compute([&](uint64_t bytes, uint64_t all) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    const double share = all == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(all);
    saying.Say(share, RateText(bytes, all, took.count()));
  });
  if (hash.ok() && has_place && options.keeps)
    KeepHash(options.folder, options.key, *hash, options.about).IgnoreError();
  if (turn.lock) unlink(lock_path.c_str());
  MUSTER_RETURN_IF_ERROR(hash.status());
  return HashedOnce{*std::move(hash), false};
}

}  // namespace muster
