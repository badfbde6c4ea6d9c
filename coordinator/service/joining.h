// Hosts that join, and people who let them (docs/identity.md section 3): the state machine decides,
// the journal has it first, and only then something is signed.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "coordinator/runtime/background.h"
#include "coordinator/runtime/driver.h"
#include "coordinator/service/control_api.h"
#include "lib/domain/join.h"
#include "lib/identity/certificates.h"

namespace muster::coordinator {

// Whether all that waits, runs or may be placed is of one namespace.
bool HasOneNamespace(const KnownCluster& known);

// Thread-safe. None of its methods waits.
class Joining final : public HostTokenApi, public CertificateApi {
 public:
  template <class T>
  using Reply = JobApi::Reply<T>;
  // `sign` waits for a disk, and is called on a thread of its own.
  using Sign = std::function<absl::StatusOr<SignedCertificate>(const Leaf& leaf)>;

  // `driver` outlives it. `run_secret`: with which any host may join; empty: none.
  Joining(Driver& driver, std::string cluster, Sign sign, const std::string& run_secret);

  // For a JoinListener: the pre-shared key of that name.
  std::optional<std::string> KeyOf(const std::string& identity) const;
  void Decide(const std::string& identity, const JoinHost& ask,
              std::function<void(JoinAnswer)> answer);

  void Admit(const std::string& host, const std::string& name_space, bool certified,
             Reply<AdmittedHost> reply) override;
  void Revoke(const std::string& host, Reply<AdmittedHost> reply) override;
  void SignUser(const std::string& user, const std::string& token_id, const std::string& public_key,
                Reply<SignedCertificate> reply) override;

  // What waits to be signed is dropped. Before the driver's listeners are destroyed.
  void Stop() { signing_.Stop(); }

 private:
  void Change(Input input, std::function<void(const absl::StatusOr<KnownCluster>&)> done);
  void Answer(const HostJoins& joins, const JoinHost& ask,
              const absl::StatusOr<KnownCluster>& known,
              const std::function<void(JoinAnswer)>& answer);

  Driver& driver_;
  const std::string cluster_;
  const Sign sign_;
  const std::string run_key_;  // empty: none
  Background signing_;
};

}  // namespace muster::coordinator
