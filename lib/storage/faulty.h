// A store for tests that fails when told and forgets what was not synced. The durable part is
// another store.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/storage/kv.h"

namespace muster {

// Thread-safe.
class FaultyKv final : public Kv {
 public:
  // `durable` holds what is synced; nobody else writes it meanwhile.
  static absl::StatusOr<std::unique_ptr<FaultyKv>> Wrap(std::unique_ptr<Kv> durable,
                                                        const std::vector<std::string>& families);

  absl::StatusOr<std::string> Get(absl::string_view family, absl::string_view key) const override;
  absl::Status Write(const Batch& batch, Durability durability) override;
  absl::Status Scan(absl::string_view family, absl::string_view first, absl::string_view last,
                    const Visit& visit) const override;

  // The n-th call from now (0: the next; Get, Write and Scan count) returns `error` and does
  // nothing else.
  void FailCall(int64_t n, absl::Status error);
  // Power is lost: of the batches not synced, in order, only the first `survivors` are there
  // afterwards.
  absl::Status Crash(size_t survivors = 0);
  size_t unsynced() const;  // batches a crash may forget

 private:
  FaultyKv(std::unique_ptr<Kv> durable, std::vector<std::string> families);
  absl::Status CountCallLocked() const;
  absl::Status ReloadLocked();

  const std::vector<std::string> families_;
  mutable std::mutex mutex_;
  std::unique_ptr<Kv> durable_;               // guarded by mutex_
  std::unique_ptr<Kv> seen_;                  // guarded by mutex_: durable_ with unsynced_ on top
  std::vector<Batch> unsynced_;               // guarded by mutex_
  mutable int64_t calls_until_failure_ = -1;  // guarded by mutex_; -1: no failure is planned
  absl::Status planned_error_;                // guarded by mutex_
};

}  // namespace muster
