// The authority of a cluster, as far as the coordinator has it (docs/identity.md section 1): a
// folder with its own identity and, where it may sign for others, the authority's key.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/runtime/signer.h"
#include "lib/base/mutex.h"
#include "lib/base/time.h"
#include "lib/identity/certificates.h"
#include "lib/identity/renewal.h"

namespace muster::coordinator {

// In a coordinator's --dir.
std::string AuthorityFolderOf(const std::string& dir);

// The id of a cluster of which the authority was made before it (muster certs init); empty: there
// is none.
absl::StatusOr<std::string> ClusterMadeFor(const std::string& folder);

// The id of the cluster whose store lies in a coordinator's --dir, and which never had an
// authority; empty: there is no store. kFailedPrecondition: it had one, and what to do.
absl::StatusOr<std::string> ClusterWithoutAuthority(const std::string& dir);

// The cluster's own authority, in that folder: made together with the store, and each names it.
// kFailedPrecondition: one of the two is there without the other, and what to do.
absl::Status ProvideAuthority(const std::string& folder, const Journal& journal, absl::Time now);

// The coordinator's certificate is signed anew where it has had half of its time, or somebody
// reaches the coordinator by other names than stand in it. True: it was.
absl::StatusOr<bool> RenewOwn(const std::string& folder, const std::vector<std::string>& reached_by,
                              absl::Time now);

// By which names those who speak HTTPS reach a coordinator that listens there. `more`: named by a
// person; kInvalidArgument: one is neither an address nor a name of a host.
absl::StatusOr<std::vector<std::string>> ReachedBy(const std::vector<std::string>& listens,
                                                   const std::vector<std::string>& more,
                                                   const std::string& machine);

// What the one before has signed has ended by then, on clocks that differ.
inline const absl::Duration kTrustedOn = kLeafLasts + absl::Hours(1);

// As certificates say it: the one that signs first, then the one before, while that is trusted on.
struct AuthorityStanding {
  std::string trust;  // HashOfTrust of these
  std::vector<AuthorityCertificate> trusted{};
  std::optional<absl::Time> change_ends{};  // nothing: none is under way
};

// The authority's folder while the coordinator runs: it renews the coordinator's certificate, ends
// changes when it is time, and is the one who changes it (docs/identity.md section 7). Thread-safe;
// all methods wait for a disk.
class ClusterAuthority {
 public:
  struct Options {
    std::string folder;
    // Nothing: it is of somebody else's making, and only read again.
    std::optional<std::vector<std::string>> reached_by;
    std::shared_ptr<SigningAuthority> signs;
    // Those that may sign from now on are remembered (Journal::NoteAuthority).
    std::function<absl::Status(const std::vector<std::string>& hashes)> note = [](const auto&) {
      return absl::OkStatus();
    };
    // Of what `signs` has; on any thread. `fewer`: whom the one before has signed is nobody now.
    std::function<void(bool fewer)> on_change = [](bool) {};
    Duration due_for = std::chrono::minutes(10);  // before a change ends by itself
  };
  explicit ClusterAuthority(Options options);

  // kFailedPrecondition: there is none here.
  absl::StatusOr<AuthorityStanding> Standing();
  // Another one signs from now on. kFailedPrecondition: a change is under way, or the authority is
  // kept elsewhere.
  absl::Status Change(absl::Time now);
  // The one before is trusted no more. kFailedPrecondition: no change is under way.
  absl::Status Finish(absl::Time now);
  // As it does each minute by itself. Does not wait.
  void LookSoon() { renewal_.LookSoon(); }

 private:
  absl::Status CheckIsOwn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<AuthorityStanding> Read() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Install(const Authority& authority, const std::vector<std::string>& hashes,
                       absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status FinishUnderLock(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDue(const AuthorityStanding& standing, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WarnOfEnd(const AuthorityStanding& standing, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Duration Look();

  const std::optional<std::vector<std::string>> reached_by_;
  const std::shared_ptr<SigningAuthority> signs_;
  const std::function<absl::Status(const std::vector<std::string>&)> note_;
  const std::function<void(bool)> on_change_;
  const Duration due_for_;
  Mutex mutex_;
  const std::string folder_ ABSL_GUARDED_BY(mutex_);  // what lies in it
  std::optional<Time> due_since_ ABSL_GUARDED_BY(mutex_);
  absl::Time warned_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  Renewal renewal_;
};

}  // namespace muster::coordinator
