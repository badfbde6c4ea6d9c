"""Each panel of the dashboards has data of a run in which everything went wrong, and shows it. While nothing has gone
wrong no alert fires.

What the panels show is kept in build/PRESET/watch. It is drawn there, and the dashboards are read by Grafana's own model
of them, where MUSTER_PICTURES names a Python with what requirements.txt lists, as it does in `./dev test watch`.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import panels
from scene import BUILD, Cluster, Disk, Prometheus, Slow, alone, until

# Computing takes most of a step, as it does with models of people, and each worker has chunks of its own to save.
TRAINED = {"task": "transformer", "parameters": {"width": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1,
                                                 "feedforward": 256, "source_length": 8, "target_length": 24},
           "data": {"samples": 4096}, "batch": 48, "lanes": 12, "steps": 1000000, "workers": {"min": 2, "max": 3},
           "optimizer": {"kind": "adam", "learning_rate": 0.001}, "checkpoint": {"every_seconds": 1, "keep": 2},
           "chunk_bytes": 16384}
# It waits, as there is no room for it beside the other one.
WAITS = {"task": "counting", "steps": 10, "workers": {"min": 3, "max": 3}, "lanes": 6, "batch": 12}
QUIET_SECONDS = 20
WINDOW = 10  # seconds over which rates are taken: so long after something it is still seen
VARIABLES = {"job": "watched", "member": "worker-2", "__rate_interval": f"{WINDOW}s"}
OTHERS = {"worker-0", "worker-1"}


class Watching(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-watch-"))
        cls.times = {}  # of what was done: (begin, end)
        cls.cluster = Cluster(cls.folder / "cluster")
        cls.cluster.start()
        cls.cluster.stop()
        cls.store = Disk(cls.cluster.folder / "store", 24)
        cls.checkpoints = Disk(cls.cluster.folder / "checkpoints", 16)
        cls.cluster.start()
        cls.prometheus = Prometheus(cls.folder, cls.cluster.folder / "prometheus-targets.json")
        try:
            cls.run_all()
        except BaseException:
            print(cls.cluster.log.read_text()[-3000:])
            print(cls.cluster.say("status", "watched", check=False).stdout)
            for expression in ("ALERTS", "muster_disk_free_bytes", "muster_checkpoint_failures_total"):
                print(expression, cls.prometheus.now(expression))
            raise
        cls.dashboards = {name: panels.dashboard(name, VARIABLES) for name in panels.NAMES}
        for _, shown, _ in cls.dashboards.values():
            for panel in shown:
                for query in panel.queries:
                    query.series = cls.prometheus.over(query.expression, cls.begin, cls.end)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()
        cls.prometheus.process.kill()
        cls.prometheus.process.wait()
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def until(cls, expression):
        return until(expression, lambda: cls.prometheus.now(expression))

    @classmethod
    def during(cls, what, expression):
        """What was done from now until the expression has a result."""
        begin = time.time()
        cls.until(expression)
        cls.times[what] = (begin, time.time())

    @classmethod
    def run_all(cls):
        cls.cluster.submit("watched", TRAINED)
        cls.until('count(muster_samples_total{job="watched"} > 0) == 3')
        cls.cluster.submit("waits", WAITS)
        cls.begin = time.time()
        cls.until(f'count_over_time(muster_job_checkpoint_step{{job="watched"}}[1h]) > {QUIET_SECONDS} and '
                  'muster_job_checkpoint_step > 0')
        cls.times["quiet"] = (cls.begin, time.time())
        cls.alerts_of_quiet = cls.prometheus.now(f"count_over_time(ALERTS[{QUIET_SECONDS}s])")

        os.kill(cls.cluster.processes("muster-worker", "worker-1")[0], signal.SIGKILL)
        cls.during("kill", 'muster_job_recoveries_total{job="watched"} == 1')
        cls.until('count(rate(muster_samples_total{job="watched"}[5s]) > 0) == 3')

        slow = panels.dashboard("cluster", VARIABLES)[1]
        behind = next(panel for panel in slow if panel.title == "Workers that are behind").queries[0].expression
        with Slow(cls.cluster.processes("muster-worker", "worker-2")[0]):
            cls.during("straggler", f"min_over_time(({behind})[5s:1s]) > 2 and on () "
                       'ALERTS{alertname="MusterStraggler",member="worker-2"}')

        cls.checkpoints.fill()
        cls.during("checkpoints", 'count(increase(muster_checkpoint_failures_total{reason="not_written"}[5s]) > 0) == 4'
                   ' and on () max_over_time(muster_disk_free_bytes{disk="checkpoints"}[4s]) == 0')
        cls.checkpoints.free()
        cls.until('muster_disk_free_bytes{disk="checkpoints"} > 0')

        cls.store.fill()
        cls.during("journal", 'max_over_time(muster_journal_writable[4s]) == 0 and on () ALERTS{alertname="MusterJournalNotWritten"}')
        cls.store.free()
        cls.until("muster_journal_writable == 1")
        cls.until('muster_job_step{job="watched"} - muster_job_checkpoint_step > 0')

        for worker in cls.cluster.processes("muster-worker"):
            os.kill(worker, signal.SIGKILL)
        cls.during("rewind", 'muster_job_rewinds_total{job="watched"} >= 1')
        cls.until('count(rate(muster_samples_total{job="watched"}[5s]) > 0) == 3')

        before = cls.prometheus.now('max(muster_term{role="coordinator"})')["{}"]
        os.kill(cls.cluster.processes("muster-coordinator")[0], signal.SIGKILL)
        cls.during("coordinator", f'max(muster_term{{role="coordinator"}}) > {before}')
        cls.until(f"count_over_time(muster_job_step[1m]) > {WINDOW} and on (instance) muster_term > {before}")
        cls.end = time.time()

    def span(self, what):
        """Of the time of what was done, with the time in which rates still tell of it."""
        begin, end = self.times[what]
        return begin, end if what == "quiet" else end + WINDOW

    def named(self, dashboard, title, what=None):
        """Series of a panel by their names; with `what`, as they were at that time."""
        panel = next(panel for panel in self.dashboards[dashboard][1] if panel.title == title)
        begin, end = self.span(what) if what else (self.begin, self.end)
        found = {name: [value for at, value in values.items() if begin <= at <= end]
                 for name, values in panel.named().items()}
        return {name: values for name, values in found.items() if values}

    def most(self, dashboard, title, series, what=None):
        return max(self.named(dashboard, title, what).get(series, [float("-inf")]))

    def least(self, dashboard, title, series, what=None):
        return min(self.named(dashboard, title, what).get(series, [float("inf")]))

    def test_each_panel_has_data(self):
        for name, (_, shown, _) in self.dashboards.items():
            for panel in shown:
                for query in panel.queries:
                    with self.subTest(f"{name}: {panel.title}: {query.expression}"):
                        values = [value for of_series in query.named().values() for value in of_series.values()]
                        self.assertTrue(values)

    def test_no_alert_fires_while_nothing_is_wrong(self):
        # On a machine that does other work a worker may well be behind for a while: that is pending, and no more.
        wrong = [alert for alert in self.alerts_of_quiet
                 if '"MusterStraggler", "alertstate": "pending"' not in alert]
        self.assertEqual(wrong, [])

    def test_a_kill_is_seen(self):
        for dashboard, series in (("cluster", "watched: recoveries"), ("job", "recoveries")):
            self.assertGreater(self.most(dashboard, "Recoveries and rewinds", series, "kill"), 0)
            self.assertEqual(self.most(dashboard, "Recoveries and rewinds", series, "quiet"), 0)
        self.assertGreater(self.most("job", "View and lineage", "view"), self.least("job", "View and lineage", "view"))
        self.assert_annotated("job", "recovery", "kill")

    def test_a_straggler_is_seen(self):
        for dashboard, series in (("cluster", "watched worker-2"), ("job", "worker-2")):
            behind = self.named(dashboard, "Workers that are behind", "straggler")
            self.assertGreater(max(behind[series]), 2)
            for name, values in behind.items():
                if name != series:
                    self.assertLess(max(values), max(behind[series]), name)
        self.assertGreater(self.most("job", "Slowest worker", "times", "straggler"), 2)
        self.assertGreater(self.most("member", "Times as long as others", "times", "straggler"), 2)
        self.assertIn("MusterStraggler", self.alerts("straggler"))
        self.assertGreater(max(value for labels, values in self.prometheus.over(
            "muster:member_slowness:ratio5m", *self.span("straggler")) for _, value in values
            if labels["member"] == "worker-2"), 1.5)
        waiting = self.named("job", "Waiting for others", "straggler")
        for other in OTHERS:
            self.assertGreater(max(waiting[other]), min(waiting["worker-2"]))
        self.assertGreater(self.most("member", "Seconds for a sample", "this worker", "straggler"),
                           2 * self.least("member", "Seconds for a sample", "fastest quarter of the job", "straggler"))

    def test_a_full_disk_of_checkpoints_is_seen(self):
        for dashboard in ("cluster", "coordinator"):
            self.assertLess(self.least(dashboard, "Free disk", "checkpoints", "checkpoints"), 0.01)
            self.assertGreater(self.least(dashboard, "Free disk", "checkpoints", "quiet"), 0.1)
        for dashboard in panels.NAMES:
            title = "Parts of checkpoints given up"
            self.assertGreater(self.most(dashboard, title, "not_written", "checkpoints"), 0)
            self.assertEqual(self.most(dashboard, title, "not_written", "quiet"), 0)
        self.assertIn("MusterDiskFull", self.alerts("checkpoints"))
        self.assertIn("MusterCheckpointsFail", self.alerts("checkpoints"))

    def test_a_full_disk_of_the_store_is_seen(self):
        self.assertEqual(self.least("coordinator", "Journal can be written", "writable", "journal"), 0)
        self.assertEqual(self.least("coordinator", "Journal can be written", "writable", "quiet"), 1)
        self.assertLess(self.least("cluster", "Free disk", "store", "journal"), 0.01)
        self.assertIn("MusterJournalNotWritten", self.alerts("journal"))

    def test_a_rewind_is_seen(self):
        for dashboard, series in (("cluster", "watched: rewinds"), ("job", "rewinds")):
            self.assertGreater(self.most(dashboard, "Recoveries and rewinds", series, "rewind"), 0)
        self.assertGreater(self.most("job", "View and lineage", "lineage", "rewind"),
                           self.most("job", "View and lineage", "lineage", "quiet"))
        self.assert_annotated("job", "rewind", "rewind")
        self.assert_annotated("cluster", "rewind", "rewind")
        self.assertIn("MusterRewind", self.alerts("rewind"))

    def test_a_coordinator_that_starts_again_is_seen(self):
        self.assertGreater(self.most("coordinator", "Term", "term", "coordinator"),
                           self.most("coordinator", "Term", "term", "quiet"))
        self.assert_annotated("coordinator", "coordinator started", "coordinator")

    def test_the_queue_is_seen(self):
        self.assertEqual(self.most("cluster", "Jobs that wait", "jobs"), 1)
        self.assertEqual(self.most("cluster", "Jobs by state", "queued"), 1)

    def alerts(self, what):
        return {labels["alertname"] for labels, _ in self.prometheus.over("ALERTS", *self.span(what))}

    def assert_annotated(self, dashboard, name, what):
        expression = self.dashboards[dashboard][2][name].expression
        self.assertTrue(self.prometheus.over(expression, *self.span(what)), name)

    @unittest.skipUnless("MUSTER_PICTURES" in os.environ, "MUSTER_PICTURES names no Python")
    def test_grafana_knows_each_field(self):
        subprocess.run([os.environ["MUSTER_PICTURES"], pathlib.Path(__file__).with_name("grafana_fields.py"),
                        *sorted(panels.FOLDER.glob("*.json"))], check=True)

    def test_they_can_be_drawn(self):
        folder = BUILD / "watch"
        folder.mkdir(exist_ok=True)
        for name, (title, shown, annotations) in self.dashboards.items():
            file = folder / f"{name}.json"
            file.write_text(json.dumps({
                "title": title, "begin": self.begin, "end": self.end,
                "annotations": {each: sorted({at for _, values in self.prometheus.over(its.expression, self.begin,
                                                                                       self.end) for at, _ in values})
                                for each, its in annotations.items()},
                "colours": {each: its.colour for each, its in annotations.items()},
                "panels": [{"panel": panel.document, "series": {
                    name: sorted(values.items()) for name, values in panel.named().items()}} for panel in shown]}))
            if "MUSTER_PICTURES" in os.environ:
                subprocess.run([os.environ["MUSTER_PICTURES"], pathlib.Path(__file__).with_name("picture.py"), file,
                                file.with_suffix(".png")], check=True)
                self.assertGreater(file.with_suffix(".png").stat().st_size, 10000)


if __name__ == "__main__":
    alone()
    unittest.main(verbosity=2)
