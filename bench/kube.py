#!/usr/bin/env python3
"""How long a job takes to begin on a real Kubernetes API, and to go on after a pod was killed.

usage: ./dev bench kube [--rounds N] [--json FILE]     after ./dev setup kube; as root

The cluster is that of tests/kube: its pods are processes of this machine, so images are there and nodes have room. What
is measured is from the POST of a job of three workers until its first step is recorded, and from SIGKILL to the first
process of a pod until the next step is.
"""

import argparse
import os
import pathlib
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ.setdefault("MUSTER_BUILD", str(ROOT / "build/release"))
sys.path.insert(0, str(ROOT / "tests/kube"))

from cluster import alone  # noqa: E402
from host_cluster import FIXED, HostTest, counting  # noqa: E402
from report import Report  # noqa: E402

PAUSE = threading.Event()  # that nobody sets


class Rounds(HostTest):
    """No test: it only asks."""

    def runTest(self):
        pass

    def until_now(self, is_so):
        while not is_so():
            PAUSE.wait(0.01)

    def round(self, number):
        job = f"round-{number}"
        began = time.monotonic()
        self.submit(job, counting(FIXED))
        self.until_now(lambda: self.job(job).get("step", 0) >= 1)
        first = time.monotonic() - began
        self.until_step(job, 300)
        pods = sorted(pod["metadata"]["uid"] for pod in self.pods(job))
        view = self.job(job)["view"]
        killed = time.monotonic()
        self.cluster.kill_container(pods[1])
        self.until_now(lambda: self.job(job)["view"] > view)
        step = self.job(job)["step"]
        self.until_now(lambda: self.job(job)["step"] > step)
        again = time.monotonic() - killed
        self.ask("POST", f"/v1/jobs/{job}:cancel")
        self.until("the end of its pods", lambda: not self.pods(job))
        return first, again


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", help="a file for the record")
    options = parser.parse_args()
    alone()
    Rounds.setUpClass()
    try:
        found = [Rounds().round(number) for number in range(options.rounds)]
    finally:
        Rounds.doClassCleanups()
    report = Report(options.rounds)
    report.add("POST of a job until its first step is recorded", "s", [first for first, _ in found])
    report.add("a pod is killed until the next step is recorded", "s", [again for _, again in found])
    report.write(options.json)


if __name__ == "__main__":
    main()
