"""The dashboards: cluster, job, member, coordinator. `model.py` says what a dashboard is, `generate.py` writes them."""

from model import RED, YELLOW, Annotation, Dashboard, Panel, Variable

RATE = "[$__rate_interval]"

# Seconds that a worker takes for a sample, without what it waits for others; and how many times as long that is as what
# the fastest quarter of its job's workers take. A worker that is behind shows there and nowhere else: all wait for it.
OWN_PHASES = 'phase=~"input|compute"'


def own_seconds(job=""):
    where = f"{OWN_PHASES}{job}"
    samples = f"{{{job[1:]}}}" if job else ""
    return (f"sum by (job, member) (rate(muster_step_phase_seconds_total{{{where}}}{RATE}))"
            f" / sum by (job, member) (rate(muster_samples_total{samples}{RATE}) > 0)")


def slowness(job=""):
    own = own_seconds(job)
    return f"({own}) / on (job) group_left () quantile by (job) (0.25, {own})"


SLOWNESS_TEXT = ("How many times as long a worker takes for a sample, without what it waits for others, as the fastest "
                 "quarter of its job's workers. At 1.5 or more the others wait for it at each step.")
DISK_TEXT = ("Free part of the disks of the coordinator's store and of the checkpoints. Without room on the first "
             "nothing is decided or recorded, without room on the second no checkpoint is made; training goes on.")
NEARLY_FULL = ((0, RED), (0.02, YELLOW), (0.1, "green"))
MEAN_OF_PHASES = "avg by (phase) (rate(muster_step_phase_seconds_total{%s}" + RATE + "))"
# Of a coordinator that has another port, or another pod, at each start.
STARTS = ('max(max_over_time(muster_term{role="coordinator"}' + RATE + ")) - "
          'min(min_over_time(muster_term{role="coordinator"}' + RATE + ")) > 0")
RECOVERIES = Annotation("recovery", "sum(increase(muster_recoveries_total" + RATE + ")) > 0", "orange",
                        "a member was lost, and the others went on")
REWINDS = Annotation("rewind", "sum(increase(muster_rewinds_total" + RATE + ")) > 0", "red",
                     "no live copy of the state was left: a job went back to a checkpoint")

CLUSTER = Dashboard(
    "cluster", "Muster: cluster", "Jobs and hosts of a cluster, what is wrong, and where to look next.",
    annotations=(RECOVERIES, REWINDS),
    panels=(
        Panel("Jobs that run", (('sum(muster_jobs{state=~"starting|running|recovering|stopping"})', "jobs"),), "short",
              "Jobs that have started and not ended.", "stat", width=4, height=4),
        Panel("Jobs that wait", (('sum(muster_jobs{state="queued"})', "jobs"),), "short",
              "Jobs in the queue. muster status JOB says what one waits for.", "stat", width=4, height=4,
              thresholds=((1, YELLOW),)),
        Panel("Hosts away", (('sum(muster_hosts{state="away"})', "hosts"),), "short",
              "Hosts whose agent has no session. muster hosts names them.", "stat", width=4, height=4,
              thresholds=((1, RED),)),
        Panel("Slots in use", (('sum(muster_host_slots{state="used"}) / sum(muster_host_slots{state="total"})',
                                "slots"),), "percentunit", "Part of all slots that members hold.", "stat", width=4,
              height=4, maximum=1),
        Panel("Samples per second", (("sum(rate(muster_samples_total" + RATE + "))", "samples"),), "short",
              "Of all jobs.", "stat", width=4, height=4),
        Panel("Alerts", (('count(ALERTS{alertname=~"Muster.*",alertstate="firing"}) or vector(0)', "alerts"),), "short",
              "Alerts of Muster that fire.", "stat", width=4, height=4, thresholds=((1, RED),)),
        Panel("Alerts that fire or are about to",
              (('ALERTS{alertname=~"Muster.*"}', "{{alertname}} ({{alertstate}})"),), "short",
              "Pending ones have the condition, and not yet for long enough. Each has a section in docs/watching.md.",
              "table", width=12),
        Panel("Jobs by state", (("sum by (state) (muster_jobs) > 0", "{{state}}"),), "short",
              "States are those of muster list.", width=12, stacked=True),
        Panel("Loss of each job", (("muster_job_loss", "{{job}}"),), "short",
              "Of the last step that was recorded.", minimum=None, link="job"),
        Panel("Steps per second of each job", (("clamp_min(deriv(muster_job_step" + RATE + "), 0)", "{{job}}"),),
              "short", "Recorded by the coordinator. A job that has none for long stands still.", link="job"),
        Panel("Samples per second of each job", (("sum by (job) (rate(muster_samples_total" + RATE + "))", "{{job}}"),),
              "short", "Computed by all its workers.", link="job"),
        Panel("Recoveries and rewinds",
              (("sum by (job) (increase(muster_job_recoveries_total" + RATE + "))", "{{job}}: recoveries"),
               ("sum by (job) (increase(muster_job_rewinds_total" + RATE + "))", "{{job}}: rewinds")), "short",
              "A recovery is a view without a member that was lost. A rewind goes back to a checkpoint.",
              thresholds=((1, YELLOW),), link="job"),
        Panel("Workers that are behind", (("topk(5, " + slowness() + ")", "{{job}} {{member}}"),), "short",
              SLOWNESS_TEXT, thresholds=((1.5, RED),), link="member"),
        Panel("Parts of checkpoints given up",
              (('sum by (reason) (increase(muster_checkpoint_failures_total{role="coordinator"}' + RATE + "))",
                "{{reason}}"),), "short",
              "not_written and not_committed: a disk failed or is full. disk_slow: checkpoints come faster than a disk "
              "takes them.", thresholds=((1, RED),)),
        Panel("Free disk", (("muster_disk_free_bytes / muster_disk_size_bytes", "{{disk}}"),), "percentunit",
              DISK_TEXT, maximum=1, thresholds=NEARLY_FULL),
        Panel("Hosts by state", (("sum by (state) (muster_hosts) > 0", "{{state}}"),), "short",
              "up, away, draining, or left out for all jobs.", stacked=True),
        Panel("Slots and devices", (('sum(muster_host_slots{state="used"})', "slots used"),
                                    ('sum(muster_host_slots{state="total"})', "slots"),
                                    ('sum(muster_host_devices{state="used"})', "devices used"),
                                    ('sum(muster_host_devices{state="total"})', "devices")), "short",
              "A slot holds one worker or server."),
    ))

JOB = Dashboard(
    "job", "Muster: job", "One job: how far it is, where its time goes, who is behind, and what it has lost.",
    variables=(Variable("job", "label_values(muster_job_step, job)"),),
    annotations=(
        Annotation("recovery", 'increase(muster_job_recoveries_total{job="$job"}' + RATE + ") > 0", "orange",
                   "a member was lost, and the others went on"),
        Annotation("rewind", 'increase(muster_job_rewinds_total{job="$job"}' + RATE + ") > 0", "red",
                   "no live copy of the state was left: the job went back to a checkpoint")),
    panels=(
        Panel("Step", (('muster_job_step{job="$job"}', "step"),), "none", "Steps that are recorded.", "stat", width=4,
              height=4),
        Panel("Done", (('muster_job_step{job="$job"} / (muster_job_steps_wanted{job="$job"} > 0)', "done"),),
              "percentunit", "Part of all its steps.", "stat", width=4, height=4, maximum=1),
        Panel("Loss", (('muster_job_loss{job="$job"}', "loss"),), "short", "Of the last step that was recorded.",
              "stat", width=4, height=4, minimum=None),
        Panel("Members", (('max(muster_members{job="$job"})', "members"),), "short",
              "Of its current view: workers and servers.", "stat", width=4, height=4),
        Panel("Steps since its checkpoint",
              (('clamp_min(muster_job_step{job="$job"} - muster_job_checkpoint_step{job="$job"}, 0)', "steps"),),
              "none", "So many are done again where no live copy of the state is left.", "stat", width=4, height=4),
        Panel("Slowest worker", (("max(" + slowness(',job="$job"') + ")", "times"),), "short", SLOWNESS_TEXT, "stat",
              width=4, height=4, thresholds=((1.5, RED),)),
        Panel("Loss over time", (('muster_job_loss{job="$job"}', "loss"),), "short",
              "Of the last step that was recorded. muster history has the loss of each step.", minimum=None, width=12),
        Panel("Steps and checkpoints", (('muster_job_step{job="$job"}', "step"),
                                        ('muster_job_checkpoint_step{job="$job"}', "newest checkpoint")), "none",
              "Where the first falls, the job has gone back to the second.", width=12),
        Panel("Steps per second", (('clamp_min(deriv(muster_job_step{job="$job"}' + RATE + "), 0)", "steps"),),
              "short", "Recorded by the coordinator."),
        Panel("Time of a step",
              (('histogram_quantile(0.5, sum by (le) (rate(muster_step_seconds_bucket{job="$job"}' + RATE + ")))",
                "median"),
               ('histogram_quantile(0.99, sum by (le) (rate(muster_step_seconds_bucket{job="$job"}' + RATE + ")))",
                "99 %")), "s", "From the start of a step to the start of the next, seen by workers."),
        Panel("Where the time goes", ((MEAN_OF_PHASES % 'job="$job"', "{{phase}}"),), "s",
              "Seconds that a worker spends in each phase, in a second, in the mean of all. Much exposed communication: "
              "the network is slow, or one worker is behind.", stacked=True),
        Panel("Workers that are behind", ((slowness(',job="$job"'), "{{member}}"),), "short", SLOWNESS_TEXT,
              thresholds=((1.5, RED),), link="member"),
        Panel("Waiting for others",
              (('sum by (job, member) (rate(muster_step_phase_seconds_total{job="$job",phase="exposed_communication"}'
                + RATE + "))", "{{member}}"),), "percentunit",
              "Part of a worker's time in which it waits for results. The one that all wait for waits least.",
              link="member"),
        Panel("Samples per second", (('sum by (job, member) (rate(muster_samples_total{job="$job"}' + RATE + "))",
                                      "{{member}}"),), "short", "Of each worker.", stacked=True, link="member"),
        Panel("Recoveries and rewinds",
              (('increase(muster_job_recoveries_total{job="$job"}' + RATE + ")", "recoveries"),
               ('increase(muster_job_rewinds_total{job="$job"}' + RATE + ")", "rewinds")), "short",
              "A recovery is a view without a member that was lost. A rewind goes back to a checkpoint.",
              thresholds=((1, YELLOW),)),
        Panel("Time of a checkpoint's parts",
              (('histogram_quantile(0.99, sum by (le) (rate(muster_checkpoint_part_seconds_bucket{job="$job"}' + RATE
                + ")))", "copied and written"),
               ('histogram_quantile(0.99, sum by (le) (rate(muster_checkpoint_stall_seconds_bucket{job="$job"}' + RATE
                + ")))", "training stood still")), "s", "Of 99 % of the parts."),
        Panel("Parts of checkpoints given up",
              (('sum by (reason) (increase(muster_checkpoint_failures_total{job="$job"}' + RATE + "))", "{{reason}}"),),
              "short", "not_written: a disk failed or is full. disk_slow: checkpoints come faster than a disk takes "
              "them.", thresholds=((1, RED),)),
        Panel("Network", (('sum(rate(muster_bytes_sent_total{job="$job"}' + RATE + "))", "sent"),
                          ('sum(rate(muster_bytes_received_total{job="$job"}' + RATE + "))", "received")), "Bps",
              "Of all members, with headers."),
        Panel("Records not acknowledged", (('max by (job, member) (muster_records_pending{job="$job"})',
                                             "{{member}}"),), "short",
              "They wait while the coordinator is away or cannot write its journal; nothing is lost by that.",
              link="member"),
        Panel("View and lineage", (('max(muster_view{job="$job"})', "view"),
                                   ('max(muster_lineage{job="$job"})', "lineage")), "none",
              "Each change of the members is a view, each rewind a lineage."),
    ))

OF_MEMBER = 'job="$job",member="$member"'
MEMBER = Dashboard(
    "member", "Muster: member", "One worker or server of a job.",
    variables=(Variable("job", "label_values(muster_bytes_sent_total, job)"),
               Variable("member", 'label_values(muster_bytes_sent_total{job="$job"}, member)')),
    annotations=(
        Annotation("new view", "changes(muster_view{" + OF_MEMBER + "}" + RATE + ") > 0", "orange",
                   "members came or went"),),
    panels=(
        Panel("Answers", (("count(muster_build_info{" + OF_MEMBER + "}) or vector(0)", "answers"),), "bool",
              "Whether Prometheus reads its metrics.", "stat", width=4, height=4, thresholds=((0, RED), (1, "green"))),
        Panel("Steps per second", (("sum(rate(muster_steps_total{" + OF_MEMBER + "}" + RATE + "))", "steps"),), "short",
              "Of a worker: steps that it has applied.", "stat", width=4, height=4),
        Panel("Samples per second", (("sum(rate(muster_samples_total{" + OF_MEMBER + "}" + RATE + "))", "samples"),),
              "short", "Of a worker: samples whose gradients it has computed.", "stat", width=4, height=4),
        Panel("Times as long as others", (("max(" + slowness(',job="$job"') + ' * on (job, member) group_left () '
                                           "(muster_view{" + OF_MEMBER + "} * 0 + 1))", "times"),), "short",
              SLOWNESS_TEXT, "stat", width=4, height=4, thresholds=((1.5, RED),)),
        Panel("View", (("max(muster_view{" + OF_MEMBER + "})", "view"),), "none", "0: it is in none.", "stat", width=4,
              height=4),
        Panel("Certificate ends in", (("min(muster_certificate_end_timestamp_seconds{" + OF_MEMBER
                                       + "}) - time()", "time"),), "s", "Its agent renews it when half of its time is over.", "stat",
              width=4, height=4, thresholds=((0, RED), (6 * 3600, "green"))),
        Panel("Where the time goes", ((MEAN_OF_PHASES % OF_MEMBER, "{{phase}}"),), "s",
              "Seconds of the train thread in each phase, in a second. Exposed communication is waiting for others.",
              stacked=True, width=12),
        Panel("Seconds for a sample",
              (("sum(rate(muster_step_phase_seconds_total{" + OWN_PHASES + "," + OF_MEMBER + "}" + RATE + ")) / "
                "sum(rate(muster_samples_total{" + OF_MEMBER + "}" + RATE + ") > 0)", "this worker"),
               ("quantile(0.25, " + own_seconds(',job="$job"') + ")", "fastest quarter of the job")), "s",
              "Without what it waits for others.", width=12),
        Panel("Time of a step",
              (("histogram_quantile(0.5, sum by (le) (rate(muster_step_seconds_bucket{" + OF_MEMBER + "}" + RATE
                + ")))", "median"),
               ("histogram_quantile(0.99, sum by (le) (rate(muster_step_seconds_bucket{" + OF_MEMBER + "}" + RATE
                + ")))", "99 %")), "s", "From the start of a step to the start of the next."),
        Panel("Network", (("sum(rate(muster_bytes_sent_total{" + OF_MEMBER + "}" + RATE + "))", "sent"),
                          ("sum(rate(muster_bytes_received_total{" + OF_MEMBER + "}" + RATE + "))", "received"),
                          ("sum(rate(muster_bytes_copied_total{" + OF_MEMBER + "}" + RATE + "))", "copied in memory")),
              "Bps", "Frames with their headers, and tensor bytes that were copied."),
        Panel("Bytes not yet sent", (('max(muster_queue_depth{queue="transport",' + OF_MEMBER + "})", "bytes"),), "bytes",
              "Handed over, and not yet given to the network."),
        Panel("Checkpoint parts written", (("sum(rate(muster_checkpoint_bytes_total{" + OF_MEMBER + "}" + RATE
                                             + "))", "bytes"),), "Bps", "Segments that are on disk."),
        Panel("Parts of checkpoints given up",
              (("sum by (reason) (increase(muster_checkpoint_failures_total{" + OF_MEMBER + "}" + RATE + "))",
                "{{reason}}"),), "short",
              "not_written: its disk failed or is full. disk_slow: it takes longer than checkpoints are apart.",
              thresholds=((1, RED),)),
        Panel("Time of its parts of checkpoints",
              (("rate(muster_checkpoint_part_seconds_sum{" + OF_MEMBER + "}" + RATE + ") / "
                "(rate(muster_checkpoint_part_seconds_count{" + OF_MEMBER + "}" + RATE + ") > 0)", "copied and written"),
               ("rate(muster_checkpoint_stall_seconds_sum{" + OF_MEMBER + "}" + RATE + ") / "
                "(rate(muster_checkpoint_stall_seconds_count{" + OF_MEMBER + "}" + RATE + ") > 0)",
                "training stood still")), "s", "In the mean."),
        Panel("Queues", (('max(muster_queue_depth{queue="mailbox",' + OF_MEMBER + "})", "events"),
                         ('max(muster_queue_depth{queue="checkpoint",' + OF_MEMBER + "})", "checkpoint parts"),
                         ("max(muster_records_pending{" + OF_MEMBER + "})", "records not acknowledged")), "short",
              "Things that wait in it."),
        Panel("Frames refused", (("sum by (reason) (increase(muster_frames_refused_total{" + OF_MEMBER + "}" + RATE + "))",
                                  "{{reason}}"),),
              "short", "From peers that are no members of its job, or that broke the protocol.",
              thresholds=((1, YELLOW),)),
        Panel("Loss", (("max(muster_loss{" + OF_MEMBER + "})", "loss"),), "short", "Of the newest complete step.",
              minimum=None),
    ))

OF_COORDINATOR = '{role="coordinator"}'
COORDINATOR = Dashboard(
    "coordinator", "Muster: coordinator", "The process that decides: whether it keeps up, and whether its disk does.",
    annotations=(Annotation("coordinator started", STARTS, "blue", "a new term"), RECOVERIES, REWINDS),
    panels=(
        Panel("Answers", (("max(up" + OF_COORDINATOR + ")", "up"),), "bool",
              "Whether Prometheus reads its metrics. Jobs train on without it.", "stat", width=4, height=4,
              thresholds=((0, RED), (1, "green"))),
        Panel("Writes its journal", (("min(muster_journal_writable)", "writable"),), "bool",
              "While it cannot, nothing is decided or recorded, and training goes on.", "stat", width=4, height=4,
              thresholds=((0, RED), (1, "green"))),
        Panel("Term", (("max(muster_term" + OF_COORDINATOR + ")", "term"),), "none", "One more at each start.", "stat",
              width=4, height=4),
        Panel("Members", (("sum(muster_members" + OF_COORDINATOR + ")", "members"),), "short", "In the views of all jobs.",
              "stat", width=4, height=4),
        Panel("Certificate ends in", (("min(muster_certificate_end_timestamp_seconds" + OF_COORDINATOR + ") - time()",
                                       "time"),), "s", "With an authority of its own it renews it at half of its time.",
              "stat", width=4, height=4, thresholds=((0, RED), (6 * 3600, "green"))),
        Panel("Version", (("count by (version) (muster_build_info)", "{{version}}"),), "none",
              "How many processes run which version.", "stat", width=4, height=4),
        Panel("Free disk", (("muster_disk_free_bytes / muster_disk_size_bytes", "{{disk}}"),), "percentunit",
              DISK_TEXT, maximum=1, thresholds=NEARLY_FULL),
        Panel("Free bytes", (("muster_disk_free_bytes", "{{disk}}"),), "bytes", DISK_TEXT),
        Panel("Journal can be written", (("min(muster_journal_writable)", "writable"),), "bool",
              "0 while its disk is full.", maximum=1),
        Panel("Queues", (("muster_queue_depth" + OF_COORDINATOR, "{{queue}}"),), "short",
              "mailbox: messages that wait to be decided on. checkpoint: commits and final digests. queries: digests, "
              "audits and fingerprints that people asked for."),
        Panel("Checkpoints committed", (("rate(muster_checkpoints_committed_total" + RATE + ") * 60", "a minute"),),
              "short", "Of all jobs."),
        Panel("Time of a checkpoint",
              (("histogram_quantile(0.5, sum by (le) (rate(muster_checkpoint_seconds_bucket" + RATE + ")))", "median"),
               ("histogram_quantile(0.99, sum by (le) (rate(muster_checkpoint_seconds_bucket" + RATE + ")))", "99 %")),
              "s", "From the start of its first part to its commit."),
        Panel("Parts of checkpoints given up",
              (("sum by (reason) (increase(muster_checkpoint_failures_total" + OF_COORDINATOR + RATE + "))",
                "{{reason}}"),), "short", "not_committed: the coordinator could not write it. Others: a member said so.",
              thresholds=((1, RED),)),
        Panel("Lanes computed again", (("increase(muster_lanes_recomputed_total" + RATE + ")", "lanes"),), "short",
              "After recoveries, of all jobs."),
        Panel("HTTP requests per second", (("sum by (code) (rate(muster_http_requests_total" + OF_COORDINATOR + RATE
                                            + "))", "{{code}}"),), "reqps", "REST and events, by status.", stacked=True),
        Panel("Frames refused", (("sum by (reason) (increase(muster_frames_refused_total" + OF_COORDINATOR + RATE
                                  + "))", "{{reason}}"),), "short",
              "From who broke the protocol or speaks another version of it.", thresholds=((1, YELLOW),)),
        Panel("Events for webhooks", (("sum by (result) (increase(muster_webhook_deliveries_total" + RATE + "))",
                                       "{{result}}"),), "short",
              "failed is tried again. given_up, dropped and unreadable: somebody is not told of them."),
        Panel("Kept from making pods", (("max(muster_launcher_trouble) or vector(0)", "kept from it"),), "bool",
              "Of a coordinator that makes pods for jobs in Kubernetes: its API is away or refuses it, or the template of "
              "pods is one that it refuses. muster doctor --to says which.", maximum=1, thresholds=((1, RED),)),
        Panel("Event streams dropped", (("increase(muster_sse_dropped_total" + RATE + ")", "streams"),), "short",
              "Of clients that read too slowly; they come again."),
    ))

ALL = (CLUSTER, JOB, MEMBER, COORDINATOR)
