#include "lib/identity/identity_source.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lib/base/status.h"
#include "lib/identity/identity_folder.h"
#include "lib/log/log.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kLookAtMostEvery{1};

// A quarter of what is left of its time is soon enough for one that lasts as long as they do; tests
// make some that last seconds.
Duration LookEvery(absl::Time ends) {
  const absl::Duration left = std::max(ends - absl::Now(), absl::ZeroDuration());
  return std::clamp<Duration>(absl::ToChronoNanoseconds(left / 4), kLookAtMostEvery,
                              kLookAtIdentityEvery);
}

bool Same(const Identity& a, const Identity& b) {
  return a.authority_pem == b.authority_pem && a.certificate_pem == b.certificate_pem &&
         a.key_pem == b.key_pem;
}

// One that is valid now.
absl::StatusOr<Identity> ReadValid(const std::string& folder) {
  MUSTER_ASSIGN_OR_RETURN(Identity identity, ReadIdentity(folder));
  MUSTER_RETURN_IF_ERROR(
      Prefix(absl::StrCat("identity in '", folder, "'"), CheckTime(identity, absl::Now())));
  return identity;
}

}  // namespace

absl::StatusOr<std::shared_ptr<IdentitySource>> IdentitySource::Open(std::string folder) {
  MUSTER_ASSIGN_OR_RETURN(Identity identity, ReadValid(folder));
  return std::shared_ptr<IdentitySource>(
      new IdentitySource(std::move(folder), std::move(identity)));
}

absl::StatusOr<std::shared_ptr<IdentitySource>> IdentitySource::OpenFlag(
    const std::string& folder) {
  if (folder.empty()) return nullptr;
  absl::StatusOr<std::shared_ptr<IdentitySource>> opened = Open(folder);
  if (!opened.ok()) return Prefix("--identity", opened.status());
  return opened;
}

std::shared_ptr<IdentitySource> IdentitySource::Of(Identity identity) {
  return std::shared_ptr<IdentitySource>(new IdentitySource("", std::move(identity)));
}

IdentitySource::IdentitySource(std::string folder, Identity identity)
    : folder_(std::move(folder)), identity_(std::make_shared<const Identity>(std::move(identity))) {
  if (!folder_.empty()) thread_ = std::thread([this] { Run(); });
}

IdentitySource::~IdentitySource() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  wakes_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const Identity> IdentitySource::Get() const {
  const MutexLock lock(mutex_);
  return identity_;
}

void IdentitySource::Set(Identity identity) {
  auto fresh = std::make_shared<const Identity>(std::move(identity));
  const MutexLock lock(mutex_);
  identity_.swap(fresh);
}

void IdentitySource::LookSoon() {
  {
    const MutexLock lock(mutex_);
    look_soon_ = true;
  }
  wakes_.NotifyAll();
}

bool IdentitySource::looks_soon() const {
  const MutexLock lock(mutex_);
  return look_soon_;
}

void IdentitySource::Run() {
  MutexLock lock(mutex_);
  while (!closing_) {
    const Time now = std::chrono::steady_clock::now();
    while (!closing_ && wakes_.WaitUntil(mutex_, now + kLookAtMostEvery)) {
    }
    const Time next = now + LookEvery(identity_->ends);
    while (!closing_ && !look_soon_ && wakes_.WaitUntil(mutex_, next)) {
    }
    if (closing_) return;
    look_soon_ = false;
    lock.Unlock();
    Look();
    lock.Relock();
  }
}

// What cannot be read now may be half written; the last one that was whole, and valid, stays in
// use.
void IdentitySource::Look() {
  absl::StatusOr<Identity> found = ReadValid(folder_);
  const std::shared_ptr<const Identity> known = Get();
  if (!found.ok()) {
    LogWarning("%s; the one that was read before is used on, until %s", found.status().message(),
               absl::FormatTime(known->ends));
    return;
  }
  if (Same(*found, *known)) return;
  if (found->name != known->name) {
    LogWarning(
        "%s holds the identity of %s now, and this process is %s; the one that was read before is "
        "used on, until %s: put it back",
        folder_, ToUri(found->name), ToUri(known->name), absl::FormatTime(known->ends));
    return;
  }
  LogInfo("identity of %s was renewed, until %s", ToUri(found->name),
          absl::FormatTime(found->ends));
  Set(*std::move(found));
}

}  // namespace muster
