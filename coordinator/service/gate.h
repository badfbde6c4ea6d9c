// Who may come in: every call of REST and of gRPC passes here before it is carried out
// (docs/identity.md section 5).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/runtime/known_job.h"
#include "coordinator/service/audit_log.h"
#include "coordinator/state/rights.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/identity/peer_name.h"
#include "lib/log/limited_log.h"

namespace muster::coordinator {

// Wrong tokens of each address. The caller has the lock.
class WrongTokens {
 public:
  // Another one came. False: it is one too many of its address in this minute.
  bool Note(const std::string& address, Time now);

 private:
  struct Minute {
    Time begun;
    int wrong = 0;
  };
  std::map<std::string, Minute> minutes_;
};
inline constexpr int kMostWrongTokens = 10;  // of an address, in a minute

// Changes of each user that were refused. The caller has the lock.
class RefusedChanges {
 public:
  // Another one came. False: it is one too many of its user in this minute to have a line of its
  // own, and is counted.
  bool Note(const Caller& caller, Time now);
  // Those that had no line, of minutes that are over. Told once.
  struct Uncounted {
    Caller caller;
    int64_t changes = 0;
  };
  std::vector<Uncounted> Release(Time now);

 private:
  struct Minute {
    Time begun;
    Caller caller;
    int64_t refused = 0;
  };
  std::map<std::string, Minute> minutes_;  // by user; as many as have a token
};
inline constexpr int64_t kMostRefusedLines = 10;  // of a user, in a minute

// What the certificate of a caller says, which has been verified.
struct ShownCertificate {
  PeerName name;
  std::string token_id;  // of the token that it was made with; empty: of none
};

struct CallOrigin {
  std::string authorization;                      // "Bearer TOKEN"; empty: none came
  std::string address;                            // of the caller, without the port
  std::string method;                             // as in AuditEntry
  std::optional<ShownCertificate> certificate{};  // nothing: over REST, or plain text
};
// Of a call that has come in with a token: by which id people name it.
std::string TokenIdIn(const CallOrigin& origin);

// Thread-safe; nothing that is decided waits for it, and it waits for nobody but the disk of the
// audit log. Errors: kUnauthenticated, kPermissionDenied, kNotFound (a job that the caller does not
// see), kResourceExhausted (too many wrong tokens), kUnavailable.
class Gate {
 public:
  // `known` as Driver::KnownWithHosts; all outlive it.
  Gate(std::function<absl::StatusOr<KnownCluster>()> known, AuditLog& audit, const Clock& clock)
      : known_(std::move(known)), audit_(audit), clock_(clock) {}

  // Whether the call may come in at all, by what is known before its body is read. `object`: the
  // job, host or token that it names; empty: it names none.
  absl::StatusOr<Caller> Look(const MethodRights& rights, const CallOrigin& origin,
                              const std::string& object = "");
  // The same once it is about to be carried out, which is written down first if it changes
  // something.
  absl::StatusOr<Caller> Enter(const MethodRights& rights, const CallOrigin& origin,
                               const std::string& object);
  // The same for the submission of a job.
  absl::StatusOr<Caller> EnterToSubmit(const CallOrigin& origin, const std::string& id,
                                       const JobSpec& spec);

  // Of a call that has come in and lasts: whether its token, or the one that its certificate was
  // made with, still is one. To be asked on any thread while the gate lives.
  std::function<bool()> StaysIn(const CallOrigin& origin) const;

 private:
  absl::StatusOr<Caller> WhoIs(const KnownCluster& known, const CallOrigin& origin);
  absl::StatusOr<Caller> WhoHasToken(const KnownCluster& known, const CallOrigin& origin);
  absl::Status Note(const MethodRights& rights, const CallOrigin& origin, const Caller& caller,
                    const std::string& object, const absl::Status& verdict);
  bool HasLine(const Caller& caller, const absl::Status& verdict);

  const std::function<absl::StatusOr<KnownCluster>()> known_;
  AuditLog& audit_;
  const Clock& clock_;
  LimitedLog strangers_;
  Mutex mutex_;
  WrongTokens wrong_ ABSL_GUARDED_BY(mutex_);
  RefusedChanges refused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::coordinator
