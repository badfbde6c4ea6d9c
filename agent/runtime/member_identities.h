// The identities of the members that this host runs: keys that are made here, the certificates that
// the coordinator signs for them, and a folder for each process, on the machine's own disk
// (docs/identity.md section 4). On the loop's thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/state/actions.h"
#include "agent/state/certificates.h"
#include "lib/base/descriptor.h"
#include "lib/identity/identity_source.h"

namespace muster::agent {

class MemberIdentities {
 public:
  // Beside the folder of the host's own identity, where nobody else may look. What an earlier agent
  // left there is removed: its processes have ended with it. kFailedPrecondition: another agent
  // uses that folder; others: it cannot be made, or is somebody else's, or a link.
  static absl::StatusOr<std::unique_ptr<MemberIdentities>> Open(std::shared_ptr<IdentitySource> own,
                                                                const std::string& own_folder);
  ~MemberIdentities();  // removes what is left
  MemberIdentities(const MemberIdentities&) = delete;
  MemberIdentities& operator=(const MemberIdentities&) = delete;

  // A process is about to start: draws its incarnation, makes its key, and returns the question
  // that is to be asked. Errors of MakeKey.
  absl::StatusOr<SignMember> Begin(const ProcessKey& key, PlacementNumber placement);
  // In a new session: what is not answered yet.
  std::vector<SignMember> Unanswered() const { return certificates_.Unanswered(); }
  std::vector<SignMember> Renew(Time now, absl::Time wall) {
    return certificates_.Renew(now, wall);
  }
  // As of Certificates.
  void Trust(const std::string& hash, Time now) { certificates_.Trust(hash, now); }
  bool AllTrust(const std::string& hash) const { return certificates_.AllTrust(hash); }
  // What follows for the supervisor; nothing: it was a renewal, or nobody waits for it any more.
  std::optional<SupervisorEvent> On(const MemberSigned& answer);
  std::optional<SupervisorEvent> On(const SignRefused& refused);
  // The process has ended, or is not to start any more.
  void End(const ProcessKey& key);

  std::string FolderOf(const ProcessKey& key) const;       // of a process that was signed
  Incarnation IncarnationOf(const ProcessKey& key) const;  // likewise; of others zero
  std::vector<ProcessKey> All() const { return certificates_.All(); }

 private:
  MemberIdentities(std::shared_ptr<IdentitySource> own, std::string folder, Descriptor lock)
      : own_(std::move(own)), folder_(std::move(folder)), lock_(std::move(lock)) {}
  std::string FolderOf(Incarnation process) const;
  absl::Status Install(const MemberSigned& answer, absl::Duration& lasts) const;
  std::optional<SupervisorEvent> Fail(const ProcessName& process, const std::string& why);
  void Empty() const;

  const std::shared_ptr<IdentitySource> own_;
  const std::string folder_;
  const Descriptor lock_;
  Incarnation last_drawn_{};
  Certificates certificates_;
  std::map<ProcessKey, std::string> keys_;  // in PEM
};

}  // namespace muster::agent
