#include "lib/data/hash_once.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/amount_text.h"
#include "lib/base/descriptor.h"
#include "lib/base/file_lock.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/data/kept_hash.h"
#include "lib/data/so_far_file.h"

namespace muster {
namespace {

struct Turn {
  std::optional<std::string> kept;  // another has computed it
  std::optional<Descriptor> lock;   // ours, while we do; neither: nobody can be waited for
};

absl::StatusOr<Turn> WaitForTurn(const HashOnceOptions& options, const std::string& lock_path) {
  if (!MakeDirectories(options.folder).ok()) return Turn{};
  Turn turn;
  const auto look = [&]() -> absl::StatusOr<bool> {
    absl::StatusOr<Descriptor> lock = LockFile(lock_path);
    const bool is_ours = lock.ok() && IsLockAt(*lock, lock_path);
    // Whoever had it has kept its hash before it let go.
    turn.kept = FindKeptHash(options.folder, options.key);
    if (turn.kept && is_ours) unlink(lock_path.c_str());
    if (!turn.kept && is_ours) turn.lock = *std::move(lock);
    if (turn.kept || is_ours) return true;
    // A lock that was deleted meanwhile is no lock: it is looked for once more.
    return !lock.ok() && !absl::IsAborted(lock.status());
  };
  MUSTER_RETURN_IF_ERROR(
      WaitForOther(look, {.may_wait = options.may_wait, .told = options.told, .heard = [&] {
                            PreparedSoFar heard = HeardAt(lock_path);
                            heard.hashes = true;
                            return heard;
                          }}));
  return turn;
}

}  // namespace

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
    saying.Say(share,
               PaceText(static_cast<double>(bytes), static_cast<double>(all), took.count(), Bytes));
  });
  if (hash.ok() && has_place && options.keeps)
    KeepHash(options.folder, options.key, *hash, options.about).IgnoreError();
  if (turn.lock) unlink(lock_path.c_str());
  MUSTER_RETURN_IF_ERROR(hash.status());
  return HashedOnce{*std::move(hash), false};
}

}  // namespace muster
