// The certificate of a host: how its agent joins a cluster with a token, and renews what it got
// (docs/identity.md section 3). The folder is an identity folder; besides, it keeps the token
// (join.token) and, until the first certificate is there, the key (join.key), both 0600.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "lib/base/time.h"
#include "lib/identity/identity.h"
#include "lib/identity/renewal.h"
#include "lib/join/join_client.h"

namespace muster::agent {

struct HostIdentityOptions {
  std::string folder;  // on this machine's own disk
  // The coordinator's join port, as of JoinOptions.
  std::string join;
  std::string token_file;  // empty, or not there: the token was kept in the folder before
  std::string host;
  std::string node;
  Duration patience = std::chrono::minutes(10);  // with a coordinator that is away
  Duration first_pause = std::chrono::seconds(1);
};

// How long until somebody asks again, after so many attempts in vain.
Duration PauseAfter(Duration first, int failures);

class HostIdentity {
 public:
  struct Surroundings {
    std::function<void(const std::string& text)> say;  // why it has to wait
    std::function<bool(Duration time)> wait;           // false: it is to end
  };

  // Joins, unless the folder holds an identity of this host that is of use, and renews it from then
  // on. kPermissionDenied: the coordinator refuses, and why; kUnauthenticated: it does not know the
  // token; kInvalidArgument: there is none; kUnavailable: nobody was reached for too long;
  // kCancelled.
  static absl::StatusOr<std::unique_ptr<HostIdentity>> Make(HostIdentityOptions options,
                                                            const Surroundings& surroundings);

  // The certificate was refused, or seems to be: asks for another one, at most once a minute.
  void JoinSoon();
  // Whom to trust by now, as of AuthorityIs: where the certificate came with others, asks for
  // another one, likewise.
  void Trust(const std::string& hash);

 private:
  HostIdentity(HostIdentityOptions options, JoinToken token)
      : options_(std::move(options)), token_(std::move(token)) {}
  absl::Status Join(const std::stop_token& stop) const;
  absl::StatusOr<std::string> Key() const;
  Duration Look(const std::stop_token& stop);
  bool TrustsOthers(const Identity& identity);

  const HostIdentityOptions options_;
  const JoinToken token_;
  int failures_ = 0;              // in a row; the renewal's thread only
  bool has_joined_anew_ = false;  // at the last look; likewise
  std::atomic<bool> is_refused_{false};
  Mutex mutex_;
  std::string trust_ ABSL_GUARDED_BY(mutex_);  // by now; empty: nobody has said
  std::unique_ptr<Renewal> renewal_;
};

}  // namespace muster::agent
