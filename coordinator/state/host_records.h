// Which hosts may join, and with which key (docs/identity.md section 3): what the journal has of
// each, and since when those that are away have been so. It knows nothing of jobs. Lives as long as
// its Coordinator.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "coordinator/state/host_table.h"
#include "lib/base/time.h"

namespace muster::coordinator {

inline constexpr char kFirstNamespace[] = "default";

struct HostRecord {
  std::string name_space{kFirstNamespace};  // jobs of which it takes; empty: of any, as it joined
                                            // with the secret of a run
  std::string secret{};    // the pre-shared key of its token, in hexadecimal digits; empty: none
  std::string key_hash{};  // SHA-256 of the public key that it is bound to; empty: none yet
  bool certified = false;  // an authority from outside signs it: no key is bound
  bool revoked = false;    // a tombstone
  bool operator==(const HostRecord&) const = default;
};
using HostRecords = std::map<std::string, HostRecord>;  // by host

// A host shows that it knows a key, and asks for a certificate for `key_hash`.
struct HostJoins {
  std::string host;
  std::string key_hash;
  bool by_run = false;  // with the secret of a run, and not with a token of its own
};
// What stands against it, for people; empty: a certificate is signed. `may_bind_anew`: nobody has
// spoken for that host for long enough, and nobody lives there. `is_one_namespace`: the cluster
// has no other.
std::string WhyNotJoined(const HostRecords& records, const HostJoins& joins, bool may_bind_anew,
                         bool is_one_namespace);
// It is refused only as long as another one may speak for that host.
bool IsRefusedForNow(const HostRecords& records, const HostJoins& joins);

// What stands against whoever proves with that key that it is that host, for people; empty: it is
// heard. So is, with any key, a host of which nothing is known, one that joined with the secret of
// a run, and one that an authority from outside signs.
std::string WhyNotHeard(const HostRecords& records, const std::string& host,
                        const std::string& key_hash);

// Why the host cannot be given a record, for people; empty: it can.
std::string WhyNotAdmitted(const HostRecords& records, const std::string& host,
                           const HostRecord& record);

class HostBook {
 public:
  HostBook(HostRecords records, Time now);

  const HostRecords& records() const { return records_; }
  const HostRecord* Find(const std::string& host) const;  // null: none
  bool IsRevoked(const std::string& host) const;
  void Put(const std::string& host, HostRecord record, Time now);
  void Forget(const std::string& host);
  // Its agent has a session, or has it no more.
  void Came(const std::string& host);
  void Went(const std::string& host, Time now);
  // Nothing was handled for so long, or longer, until now.
  void HeldUp(Duration time, Time now);
  // No agent of that name has had a session for so long. One that was never seen in this term
  // counts from its beginning.
  bool IsAwayFor(const std::string& host, Duration patience, Time now) const;

 private:
  HostRecords records_;
  std::map<std::string, std::optional<Time>> away_since_;  // of those with a record; nothing: here
};

}  // namespace muster::coordinator
