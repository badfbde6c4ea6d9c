// The handles of what a member counts, resolved once. Any thread.
#pragma once

#include "lib/metrics/metrics.h"

namespace muster {

// Adds to a counter what a total has grown by since it was last told.
template <class T>
void AddGrowth(Counter& counter, T now, T& told) {
  counter.Add(static_cast<double>(now - told));
  told = now;
}

struct MemberMetrics {
  explicit MemberMetrics(Metrics& m)
      : bytes_sent(m.GetCounter("muster_bytes_sent_total")),
        bytes_received(m.GetCounter("muster_bytes_received_total")),
        bytes_copied(m.GetCounter("muster_bytes_copied_total")),
        members(m.GetGauge("muster_members")),
        view(m.GetGauge("muster_view")),
        term(m.GetGauge("muster_term")),
        lineage(m.GetGauge("muster_lineage")),
        checkpoint_part_seconds(m.GetHistogram("muster_checkpoint_part_seconds")),
        checkpoint_stall(m.GetHistogram("muster_checkpoint_stall_seconds")),
        checkpoint_bytes(m.GetCounter("muster_checkpoint_bytes_total")),
        parts_not_written(m.GetCounter("muster_checkpoint_failures_total", "not_written")),
        parts_skipped(m.GetCounter("muster_checkpoint_failures_total", "disk_slow")),
        mailbox(m.GetGauge("muster_queue_depth", "mailbox")),
        transport(m.GetGauge("muster_queue_depth", "transport")),
        checkpoint(m.GetGauge("muster_queue_depth", "checkpoint")),
        records(m.GetGauge("muster_records_pending")),
        refused(m.GetCounter("muster_frames_refused_total", "peer")) {}

  Counter& bytes_sent;
  Counter& bytes_received;
  Counter& bytes_copied;
  Gauge& members;
  Gauge& view;
  Gauge& term;
  Gauge& lineage;
  Histogram& checkpoint_part_seconds;
  Histogram& checkpoint_stall;
  Counter& checkpoint_bytes;
  Counter& parts_not_written;
  Counter& parts_skipped;  // the disk was slow
  Gauge& mailbox;
  Gauge& transport;
  Gauge& checkpoint;
  Gauge& records;
  Counter& refused;
};

// Likewise of complete steps, which only a worker is told of.
struct StepMetrics {
  explicit StepMetrics(Metrics& m)
      : steps(m.GetCounter("muster_steps_total")),
        loss(m.GetGauge("muster_loss")),
        step_seconds(m.GetHistogram("muster_step_seconds")) {}

  Counter& steps;
  Gauge& loss;
  Histogram& step_seconds;
};

// Likewise of the train thread, which only workers have.
struct TrainMetrics {
  explicit TrainMetrics(Metrics& m)
      : samples(m.GetCounter("muster_samples_total")),
        input(m.GetCounter("muster_step_phase_seconds_total", "input")),
        compute(m.GetCounter("muster_step_phase_seconds_total", "compute")),
        validation(m.GetCounter("muster_step_phase_seconds_total", "validation")),
        exposed(m.GetCounter("muster_step_phase_seconds_total", "exposed_communication")),
        update(m.GetCounter("muster_step_phase_seconds_total", "update")) {}

  Counter& samples;
  Counter& input;  // seconds, as the three below
  Counter& compute;
  Counter& validation;  // its lanes measure
  Counter& exposed;     // it waits for results
  Counter& update;
};

// Likewise of a follower.
struct FollowerMetrics {
  explicit FollowerMetrics(Metrics& m)
      : measures(m.GetCounter("muster_measures_total")),
        measure_seconds(m.GetHistogram("muster_measure_seconds")) {}

  Counter& measures;
  Histogram& measure_seconds;
};

// Likewise of a reader.
struct StreamMetrics {
  explicit StreamMetrics(Metrics& m)
      : positions(m.GetGauge("muster_stream_positions")),
        bytes(m.GetCounter("muster_stream_bytes_total")),
        retries(m.GetCounter("muster_stream_retries_total")) {}

  Gauge& positions;
  Counter& bytes;
  Counter& retries;
};

}  // namespace muster
