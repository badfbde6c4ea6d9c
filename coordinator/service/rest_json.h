// What REST says, as JSON (docs/rest.md lists the fields).
#pragma once

#include <string>

#include "coordinator/service/answer_shape.h"
#include "coordinator/service/control_api.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {

// On one line, and what no terminal shows in other words.
std::string Text(const Json& json);

template <>
const Shape<JobMember>& ShapeOf<JobMember>();
template <>
const Shape<CheckpointRef>& ShapeOf<CheckpointRef>();
template <>
const Shape<JobInfo>& ShapeOf<JobInfo>();
template <>
const Shape<JobPage>& ShapeOf<JobPage>();
template <>
const Shape<AdoptionInfo>& ShapeOf<AdoptionInfo>();
template <>
const Shape<SavedCheckpoint>& ShapeOf<SavedCheckpoint>();
template <>
const Shape<SavedCheckpoints>& ShapeOf<SavedCheckpoints>();
template <>
const Shape<ParentInfo>& ShapeOf<ParentInfo>();
template <>
const Shape<StreamInfo>& ShapeOf<StreamInfo>();
template <>
const Shape<JobAudit::Fork>& ShapeOf<JobAudit::Fork>();
template <>
const Shape<JobAudit>& ShapeOf<JobAudit>();
template <>
const Shape<LedgerLane>& ShapeOf<LedgerLane>();
template <>
const Shape<LedgerStep>& ShapeOf<LedgerStep>();
template <>
const Shape<JobLedger>& ShapeOf<JobLedger>();
template <>
const Shape<MetricValue>& ShapeOf<MetricValue>();
template <>
const Shape<HistoryStep>& ShapeOf<HistoryStep>();
template <>
const Shape<HistoryPage>& ShapeOf<HistoryPage>();
template <>
const Shape<JobDigest>& ShapeOf<JobDigest>();
template <>
const Shape<LogLine>& ShapeOf<LogLine>();
template <>
const Shape<LogPage>& ShapeOf<LogPage>();
template <>
const Shape<JobFingerprint>& ShapeOf<JobFingerprint>();
template <>
const Shape<JobFingerprints>& ShapeOf<JobFingerprints>();
template <>
const Shape<HostMember>& ShapeOf<HostMember>();
template <>
const Shape<HostInfo>& ShapeOf<HostInfo>();
template <>
const Shape<HostPage>& ShapeOf<HostPage>();
template <>
const Shape<NamespaceInfo>& ShapeOf<NamespaceInfo>();
template <>
const Shape<NamespaceList>& ShapeOf<NamespaceList>();
template <>
const Shape<TokenInfo>& ShapeOf<TokenInfo>();
template <>
const Shape<MadeToken>& ShapeOf<MadeToken>();
template <>
const Shape<TokenList>& ShapeOf<TokenList>();
template <>
const Shape<AdmittedHost>& ShapeOf<AdmittedHost>();
template <>
const Shape<SignedCertificate>& ShapeOf<SignedCertificate>();
template <>
const Shape<CertificateOfAuthority>& ShapeOf<CertificateOfAuthority>();
template <>
const Shape<HostTrust>& ShapeOf<HostTrust>();
template <>
const Shape<AuthorityInfo>& ShapeOf<AuthorityInfo>();
// Each kind of event has further fields.
template <>
const Shape<JobEvent>& ShapeOf<JobEvent>();

Json ToJson(const SubmittedJob& submitted);
Json ToJson(const JobEvent& event);

// By name, of all of the above, and of the errors.
Json AnswerSchemas();
inline constexpr char kErrorSchema[] = "ErrorAnswer";

}  // namespace muster::coordinator
