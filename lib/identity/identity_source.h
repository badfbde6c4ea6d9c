// The identity of a process, which changes while it runs: whoever connects or is connected to asks
// for that of the moment. Sessions that are open go on.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/mutex.h"
#include "lib/base/time.h"
#include "lib/identity/identity.h"

namespace muster {

// How often the folder is looked at; more often where what it holds ends soon.
inline constexpr Duration kLookAtIdentityEvery = std::chrono::seconds(10);

// Thread-safe. No method waits for a disk but Open.
class IdentitySource {
 public:
  // Reads the folder, and again on a thread of its own from then on. Errors of ReadIdentity, and of
  // CheckTime.
  static absl::StatusOr<std::shared_ptr<IdentitySource>> Open(std::string folder);
  // As Open, of the flag --identity of a program; null where it was not given. Errors name it.
  static absl::StatusOr<std::shared_ptr<IdentitySource>> OpenFlag(const std::string& folder);
  // One that only Set changes.
  static std::shared_ptr<IdentitySource> Of(Identity identity);
  ~IdentitySource();
  IdentitySource(const IdentitySource&) = delete;
  IdentitySource& operator=(const IdentitySource&) = delete;

  std::shared_ptr<const Identity> Get() const;
  void Set(Identity identity);
  // A handshake failed: the folder may hold a newer identity. Looks soon, at most once a second.
  void LookSoon();
  bool looks_soon() const;  // it was asked to, and has not yet

 private:
  IdentitySource(std::string folder, Identity identity);
  void Run();
  void Look();

  const std::string folder_;  // empty: none is looked at

  mutable Mutex mutex_;
  CondVar wakes_;
  std::shared_ptr<const Identity> identity_ ABSL_GUARDED_BY(mutex_);
  bool look_soon_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace muster
