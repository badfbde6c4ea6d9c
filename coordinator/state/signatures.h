// Which processes of a job were given a certificate: each for one key, and on the word of one host
// (docs/identity.md section 2). Plain values, which live as long as the journal entry of their job.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "lib/domain/message.h"

namespace muster::coordinator {

struct JobJournal;

struct Signature {
  PlacementNumber placement;
  std::string host;      // whose agent asked
  std::string key_hash;  // SHA-256 of the public key, in hex
  bool operator==(const Signature&) const = default;
};
using Signatures = std::map<Incarnation, Signature>;

// That are kept of a job, besides the last one of each place that it has: of processes that have
// ended, whose lanes may be told late. The oldest go first.
inline constexpr size_t kMostOldSignatures = 1024;

// Of which no later one may take part; nothing: none was signed.
std::optional<Incarnation> SignedLast(const Signatures& all, PlacementNumber placement);

// Why it is not signed for that key, for people; empty: it is. Of a placement only a later process
// than those before is new, so that nothing need be remembered of those that are forgotten.
std::string WhyNotSigned(const Signatures& all, Incarnation process, const Signature& asked);

// Remembers it in the job, and forgets what is too old. False: it is known already.
bool AddSignature(JobJournal& job, Incarnation process, const Signature& asked);

// Whether the process may take part, as far as its certificate goes. In the coordinator's own slots
// nobody asks for one: whoever starts processes there has made it.
bool IsSignedLast(const JobJournal& job, const Join& join);

// Why the process is not told what the job is, for people; empty: it is. It is another one than
// takes part as far as the journal says: its member was placed elsewhere, or a later process of its
// place was signed.
std::string WhyNotTold(const JobJournal& job, const ProcessName& process);

// What that host may say of what has ended: lanes of processes that were signed for it, and ends of
// members that are placed there. Nothing is left: none of it.
std::optional<ProcessExited> SaidByHost(const JobJournal& job, ProcessExited exited,
                                        const std::string& host);

}  // namespace muster::coordinator
