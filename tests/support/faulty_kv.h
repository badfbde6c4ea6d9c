#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/storage/kv.h"

namespace muster {

// A store that fails when told. Thread-safe.
class FaultyKv final : public Kv {
 public:
  explicit FaultyKv(std::unique_ptr<Kv> kv) : kv_(std::move(kv)) {}

  // The n-th call from now (0: the next; Get, Write and Scan count) returns `error` and does
  // nothing else.
  void FailCall(int64_t n, absl::Status error) {
    MutexLock lock(mutex_);
    calls_until_failure_ = n;
    planned_error_ = std::move(error);
  }

  absl::StatusOr<std::string> Get(absl::string_view family, absl::string_view key) const override {
    MUSTER_RETURN_IF_ERROR(CountCall());
    return kv_->Get(family, key);
  }
  absl::Status Write(const Batch& batch) override {
    MUSTER_RETURN_IF_ERROR(CountCall());
    return kv_->Write(batch);
  }
  absl::Status Scan(absl::string_view family, absl::string_view first, absl::string_view last,
                    const Visit& visit) const override {
    MUSTER_RETURN_IF_ERROR(CountCall());
    return kv_->Scan(family, first, last, visit);
  }

 private:
  absl::Status CountCall() const {
    MutexLock lock(mutex_);
    if (calls_until_failure_ < 0) return absl::OkStatus();
    return calls_until_failure_-- == 0 ? planned_error_ : absl::OkStatus();
  }

  const std::unique_ptr<Kv> kv_;
  mutable Mutex mutex_;
  mutable int64_t calls_until_failure_ ABSL_GUARDED_BY(mutex_) = -1;  // -1: no failure is planned
  absl::Status planned_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
