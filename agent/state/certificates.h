// The certificates of the processes that run on this host, or are about to: which are asked for,
// and when each is to be renewed (docs/identity.md section 4). A question is asked again in each
// new session with the coordinator until it is answered. Pure; it knows no key but the public ones.
// Lives as long as its agent.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "agent/state/actions.h"
#include "lib/base/time.h"
#include "lib/domain/message.h"

namespace muster::agent {

// To ask again for what was refused to a process that runs: it goes on with what it has.
inline constexpr Duration kAskAgainAfter = std::chrono::seconds(10);
// To ask again for what came with others than are to be trusted.
inline constexpr Duration kTrustAgainAfter = std::chrono::minutes(1);

inline ProcessKey KeyOf(const ProcessName& process) { return {process.job, process.name}; }

class Certificates {
 public:
  // Of an answer.
  enum class Meaning {
    kStale,   // nobody waits for it
    kFirst,   // of a process that is about to start
    kRenewal  // of one that has a certificate
  };

  // A process is about to start. What was known of another of that name is forgotten.
  void Begin(const SignMember& question);
  void End(const ProcessKey& key);
  // Those that are asked and not answered.
  std::vector<SignMember> Unanswered() const;
  // Those of which half of the time is over; from now on they are asked. `wall`: by the clock that
  // certificates are compared with, which goes on while the machine sleeps.
  std::vector<SignMember> Renew(Time now, absl::Time wall = absl::InfinitePast());
  // Whom to trust by now, as of AuthorityIs: those whose certificates came with others are due at
  // once, and again where they come with others all the same.
  void Trust(const std::string& hash, Time now);
  // All that there are came with that.
  bool AllTrust(const std::string& hash) const;

  Meaning MeaningOf(const ProcessName& process) const;
  // The certificate that was asked for is there, came with `trust`, and ends after `lasts`.
  void Got(const ProcessName& process, const std::string& trust, Duration lasts, Time now,
           absl::Time wall = absl::InfinitePast());
  // It was refused, or could not be used. One that is about to start is forgotten with it.
  void Failed(const ProcessName& process, Time now);

  // Null: none of that name.
  const SignMember* Find(const ProcessKey& key) const;
  std::vector<ProcessKey> All() const;

 private:
  struct One {
    SignMember question;
    bool is_asked = true;
    bool has_one = false;
    std::string trust{};  // with which it came
    // Where it is not asked; whichever comes first.
    Time renew_at{};
    absl::Time renew_by = absl::InfiniteFuture();
  };
  void LookAt(One& one, Time now) const;

  std::map<ProcessKey, One> processes_;
  std::string trust_;  // by now; empty: nobody has said
};

}  // namespace muster::agent
