"""`muster run` in pods that somebody else has made, without any right in the cluster."""

import json
import os
import re
import signal
import tempfile

from cluster import ROOT, ClusterTest, main, muster

JOBS = ROOT / "deploy/k8s/jobs"


def settings(epochs):
    """2,000 steps an epoch, which take three pods on two cores a quarter of a minute."""
    return [word for setting in ("data.samples=192000", "batch=96", f"epochs={epochs}") for word in ("--set", setting)]


class Guest(ClusterTest):
    """The manifests as they are shipped, but for what a test asks of them."""

    # No node has room for all pods of a job.
    options = {"nodes": 3, "jobset": True, "resources": "cpu=2,memory=16Gi",
               "KUBE_CONTROLLER_MANAGER_FLAGS": "--node-monitor-grace-period=12s --node-monitor-period=1s"}

    digests = {}  # of undisturbed runs of one worker, by their epochs

    def digest(self, epochs):
        if epochs not in self.digests:
            with tempfile.TemporaryDirectory() as folder:
                self.digests[epochs] = muster("train", JOBS / "training/training.yaml", *settings(epochs),
                                              "--workers", 1, "--dir", f"{folder}/run", "--json")["digest"]
        return self.digests[epochs]

    def start(self, name, manifest="guest-job", arguments=(), epochs=4):
        """Pods of a namespace of their own train until the test ends. The folder is theirs."""
        namespace = self.namespace(name)
        folder = self.cluster.volume(namespace, "train")
        objects = self.cluster.objects(JOBS / manifest, namespace)
        for each in objects:
            if each["kind"] not in ("Job", "JobSet"):
                continue
            job = each if each["kind"] == "Job" else each["spec"]["replicatedJobs"][0]["template"]
            container = job["spec"]["template"]["spec"]["containers"][0]
            container["args"] += [*settings(epochs), *arguments]
        self.cluster.apply(objects, namespace)
        self.addCleanup(self.cluster.kubectl, "delete", "namespace", namespace, "--wait=false")
        return namespace, folder / "train"

    def pods(self, namespace):
        """By their index: those that are not ending."""
        pods = self.cluster.get("-n", namespace, "pods", "-l", "app.kubernetes.io/name=train")
        return {int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]): pod for pod in pods
                if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] in ("Pending", "Running")}

    def uids(self, namespace):
        return {index: pod["metadata"]["uid"] for index, pod in self.pods(namespace).items()}

    def steps(self, folder):
        history = next(iter(folder.glob("jobs/*/metrics.jsonl")), None)
        if history is None:
            return 0
        lines = history.read_text().splitlines()
        return json.loads(lines[-1])["step"] if lines else 0

    def await_steps(self, folder, steps):
        return self.until(f"step {steps}", lambda: self.steps(folder) >= steps)

    def await_new(self, namespace, index, before):
        return self.until(f"another pod {index}", lambda: self.uids(namespace).get(index, before) != before)

    def end(self, namespace, kind="job"):
        def look():
            status = self.cluster.get("-n", namespace, kind, "train").get("status", {})
            return [c for c in status.get("conditions", [])
                    if c["type"] in ("Complete", "Completed", "Failed") and c["status"] == "True"]
        return self.until("the end of the job", look)[0]

    def done(self, namespace, folder, kind="job", epochs=4):
        """It has ended as if nothing had happened to it, and what it says of itself."""
        end = self.end(namespace, kind)
        self.assertIn(end["type"], ("Complete", "Completed"), end)
        status = muster("status", "--dir", folder, "--json")
        self.assertEqual(status["digest"], self.digest(epochs))
        self.assertTrue(muster("audit", "--dir", folder, "--json")["ok"])
        return status

    def test_trains(self):
        namespace, folder = self.start("trains")
        status = self.done(namespace, folder)
        self.assertEqual((status["recoveries"], status["rewinds"]), (0, 0))

    def test_first_pod_is_deleted_and_the_others_train_on(self):
        namespace, folder = self.start("first-deleted")
        self.await_steps(folder, 100)
        before = self.uids(namespace)
        self.cluster.kubectl("delete", "pod", "-n", namespace, self.pods(namespace)[0]["metadata"]["name"])
        self.await_new(namespace, 0, before[0])
        after = self.uids(namespace)
        self.assertEqual({i: after[i] for i in (1, 2)}, {i: before[i] for i in (1, 2)})
        status = self.done(namespace, folder)
        self.assertEqual((status["rewinds"], status["lanes_recomputed"]), (0, 0))

    def test_first_pod_is_killed(self):
        namespace, folder = self.start("first-killed")
        self.await_steps(folder, 100)
        before = self.uids(namespace)
        self.cluster.kill_container(self.pods(namespace)[0]["metadata"]["uid"])
        self.await_new(namespace, 0, before[0])
        self.assertEqual(self.done(namespace, folder)["rewinds"], 0)

    def test_another_pod_is_evicted(self):
        namespace, folder = self.start("evicted")
        self.await_steps(folder, 100)
        before = self.uids(namespace)
        pod = self.pods(namespace)[1]["metadata"]["name"]
        self.cluster.kubectl("create", "--raw", f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", "-f", "-",
                             text=json.dumps({"apiVersion": "policy/v1", "kind": "Eviction",
                                              "metadata": {"name": pod, "namespace": namespace}}))
        self.await_new(namespace, 1, before[1])
        status = self.done(namespace, folder)
        self.assertEqual((status["rewinds"], status["lanes_recomputed"]), (0, 0))
        self.assertNotIn("failed", self.cluster.get("-n", namespace, "job", "train")["status"])

    def test_a_person_stops_it_and_no_pod_returns(self):
        namespace, folder = self.start("stopped")
        self.await_steps(folder, 100)
        first = self.pods(namespace)[0]["metadata"]["name"]
        self.cluster.kubectl("exec", "-n", namespace, first, "--", "/opt/muster/bin/muster", "stop", "--dir",
                             "/data/train")
        end = self.end(namespace)
        self.assertEqual((end["type"], end["reason"]), ("Failed", "PodFailurePolicy"), end)
        self.assertIn("exit code 67", end["message"])
        self.assertEqual(muster("status", "--dir", folder, "--json")["state"], "stopped")

    def test_bad_configuration_is_said_once(self):
        namespace, _ = self.start("bad", arguments=["--set", "lanes=0"])
        end = self.end(namespace)
        self.assertIn("exit code 64", end["message"])


    def test_a_suspended_job_goes_on(self):
        namespace, folder = self.start("suspended")
        self.await_steps(folder, 100)
        self.suspend(namespace, True)
        self.until("the end of all pods", lambda: not self.cluster.get("-n", namespace, "pods"))
        self.assertEqual(json.loads((folder / "run.json").read_text())["exit_code"], 75)
        before = muster("status", "--dir", folder, "--json")
        self.assertIn(before["checkpoint_step"], (before["step"] - 1, before["step"]), "nothing is to be done again")
        self.suspend(namespace, False)
        self.assertEqual(self.done(namespace, folder)["lanes_recomputed"], 0)

    def suspend(self, namespace, suspended):
        self.cluster.kubectl("patch", "-n", namespace, "job", "train", "-p", json.dumps({"spec": {"suspend": suspended}}))

    def test_its_number_of_pods_changes(self):
        namespace, folder = self.start("elastic", manifest="guest-elastic", epochs=16)
        self.await_steps(folder, 100)
        self.scale(namespace, 3)
        self.await_word(namespace, r"view \d+ of \S+, \S+, \S+ goes on")
        self.scale(namespace, 2)
        self.await_word(namespace, r"view [2-9] of \S+, \S+ goes on")
        self.until("the end of the third", lambda: sorted(self.pods(namespace)) == [0, 1])
        status = self.done(namespace, folder, epochs=16)
        self.assertEqual((status["recoveries"], status["rewinds"], status["lanes_recomputed"]), (0, 0, 0))

    def scale(self, namespace, pods):
        self.cluster.kubectl("patch", "-n", namespace, "job", "train", "--type=merge",
                             "-p", json.dumps({"spec": {"completions": pods, "parallelism": pods}}))

    def await_word(self, namespace, words):
        """The first pod says so."""
        first = self.pods(namespace)[0]["metadata"]["name"]
        self.until(words, lambda: re.search(words, self.cluster.kubectl("logs", "-n", namespace, first)))

    def test_a_server_in_a_pod_is_lost(self):
        """The one of guest-servers: workers wait for another, and it goes on with what a replica or a checkpoint has."""
        namespace, folder = self.start("servers", manifest="guest-servers")
        self.await_steps(folder, 100)
        first = self.pods(namespace)[0]["metadata"]["name"]
        hosts = self.cluster.kubectl("exec", "-n", namespace, first, "--", "/opt/muster/bin/muster", "status", "--dir",
                                     "/data/train", "--json")
        self.assertEqual(json.loads(hosts)["spec"]["servers"], 1)
        before = self.uids(namespace)
        self.cluster.kill_container(before[2])
        self.await_new(namespace, 2, before[2])
        self.done(namespace, folder)

    def test_a_node_is_lost(self):
        namespace, folder = self.start("node-lost", epochs=16)
        self.await_steps(folder, 100)
        pods = self.pods(namespace)
        index = max(i for i in pods if pods[i]["spec"]["nodeName"] != pods[0]["spec"]["nodeName"])
        node = pods[index]["spec"]["nodeName"]
        os.kill(self.cluster.process(f"kubelet-{node}"), signal.SIGKILL)
        # Its pod ends as soon as nobody waits for the node any more, and is replaced only once that is certain.
        self.until("the end of its pod", lambda: index not in self.pods(namespace))
        reached = self.steps(folder)
        self.await_steps(folder, reached + 100)
        self.assertNotIn(index, self.pods(namespace), "nobody is sure yet that the pod has ended")
        self.cluster.kubectl("delete", "node", node)
        self.until("another pod in its place", lambda: index in self.pods(namespace))
        self.assertEqual(self.done(namespace, folder, epochs=16)["rewinds"], 0)

    def test_a_jobset_trains_on(self):
        namespace, folder = self.start("jobset", manifest="guest-jobset")
        self.await_steps(folder, 100)
        before = self.uids(namespace)
        self.cluster.kubectl("delete", "pod", "-n", namespace, self.pods(namespace)[0]["metadata"]["name"])
        self.await_new(namespace, 0, before[0])
        self.assertEqual(self.done(namespace, folder, "jobset")["rewinds"], 0)
        self.assertEqual(self.cluster.get("-n", namespace, "jobset", "train")["status"].get("restarts", 0), 0)


if __name__ == "__main__":
    main()
