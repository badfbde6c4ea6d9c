// What the services answer, as messages of gRPC.
#pragma once

#include "coordinator/service/control_api.h"
#include "muster/v1/control.pb.h"

namespace muster {

void Fill(const JobInfo& from, v1::Job& to);
void Fill(const SubmittedJob& from, v1::SubmitResponse& to);
void Fill(const AdoptionInfo& from, v1::Adoption& to);
void Fill(const JobPage& from, v1::ListResponse& to);
void Fill(const JobFingerprints& from, v1::FingerprintsResponse& to);
void Fill(const JobAudit& from, v1::AuditResponse& to);
void Fill(const JobDigest& from, v1::DigestResponse& to);
void Fill(const HostInfo& from, v1::Host& to);
void Fill(const HostPage& from, v1::ListHostsResponse& to);
void Fill(const LogTail& from, v1::LogsResponse& to);
void Fill(const LogPage& from, v1::FollowLogsResponse& to);
v1::JobEvent ToProto(const JobEvent& from);

}  // namespace muster
