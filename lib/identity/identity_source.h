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

// How often the folder is looked at.
inline constexpr Duration kLookAtIdentityEvery = std::chrono::seconds(10);

// Thread-safe. No method waits for a disk but Open.
class IdentitySource {
 public:
  // Reads the folder, and again on a thread of its own from then on. Errors of ReadIdentity.
  static absl::StatusOr<std::shared_ptr<IdentitySource>> Open(std::string folder);
  // One that only Set changes.
  static std::shared_ptr<IdentitySource> Of(Identity identity);
  ~IdentitySource();
  IdentitySource(const IdentitySource&) = delete;
  IdentitySource& operator=(const IdentitySource&) = delete;

  std::shared_ptr<const Identity> Get() const;
  void Set(Identity identity);
  // A handshake failed: the folder may hold a newer identity. Looks soon, at most once a second.
  void LookSoon();

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
