#include "coordinator/state/host_records.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"
#include "lib/domain/labels.h"
#include "lib/domain/member_name.h"

namespace muster::coordinator {
namespace {

const HostRecord* FindIn(const HostRecords& records, const std::string& host) {
  const auto it = records.find(host);
  return it == records.end() ? nullptr : &it->second;
}

bool IsBoundToAnother(const HostRecord& record, const HostJoins& joins) {
  return !record.key_hash.empty() && record.key_hash != joins.key_hash;
}

}  // namespace

std::string WhyNotJoined(const HostRecords& records, const HostJoins& joins, bool may_bind_anew,
                         bool is_one_namespace) {
  const HostRecord* const record = FindIn(records, joins.host);
  const std::string next =
      absl::StrCat("an admin makes a token for it with `muster token host ", joins.host, "`");
  if (record == nullptr && !joins.by_run)
    return absl::StrCat("host ", joins.host, " has no token; ", next);
  if (record != nullptr && record->revoked)
    return absl::StrCat("host ", joins.host, " was revoked; ", next);
  if (joins.by_run && record != nullptr && (!record->name_space.empty() || record->certified))
    return absl::StrCat("host ", joins.host, " has a token of its own, and the secret of a run is ",
                        "of no use for it");
  if (joins.by_run && !is_one_namespace)
    return absl::StrCat("the secret of a run counts only while the cluster has one namespace; ",
                        next);
  if (record == nullptr)
    return records.size() < kMostHosts
               ? ""
               : absl::StrCat("the cluster knows ", kMostHosts, " hosts, which is the most");
  if (record->certified)
    return absl::StrCat("host ", joins.host, " is signed by an authority from outside");
  if (!IsBoundToAnother(*record, joins) || may_bind_anew) return "";
  return absl::StrCat("host ", joins.host, " is bound to another key, and may still be used with ",
                      "it: this one is taken once no agent has spoken for the host for some time ",
                      "and none of its members lives; else each host needs a name and a token of ",
                      "its own");
}

bool IsRefusedForNow(const HostRecords& records, const HostJoins& joins) {
  const HostRecord* const record = FindIn(records, joins.host);
  return record != nullptr && !record->revoked && !record->certified &&
         IsBoundToAnother(*record, joins);
}

// Of a revoked one it is told what lets it back, by whoever has the rest of its record. All hosts
// of a run share its secret: with it each of them may join under that name as soon as the one
// before is away, so its key tells them apart from nobody.
std::string WhyNotHeard(const HostRecords& records, const std::string& host,
                        const std::string& key_hash) {
  const HostRecord* const record = FindIn(records, host);
  if (record == nullptr || record->certified || record->revoked) return "";
  const bool is_of_run = record->name_space.empty();
  if (is_of_run || record->key_hash == key_hash) return "";
  return record->key_hash.empty()
             ? absl::StrCat("host ", host,
                            " has a new token, and has not joined with it yet: start its agent ",
                            "again with that (--join-token-file); one that needs none, as that ",
                            "of muster up, an admin lets in with `muster token host ", host,
                            " --certified`")
             : absl::StrCat("host ", host,
                            " has joined with another key: if this is the right one, ",
                            "an admin makes another token with `muster token host ", host,
                            "`, or, where it needs none, with --certified");
}

std::string WhyNotAdmitted(const HostRecords& records, const std::string& host,
                           const HostRecord& record) {
  if (!IsMemberName(host))
    return absl::StrCat("'", Cut(Printable(host)), "' is no name of a host; it must be ",
                        MemberNameRule());
  if (!IsDnsLabel(record.name_space))
    return "a namespace is 1 to 63 lower-case letters, digits and inner hyphens";
  if (FindIn(records, host) == nullptr && records.size() >= kMostHosts)
    return absl::StrCat("the cluster knows ", kMostHosts,
                        " hosts, which is the most that it may know");
  return "";
}

HostBook::HostBook(HostRecords records, Time now) : records_(std::move(records)) {
  for (const auto& [host, record] : records_) away_since_[host] = now;
}

const HostRecord* HostBook::Find(const std::string& host) const { return FindIn(records_, host); }

bool HostBook::IsRevoked(const std::string& host) const {
  const HostRecord* const record = Find(host);
  return record != nullptr && record->revoked;
}

void HostBook::Put(const std::string& host, HostRecord record, Time now) {
  records_[host] = std::move(record);
  away_since_.try_emplace(host, now);
}

void HostBook::Forget(const std::string& host) {
  records_.erase(host);
  away_since_.erase(host);
}

void HostBook::Came(const std::string& host) {
  if (const auto it = away_since_.find(host); it != away_since_.end()) it->second.reset();
}

void HostBook::Went(const std::string& host, Time now) {
  if (const auto it = away_since_.find(host); it != away_since_.end()) it->second = now;
}

void HostBook::HeldUp(Duration time, Time now) {
  for (auto& [host, since] : away_since_)
    if (since) since = std::min(*since + time, now);
}

bool HostBook::IsAwayFor(const std::string& host, Duration patience, Time now) const {
  const auto it = away_since_.find(host);
  return it == away_since_.end() || (it->second && now - *it->second >= patience);
}

}  // namespace muster::coordinator
