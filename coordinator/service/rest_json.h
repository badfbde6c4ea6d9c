// What REST says, as JSON (docs/rest.md lists the fields).
#pragma once

#include <string>

#include "coordinator/service/control_api.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {

using Json = nlohmann::ordered_json;

// On one line, and what no terminal shows in other words.
std::string Text(const Json& json);

Json ToJson(const JobInfo& job);
Json ToJson(const SubmittedJob& submitted);
Json ToJson(const AdoptionInfo& adoption);
Json ToJson(const JobAudit& audit);
Json ToJson(const JobLedger& ledger);
Json ToJson(const HistoryPage& page);
Json ToJson(const JobDigest& digest);
Json ToJson(const LogPage& page);
Json ToJson(const JobFingerprints& part);
Json ToJson(const JobPage& page);
Json ToJson(const HostInfo& host);
Json ToJson(const NamespaceInfo& info);
Json ToJson(const NamespaceList& all);
Json ToJson(const HostPage& page);
Json ToJson(const TokenInfo& token);
Json ToJson(const MadeToken& made);
Json ToJson(const TokenList& list);
Json ToJson(const AdmittedHost& host);
Json ToJson(const SignedCertificate& made);
Json ToJson(const AuthorityInfo& info);
Json ToJson(const JobEvent& event);

}  // namespace muster::coordinator
