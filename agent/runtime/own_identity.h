// The identity of the host that a `muster` is itself, in a cluster that it starts (docs/identity.md
// sections 1 and 2): the authority, which lies with the coordinator's store, is made before the
// coordinator's first start, and signs this host. What this host needs lies in a folder of its own,
// and goes with this object; the authority stays with the store.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/identity/identity_source.h"
#include "lib/identity/renewal.h"

namespace muster::agent {

struct OwnIdentityOptions {
  std::string authority;  // the coordinator's identity folder
  std::string folder;     // for all that is ours, which nobody else uses
  std::string host;       // our name
  // The id of a cluster that has a store and no authority yet; empty: it is begun now. Asked only
  // where there is no authority.
  std::function<absl::StatusOr<std::string>()> cluster;
};

class OwnIdentity {
 public:
  // Errors of `cluster`, and of folders that cannot be read or written.
  static absl::StatusOr<std::unique_ptr<OwnIdentity>> Make(const OwnIdentityOptions& options);
  ~OwnIdentity();  // removes the folder
  OwnIdentity(const OwnIdentity&) = delete;
  OwnIdentity& operator=(const OwnIdentity&) = delete;

  const std::shared_ptr<IdentitySource>& source() const { return source_; }
  // The authority may have been changed.
  void LookSoon() { renewal_->LookSoon(); }
  // The identity folder, inside of that which was named.
  static std::string FolderIn(const std::string& folder) { return folder + "/host"; }

 private:
  OwnIdentity(std::string folder, std::shared_ptr<IdentitySource> source,
              std::unique_ptr<Renewal> renewal)
      : folder_(std::move(folder)), source_(std::move(source)), renewal_(std::move(renewal)) {}

  const std::string folder_;
  const std::shared_ptr<IdentitySource> source_;
  std::unique_ptr<Renewal> renewal_;
};

// The secret of a run, with which other hosts join, in the folder of the authority: the one that is
// there, or a new one. The file.
absl::StatusOr<std::string> ProvideJoinSecret(const std::string& authority_folder);

}  // namespace muster::agent
