"""What goes wrong on Kubernetes while jobs run in host mode: each job ends as it should, and says meanwhile why not."""

import json
import os
import signal
import subprocess
import time

from cluster import BUILD, main
from host_cluster import FIXED, JOBS, SYSTEM, HostTest, counting

LAUNCH = "muster-launch"  # the ConfigMap with the template of pods; Kustomize puts a hash behind it


class Faults(HostTest):
    options = {**HostTest.options, "KUBE_CONTROLLER_MANAGER_FLAGS":
               "--node-monitor-grace-period=12s --node-monitor-period=1s"}

    def put_back(self):
        """What a test has taken away: from the manifests, as people would."""
        self.cluster.kubectl("apply", "-k", self.manifests / "overlays/dev")

    def template(self, change):
        """Another template of pods, which the coordinator reads when it starts."""
        kept = next(each for each in self.cluster.get("-n", SYSTEM, "configmaps")
                    if each["metadata"]["name"].startswith(LAUNCH))
        changed = json.loads(json.dumps(kept))
        changed["data"] = {name: change(text) for name, text in kept["data"].items()}
        self.assertNotEqual(changed["data"], kept["data"])
        self.replace_template(changed)
        self.addCleanup(self.replace_template, kept)

    def replace_template(self, config):
        for known in ("resourceVersion", "uid", "creationTimestamp", "managedFields"):
            config["metadata"].pop(known, None)
        self.cluster.kubectl("replace", "-f", "-", text=json.dumps(config))
        self.restart_coordinator()

    def token_of_the_pod(self):
        """That of the coordinator's pod."""
        pod = self.cluster.get("-n", SYSTEM, "pod", "muster-0")["metadata"]["uid"]
        return next(self.cluster.state.glob(f"**/pods/{pod}/volumes/kubernetes.io~projected/*/token")).read_text()

    def test_its_token_is_of_no_use_any_more(self):
        """As when it has expired: the account is made anew, so that the API takes no token of the one before."""
        self.submit("token", counting(FIXED, epochs=8))
        self.until_step("token", 50)
        self.uid("jobsets", "token")
        self.cluster.kubectl("delete", "serviceaccount", "-n", SYSTEM, "muster-coordinator")
        self.put_back()
        # The API knows a token for some seconds longer.
        server = self.cluster.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
        old = self.token_of_the_pod()
        self.until("the end of the old token", lambda: "Unauthorized" in self.cluster.kubectl(
            "--kubeconfig=/dev/null", "--server", server, "--insecure-skip-tls-verify", "--token", old, "get", "pods",
            "-n", JOBS, check=False))
        self.submit("after", counting(FIXED))
        self.until_waits("after", "401")
        self.assertEqual(self.job("token")["state"], "running")
        # As a kubelet rotates it: the coordinator goes on with what it finds there. It is laid over the file, since the
        # kubelet puts back what it has brought itself.
        fresh = self.store / "fresh.token"
        fresh.write_text(self.cluster.kubectl("create", "token", "-n", SYSTEM, "muster-coordinator"))
        container = self.cluster.container(self.cluster.get("-n", SYSTEM, "pod", "muster-0")["metadata"]["uid"])
        subprocess.run(["nsenter", "--mount", "--target", str(container), "mount", "--bind", "/store/fresh.token",
                        "/var/run/secrets/kubernetes.io/serviceaccount/token"], check=True)
        self.assertEqual(self.assert_done("token", epochs=8)["recoveries"], 0)
        self.assert_done("after")

    def test_a_right_is_missing_for_a_while(self):
        self.cluster.kubectl("delete", "rolebinding", "-n", JOBS, "muster-coordinator")
        self.submit("forbidden", counting(FIXED))
        self.until_waits("forbidden", "forbidden: User")
        trouble = lambda: self.ask("GET", "/v1/hosts")[1].get("launch_trouble", "nobody answers") or ""
        self.until("the right that is missing", lambda: "may not" in trouble() or "forbidden" in trouble(), 30)
        self.put_back()
        self.until("the end of the trouble", lambda: trouble() == "", 60)
        self.assert_done("forbidden")

    def test_the_api_is_away_for_a_minute(self):
        self.submit("deaf", counting(FIXED, epochs=16))
        self.until_step("deaf", 50)
        api = self.cluster.process("kube-apiserver")
        os.kill(api, signal.SIGSTOP)
        try:
            begun, step = time.monotonic(), self.job("deaf")["step"]
            self.submit("meanwhile", counting(FIXED))
            self.until_waits("meanwhile", "the Kubernetes API")
            self.until("a minute", lambda: time.monotonic() - begun > 60, 70)
            self.assertGreater(self.job("deaf")["step"], step, "its steps go on")
        finally:
            os.kill(api, signal.SIGCONT)
        done = self.assert_done("deaf", epochs=16)
        self.assertEqual((done["recoveries"], done["rewinds"]), (0, 0))
        self.assert_done("meanwhile")

    def test_two_pods_of_one_index(self):
        """Rare, and possible, says Kubernetes: whoever has the place keeps it as long as it lives."""
        self.submit("twice", counting(FIXED, epochs=8))
        self.until_step("twice", 50)
        twin = next(pod for pod in self.pods("twice")
                    if pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "1")
        name = twin["metadata"]["name"] + "-twin"
        twin["metadata"] = {"name": name, "namespace": JOBS, "annotations": twin["metadata"]["annotations"],
                            "labels": {key: value for key, value in twin["metadata"]["labels"].items()
                                       if key.startswith(("app.", "muster.dev"))}}
        twin.pop("status")
        twin["spec"].pop("nodeName", None)
        self.cluster.kubectl("create", "-f", "-", text=json.dumps(twin))
        self.addCleanup(self.cluster.kubectl, "delete", "pod", "-n", JOBS, name, "--ignore-not-found", "--wait=false")
        self.until("the second one to run", lambda: self.cluster.get("-n", JOBS, "pod", name)["status"]["phase"] !=
                   "Pending", 60)
        self.until("its refusal", lambda: "is bound to another key" in self.cluster.kubectl("logs", "-n", JOBS, name))
        done = self.until_state("twice", "done", "failed", "stopped")
        self.assertEqual((done["state"], done["digest"]), ("done", self.digest(8)), done["reason"])
        self.assertEqual((done["recoveries"], done["rewinds"]), (0, 0))
        self.assertTrue(self.ask("GET", "/v1/jobs/twice/audit")[1]["ok"])

    def test_a_pod_is_evicted(self):
        self.submit("evicted", counting(FIXED))
        self.until_step("evicted", 50)
        self.uid("jobsets", "evicted")
        pod = self.pods("evicted")[1]["metadata"]
        self.cluster.kubectl("create", "--raw", f"/api/v1/namespaces/{JOBS}/pods/{pod['name']}/eviction", "-f", "-",
                             text=json.dumps({"apiVersion": "policy/v1", "kind": "Eviction",
                                              "metadata": {"name": pod["name"], "namespace": JOBS}}))
        self.until("another pod in its place", lambda: len(
            [each for each in self.pods("evicted") if each["metadata"]["uid"] != pod["uid"]]) == 3)
        done = self.assert_done("evicted")
        self.assertEqual((done["rewinds"], done["lanes_recomputed"]), (0, 0))

    def test_zz_a_node_is_lost(self):
        """The last one by its name, as it does not come back. Its pod is replaced once that is certain."""
        self.submit("node", counting({"min": 2, "max": 3}, epochs=16))
        # Whoever is alone holds the only copy of the parameters.
        self.until("all workers", lambda: self.job("node")["workers"] == 3)
        self.uid("jobs", "node")
        system = self.cluster.get("-n", SYSTEM, "pod", "muster-0")["spec"]["nodeName"]
        on = {pod["spec"]["nodeName"]: pod for pod in self.pods("node") if pod["spec"]["nodeName"] != system}
        self.assertTrue(on, "each pod of the job is on the coordinator's node")
        node, pod = sorted(on.items())[0]
        before = pod["metadata"]["uid"]
        os.kill(self.cluster.process(f"kubelet-{node}"), signal.SIGKILL)
        self.until("a view without it", lambda: self.job("node")["recoveries"] > 0)
        self.until_step("node", self.job("node")["step"] + 100)
        self.cluster.kubectl("delete", "node", node)
        self.until("another pod in its place", lambda: len(
            [each for each in self.pods("node") if each["metadata"]["uid"] != before]) == 3)
        self.assertEqual(self.assert_done("node", epochs=16)["rewinds"], 0)

    def test_an_image_cannot_be_had(self):
        image = BUILD / "kube-images/localhost/muster"
        hidden = image.with_name("hidden")
        image.rename(hidden)
        try:
            self.submit("image", counting(FIXED))
            self.until_waits("image", "ErrImagePull")
            self.assertEqual(self.job("image")["state"], "queued")
        finally:
            hidden.rename(image)
        self.assert_done("image")

    def test_a_quota_of_the_namespace(self):
        self.cluster.kubectl("create", "quota", "-n", JOBS, "small", "--hard=pods=2")
        self.addCleanup(self.cluster.kubectl, "delete", "quota", "-n", JOBS, "small", "--ignore-not-found")
        self.submit("quota", counting(FIXED))
        self.until_waits("quota", "a quota of its namespace, or its pod security")
        self.assertEqual(self.job("quota")["state"], "queued")
        self.cluster.kubectl("delete", "quota", "-n", JOBS, "small")
        self.assert_done("quota")

    def test_pods_that_the_namespace_forbids(self):
        self.template(lambda text: text.replace("allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"))
        self.submit("forbids", counting(FIXED))
        self.until_waits("forbids", "a quota of its namespace, or its pod security")
        self.ask("POST", "/v1/jobs/forbids:cancel")
        self.until("the end of its object", lambda: not self.objects("jobsets", "forbids"), 30)

    def test_a_template_that_kubernetes_refuses(self):
        """400: it cannot be read. 422: it can, and says what may not be. Either is said before the first job."""
        elastic = {"min": 1, "max": 3}
        for job, workers, right, wrong, status, why in (
                ("unread", FIXED, "memory: 2Gi", "memory: plenty", 400, "quantities must match"),
                ("refused", elastic, "runAsUser: 65532", "runAsUser: -1", 422, "must be between 0 and")):
            self.template(lambda text: text.replace(right, wrong))
            self.until("what keeps it from making pods", lambda: why in (
                self.ask("GET", "/v1/hosts")[1].get("launch_trouble") or ""))
            self.submit(job, counting(workers))
            failed = self.until_state(job, "failed", "done")
            self.assertEqual((failed["state"], failed["exit_code"]), ("failed", 64), failed["reason"])
            self.assertIn(why, failed["reason"])
            self.assertIn(f"answers {status}", failed["reason"])
            self.doCleanups()

    def test_the_namespace_is_deleted(self):
        """With all that is in it. It comes again from the manifests, and the job goes on from its checkpoint."""
        self.submit("terminating", counting(FIXED, epochs=8))
        self.until_step("terminating", 450)
        self.cluster.kubectl("delete", "namespace", JOBS, "--wait=false")
        self.until_waits("terminating", "none in their place")
        # The pods keep each other there until the coordinator ends what they are of.
        self.cluster.kubectl("wait", "--for=delete", f"namespace/{JOBS}", "--timeout=110s")
        self.cluster.kubectl("delete", "pv", "muster-checkpoints-jobs", "--ignore-not-found")
        self.put_back()
        self.assert_done("terminating", epochs=8)


if __name__ == "__main__":
    main()
