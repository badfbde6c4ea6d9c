#include "coordinator/service/grpc/messages.h"

#include "coordinator/service/grpc/refusal.h"
#include "lib/base/printable.h"
#include "lib/wire/job_codec_proto.h"

namespace muster {
namespace {

void Fill(const ParentInfo& from, v1::Parent& to) {
  to.set_job(from.job);
  to.set_step(from.step);
  to.set_digest(from.digest);
}

void Fill(const JobMember& from, v1::JobMember& to) {
  to.set_name(from.name);
  to.set_role(from.role);
  to.set_rank(from.rank);
  to.set_local_rank(from.local_rank);
  to.set_node(from.node);
  to.set_host(from.host);
  to.set_address(from.address);
  to.set_incarnation(from.incarnation);
  to.mutable_lanes()->Add(from.lanes.begin(), from.lanes.end());
  to.set_state(from.state);
  to.set_phase(from.phase);
  to.set_step(from.step);
}

void Fill(const StreamInfo& from, v1::Stream& to) {
  to.set_samples(from.samples);
  if (from.end) to.set_end(*from.end);
  to.set_trimmed(from.trimmed);
  to.set_spool_bytes(from.spool_bytes);
  to.set_file(Printable(from.file));
}

void FillCounts(const JobInfo& from, v1::Job& to) {
  to.set_step(from.step);
  to.set_steps(from.steps);
  to.set_epoch(from.epoch);
  to.set_epochs(from.epochs);
  to.set_samples(from.samples);
  if (from.loss) to.set_loss(*from.loss);
  for (const MetricValue& of : from.validation) {
    v1::MetricValue& added = *to.add_validation();
    added.set_metric(of.metric);
    if (of.value) added.set_value(*of.value);
  }
  if (from.validation_step) to.set_validation_step(*from.validation_step);
  to.set_view(from.view);
  to.set_lineage(from.lineage);
  to.set_workers(from.workers);
  to.set_views(from.views);
  to.set_recoveries(from.recoveries);
  to.set_rewinds(from.rewinds);
  to.set_lanes_recomputed(from.lanes_recomputed);
  to.set_seconds(from.seconds);
}

}  // namespace

void Fill(const JobInfo& from, v1::Job& to) {
  to.set_id(from.id);
  to.set_name(from.name);
  to.set_state(from.state);
  to.set_reason(from.reason);
  to.set_waits_for(from.waits_for);
  to.set_deleting(from.deleting);
  to.set_owner(from.owner);
  to.set_first_start(from.first_start);
  to.set_digest(from.digest);
  to.set_digest_step(from.digest_step);
  to.set_sample(from.sample);
  if (from.exit_code) to.set_exit_code(*from.exit_code);
  to.set_fingerprint(from.fingerprint);
  to.set_fingerprint_step(from.fingerprint_step);
  FillCounts(from, to);
  for (const JobMember& member : from.members) Fill(member, *to.add_members());
  if (from.checkpoint_step) to.set_checkpoint_step(*from.checkpoint_step);
  for (const CheckpointRef& checkpoint : from.checkpoints) {
    v1::CheckpointRef& added = *to.add_checkpoints();
    added.set_lineage(checkpoint.lineage);
    added.set_step(checkpoint.step);
  }
  if (from.parent) Fill(*from.parent, *to.mutable_parent());
  if (from.stream) Fill(*from.stream, *to.mutable_stream());
  *to.mutable_spec() = ToProto(*from.spec);
}

void Fill(const SubmittedJob& from, v1::SubmitResponse& to) {
  Fill(from.job, *to.mutable_job());
  to.set_created(from.created);
}

void Fill(const AdoptionInfo& from, v1::Adoption& to) {
  to.set_adoption(from.adoption);
  to.set_folder(from.folder);
  to.set_job(from.job);
  to.set_state(from.state);
  to.set_step(from.step);
  to.set_bytes(from.bytes);
  to.set_of_bytes(from.of_bytes);
  to.set_seconds(from.seconds);
  to.set_bytes_per_second(from.bytes_per_second);
  if (from.seconds_left) to.set_seconds_left(*from.seconds_left);
  for (const std::string& why : from.passed_over) to.add_passed_over(Printable(why));
  if (from.error.ok()) return;
  const Refusal refusal = RefusalOf(from.error);
  to.set_error_code(refusal.status.error_code());
  to.set_error(refusal.status.error_message());
}

void Fill(const JobPage& from, v1::ListResponse& to) {
  for (const JobInfo& job : from.jobs) Fill(job, *to.add_jobs());
  to.set_next_page_token(from.next_page_token);
}

void Fill(const JobFingerprints& from, v1::FingerprintsResponse& to) {
  if (from.next) to.set_next(*from.next);
  for (const JobFingerprint& fingerprint : from.fingerprints) {
    v1::JobFingerprint& added = *to.add_fingerprints();
    added.set_step(fingerprint.step);
    added.set_lineage(fingerprint.lineage);
    added.set_value(fingerprint.value);
  }
}

void Fill(const JobAudit& from, v1::AuditResponse& to) {
  for (const PluginUse& use : from.plugins) {
    v1::PluginUse& added = *to.add_plugins();
    added.set_from(use.from);
    added.set_file(use.file);
    if (use.accepted_by) added.set_accepted_by(*use.accepted_by);
  }
  if (from.parent) Fill(*from.parent, *to.mutable_parent());
  to.set_ok(from.ok);
  to.set_conclusion(from.conclusion);
  to.set_steps(from.steps);
  to.set_full_epochs(from.full_epochs);
  to.set_samples(from.samples);
  to.set_skipped_steps(from.skipped_steps);
  to.set_skipped_samples(from.skipped_samples);
  to.set_left_out_samples(from.left_out_samples);
  to.set_lanes(from.lanes);
  for (const JobAudit::Fork& fork : from.lineages) {
    v1::AuditResponse::Fork& added = *to.add_lineages();
    added.set_number(fork.number);
    added.set_parent(fork.parent);
    added.set_fork(fork.fork);
    added.set_cause(fork.cause);
  }
}

void Fill(const JobDigest& from, v1::DigestResponse& to) {
  to.set_lineage(from.lineage);
  to.set_step(from.step);
  to.set_digest(from.digest);
}

void Fill(const HostInfo& from, v1::Host& to) {
  to.set_name(from.name);
  to.set_node(from.node);
  to.set_slots(from.slots);
  to.set_used(from.used);
  to.set_free(from.free);
  to.set_up(from.up);
  to.set_away_for_seconds(from.away_for_seconds);
  to.set_draining(from.draining);
  for (const std::string& job : from.left_out_by) to.add_left_out_by(job);
  to.set_left_out(from.left_out);
  to.set_name_space(from.name_space);
  for (const HostMember& member : from.members) {
    v1::HostMember& added = *to.add_members();
    added.set_job(member.job);
    added.set_member(member.member);
    added.set_role(member.role);
    added.set_placement(member.placement);
    added.set_state(member.state);
    for (const std::string& id : member.devices) added.add_devices(id);
  }
  for (const std::string& id : from.devices) to.add_devices(id);
  for (const std::string& id : from.devices_used) to.add_devices_used(id);
}

void Fill(const HostPage& from, v1::ListHostsResponse& to) {
  for (const HostInfo& host : from.hosts) Fill(host, *to.add_hosts());
  to.set_next_page_token(from.next_page_token);
  for (const std::string& host : from.revoked) to.add_revoked(host);
  to.set_launch_namespace(from.launch_namespace);
  to.set_launch_trouble(from.launch_trouble);
}
void Fill(const LogTail& from, v1::LogsResponse& to) { to.set_text(from.text); }
void Fill(const LogPage& from, v1::FollowLogsResponse& to) {
  for (const LogLine& line : from.lines) {
    v1::LogLine& added = *to.add_lines();
    added.set_member(line.member);
    added.set_line(line.line);
  }
  to.set_next(from.next);
  to.set_over(from.over);
}

v1::JobEvent ToProto(const JobEvent& from) {
  v1::JobEvent to;
  to.set_id(from.id);
  to.set_seq(from.seq);
  to.set_unix_ms(from.unix_ms);
  to.set_event(from.event);
  to.set_text(from.text);
  to.mutable_fields()->insert(from.fields.begin(), from.fields.end());
  return to;
}

}  // namespace muster
