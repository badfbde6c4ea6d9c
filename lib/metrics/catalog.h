// Every metric of every Muster program: one table. Base units, counters end in _total (Prometheus
// conventions). A name used in code is looked up here at compile time (metrics.h), so that one not
// in the table does not compile.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace muster {

enum class MetricKind { kCounter, kGauge, kHistogram };

struct MetricEntry {
  std::string_view name;
  MetricKind kind;
  std::string_view unit;   // of the value: "1" for a count
  std::string_view label;  // the one label besides the constant ones; empty: none
  std::string_view help;
};

inline constexpr MetricEntry kCatalog[] = {
    {"muster_build_info", MetricKind::kGauge, "1", "version",
     "Always 1; the label carries the version of the program"},
    {"muster_steps_total", MetricKind::kCounter, "1", "", "Steps applied by this process"},
    {"muster_samples_total", MetricKind::kCounter, "1", "",
     "Samples whose gradients this process computed"},
    {"muster_loss", MetricKind::kGauge, "1", "",
     "Loss of the newest complete step; of the coordinator not a number while no job runs"},
    {"muster_step_seconds", MetricKind::kHistogram, "seconds", "",
     "Time from the start of a step to the start of the next"},
    {"muster_step_phase_seconds_total", MetricKind::kCounter, "seconds", "phase",
     "Step time by phase: input, compute, validation, exposed_communication, update"},
    {"muster_measures_total", MetricKind::kCounter, "1", "",
     "States that this process measured as a follower"},
    {"muster_measure_seconds", MetricKind::kHistogram, "seconds", "",
     "Time a follower took to read a checkpoint and measure its model"},
    {"muster_stream_positions", MetricKind::kGauge, "1", "",
     "Samples of the stream that are safe, as its reader was told"},
    {"muster_stream_bytes_total", MetricKind::kCounter, "bytes", "",
     "Bytes of samples that became safe while this process read the stream"},
    {"muster_stream_retries_total", MetricKind::kCounter, "1", "",
     "Times that the source or the spool of a stream failed, and was tried again"},
    {"muster_bytes_sent_total", MetricKind::kCounter, "bytes", "",
     "Bytes of frames handed to the network, headers included"},
    {"muster_bytes_received_total", MetricKind::kCounter, "bytes", "",
     "Bytes of frames received, headers included"},
    {"muster_bytes_copied_total", MetricKind::kCounter, "bytes", "",
     "Tensor bytes copied from memory to memory"},
    {"muster_members", MetricKind::kGauge, "1", "", "Members of the current view; 0 without one"},
    {"muster_view", MetricKind::kGauge, "1", "", "Number of the current view; 0 without one"},
    {"muster_term", MetricKind::kGauge, "1", "",
     "Term of the coordinator that published the current view"},
    {"muster_lineage", MetricKind::kGauge, "1", "",
     "Number of the current lineage of states; 0 without one"},
    {"muster_recoveries_total", MetricKind::kCounter, "1", "",
     "Views formed because a member was lost"},
    {"muster_rewinds_total", MetricKind::kCounter, "1", "",
     "Recoveries that went back to a checkpoint"},
    {"muster_lanes_recomputed_total", MetricKind::kCounter, "1", "",
     "Lanes computed again after a recovery"},
    {"muster_checkpoint_seconds", MetricKind::kHistogram, "seconds", "",
     "Time from the start of a checkpoint's first part to its commit, seen by the coordinator"},
    {"muster_checkpoint_part_seconds", MetricKind::kHistogram, "seconds", "",
     "Time this member took to copy, write and sync its part of a checkpoint"},
    {"muster_checkpoint_stall_seconds", MetricKind::kHistogram, "seconds", "",
     "Time training stood still for a checkpoint"},
    {"muster_checkpoint_bytes_total", MetricKind::kCounter, "bytes", "",
     "Bytes of checkpoint segments that this member wrote"},
    {"muster_checkpoints_committed_total", MetricKind::kCounter, "1", "", "Checkpoints committed"},
    {"muster_checkpoint_failures_total", MetricKind::kCounter, "1", "reason",
     "Parts of checkpoints that were given up, by reason; of the coordinator those of all members"},
    {"muster_disk_free_bytes", MetricKind::kGauge, "bytes", "disk",
     "Bytes that the coordinator may still write to a disk: store, checkpoints"},
    {"muster_disk_size_bytes", MetricKind::kGauge, "bytes", "disk", "Bytes of these disks in all"},
    {"muster_journal_writable", MetricKind::kGauge, "1", "",
     "1 while the coordinator can write its journal, else 0: nothing is decided then"},
    {"muster_certificate_end_timestamp_seconds", MetricKind::kGauge, "seconds", "",
     "When the certificate of this process ends, in seconds since 1970"},
    {"muster_queue_depth", MetricKind::kGauge, "1", "queue",
     "Things waiting in a queue: mailbox, transport, checkpoint, queries, webhooks"},
    {"muster_jobs", MetricKind::kGauge, "1", "state", "Jobs known to the coordinator, by state"},
    {"muster_job_step", MetricKind::kGauge, "1", "job",
     "Steps that the coordinator has recorded of each job that has started and not ended"},
    {"muster_job_steps_wanted", MetricKind::kGauge, "1", "job",
     "Steps of these jobs in all; 0: not known yet"},
    {"muster_job_loss", MetricKind::kGauge, "1", "job",
     "Loss of the last step that was recorded of these jobs"},
    {"muster_job_checkpoint_step", MetricKind::kGauge, "1", "job",
     "Step of the newest complete checkpoint of these jobs; 0 without one"},
    {"muster_job_stream_samples", MetricKind::kGauge, "1", "job",
     "Samples that the streams of these jobs have brought; of others there is none"},
    {"muster_job_stream_spool_bytes", MetricKind::kGauge, "bytes", "job",
     "Bytes of them that are kept in the spool"},
    {"muster_job_recoveries_total", MetricKind::kCounter, "1", "job",
     "Views of these jobs formed because a member was lost"},
    {"muster_job_rewinds_total", MetricKind::kCounter, "1", "job",
     "Recoveries of these jobs that went back to a checkpoint"},
    {"muster_hosts", MetricKind::kGauge, "1", "state",
     "Hosts known to the coordinator, by state: up, away, draining, left_out"},
    {"muster_host_slots", MetricKind::kGauge, "1", "state",
     "Slots of these hosts: total, and used by members that are placed there"},
    {"muster_host_devices", MetricKind::kGauge, "1", "state",
     "Devices of these hosts: total, and used by members that are placed there or still end"},
    {"muster_launcher_trouble", MetricKind::kGauge, "1", "",
     "1 while something keeps the coordinator from making pods for any job, else 0"},
    {"muster_records_pending", MetricKind::kGauge, "1", "",
     "Ledger records not yet acknowledged by the coordinator"},
    {"muster_http_requests_total", MetricKind::kCounter, "1", "code",
     "HTTP requests answered, by status code"},
    {"muster_sse_dropped_total", MetricKind::kCounter, "1", "",
     "Event streams dropped because the client read too slowly"},
    {"muster_webhook_deliveries_total", MetricKind::kCounter, "1", "result",
     "Events for webhooks: delivered, failed (and tried again), given_up, dropped, gone, "
     "unreadable"},
    {"muster_frames_refused_total", MetricKind::kCounter, "1", "reason",
     "Frames refused, by reason"},
};

// Upper bounds of the buckets of every histogram, in seconds.
inline constexpr std::array kSecondsBuckets = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                               0.1,   0.25,   0.5,   1.0,  2.5,   5.0,
                                               10.0,  30.0,   60.0,  300.0};

// The index in kCatalog; a compile error where the name is missing or of another kind.
consteval size_t FindMetric(std::string_view name, MetricKind kind) {
  for (size_t i = 0; i < std::size(kCatalog); ++i) {
    if (kCatalog[i].name == name && kCatalog[i].kind == kind) return i;
  }
  throw "no metric of this name and kind in kCatalog (lib/metrics/catalog.h)";
}

}  // namespace muster
