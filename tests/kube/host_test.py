"""The coordinator in a pod makes pods for jobs: what deploy/k8s/overlays/dev applies, typed as it stands there."""

import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request

from cluster import BUILD, ROOT, ClusterTest, main

MANIFESTS = ROOT / "deploy/k8s"
FIXED = {"min": 3, "max": 3}
SYSTEM, JOBS = "muster-system", "muster-jobs"


def counting(workers, epochs=4, **more):
    """2,000 steps an epoch."""
    return {"task": "counting", "reduction": "sum", "data": {"samples": 192000}, "lanes": 6, "batch": 96,
            "epochs": epochs, "optimizer": {"kind": "sgd", "learning_rate": 1}, "workers": workers,
            "checkpoint": {"every_steps": 200}, **more}


class Host(ClusterTest):
    options = {"nodes": 3, "jobset": True, "KUBE_APISERVER_FLAGS": "--audit-policy-file=%(state)s/audit.yaml "
               "--audit-log-path=%(state)s/audit.log"}
    digests = {}  # of undisturbed runs of one worker, by their epochs

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # A folder for all nodes, in the place that the overlay names.
        cls.checkpoints = cls.cluster.folder / "checkpoints"
        cls.checkpoints.mkdir()
        os.chown(cls.checkpoints, 65532, 65532)
        cls.manifests = cls.cluster.folder / "k8s"
        shutil.copytree(MANIFESTS, cls.manifests)
        overlay = cls.manifests / "overlays/dev"
        (overlay / "join.secret").write_text(f"muster-join-{secrets.token_hex(16)}\n")
        volumes = overlay / "checkpoints.yaml"
        volumes.write_text(volumes.read_text().replace("/var/lib/muster/checkpoints", str(cls.checkpoints)))
        cls.cluster.folder.chmod(0o755)
        cls.store = cls.cluster.volume(SYSTEM, "store-muster-0")
        cls.cluster.kubectl("apply", "-k", overlay)
        try:
            cls.cluster.kubectl("rollout", "status", "-n", SYSTEM, "statefulset/muster", "--timeout=20s")
        except AssertionError:
            cls.cluster.show(SYSTEM)
            raise
        cls.known_at = cls.address()
        cls.token = json.loads(cls.muster("token", "make", "tester", "--role", "admin", "--namespace", "*",
                                          "--json"))["token"]
        authority = cls.store / "muster/identity/current/authority.pem"
        cls.trust = ssl.create_default_context(cafile=str(authority))
        cls.trust.check_hostname = False  # the name of its service means nothing on this machine

    def setUp(self):
        self.namespaces = [SYSTEM, JOBS]

    @classmethod
    def muster(cls, *words):
        """In the coordinator's pod, which shows the token of the first admin."""
        to = f"https://{cls.address()}:8080"
        return cls.cluster.kubectl("exec", "-n", SYSTEM, "muster-0", "--", "/opt/muster/bin/muster", *words, "--to", to)

    @classmethod
    def address(cls):
        return cls.cluster.get("-n", SYSTEM, "pod", "muster-0")["status"].get("podIP", "127.0.0.1")

    def ask(self, method, path, body=None):
        """A request of REST: its status and what it answers."""
        request = urllib.request.Request(f"https://{self.known_at}:8080{path}", method=method,
                                         headers={"Authorization": f"Bearer {self.token}"},
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, context=self.trust, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")
        except OSError:  # it is away, or elsewhere
            type(self).known_at = self.address()
            return 0, {}

    def submit(self, job, spec, **queue):
        status, answer = self.ask("POST", "/v1/jobs", {"id": job, "spec": {**spec, **queue}})
        self.assertEqual(status, 201, answer)
        self.addCleanup(self.ask, "POST", f"/v1/jobs/{job}:cancel")

    def job(self, job):
        return self.ask("GET", f"/v1/jobs/{job}")[1]

    def fail(self, message=None):
        print("jobs:", json.dumps(self.ask("GET", "/v1/jobs")[1].get("jobs"), indent=1)[:6000])
        super().fail(message)

    def until_state(self, job, *states, seconds=120):
        return self.until(f"{job} to be {' or '.join(states)}",
                          lambda: (lambda j: j if j.get("state") in states else None)(self.job(job)), seconds)

    def until_step(self, job, step):
        return self.until(f"step {step} of {job}", lambda: self.job(job).get("step", 0) >= step, 40)

    def objects(self, kind, job):
        return [each for each in self.cluster.get("-n", JOBS, kind)
                if each["metadata"].get("annotations", {}).get("muster.dev/job") == job]

    def pods(self, job):
        return [pod for pod in self.objects("pods", job) if "deletionTimestamp" not in pod["metadata"]]

    def digest(self, epochs):
        if epochs not in self.digests:
            with tempfile.TemporaryDirectory() as folder:
                spec = json.dumps(counting(1, epochs))
                with open(f"{folder}/spec.yaml", "w") as file:
                    file.write(spec)
                done = subprocess.run([BUILD / "bin/muster", "train", f"{folder}/spec.yaml", "--dir", f"{folder}/run",
                                       "--json"], check=True, text=True, stdout=subprocess.PIPE)
                self.digests[epochs] = json.loads(done.stdout.splitlines()[-1])["digest"]
        return self.digests[epochs]

    def assert_done(self, job, epochs=4):
        done = self.until_state(job, "done", "failed", "stopped")
        self.assertEqual((done["state"], done["digest"]), ("done", self.digest(epochs)), done["reason"])
        self.assertTrue(self.ask("GET", f"/v1/jobs/{job}/audit")[1]["ok"])
        self.until("the end of its pods", lambda: not self.pods(job) and not self.objects("jobsets", job)
                   and not self.objects("jobs", job))
        return done

    def uid(self, kind, job):
        """Of its one object of that kind."""
        found = self.objects(kind, job)
        self.assertEqual(len(found), 1, [each["metadata"]["name"] for each in found])
        return found[0]["metadata"]["uid"]

    def test_a_fixed_job_is_one_jobset(self):
        self.submit("fixed", counting(FIXED, namespace="vision", labels={"team": "see"}))
        self.until_step("fixed", 10)
        self.uid("jobsets", "fixed")
        self.assertEqual(self.objects("jobsets", "fixed")[0]["metadata"]["labels"]["team"], "see")
        self.assertEqual(len(self.pods("fixed")), 3)
        done = self.assert_done("fixed")
        self.assertEqual((done["recoveries"], done["rewinds"]), (0, 0))

    def test_an_elastic_job_is_one_indexed_job_and_is_scaled(self):
        self.submit("elastic", counting({"min": 1, "max": 2}, epochs=8))
        self.until_step("elastic", 10)
        before = self.uid("jobs", "elastic")
        self.assertEqual(self.objects("jobsets", "elastic"), [])
        self.assertEqual(self.ask("POST", "/v1/jobs/elastic:scale", {"workers": {"min": 1, "max": 3}})[0], 200)
        self.until("three workers", lambda: self.job("elastic")["workers"] == 3, 60)
        self.assertEqual(self.ask("POST", "/v1/jobs/elastic:scale", {"workers": {"min": 1, "max": 1}})[0], 200)
        self.until("one worker", lambda: self.job("elastic")["workers"] == 1, 60)
        self.until("one pod", lambda: len(self.pods("elastic")) == 1, 60)
        self.assertEqual(self.uid("jobs", "elastic"), before)
        done = self.assert_done("elastic", epochs=8)
        self.assertEqual((done["rewinds"], done["lanes_recomputed"]), (0, 0))

    def test_servers(self):
        self.submit("servers", counting({"min": 2, "max": 2}, sync="server", servers=1))
        self.assert_done("servers")

    def test_a_pod_is_killed(self):
        self.submit("killed", counting(FIXED))
        self.until_step("killed", 50)
        pods = {pod["metadata"]["uid"] for pod in self.pods("killed")}
        self.cluster.kill_container(sorted(pods)[1])
        self.until("another pod in its place", lambda: len(
            {pod["metadata"]["uid"] for pod in self.pods("killed")} - pods) == 1, 60)
        self.assertEqual(self.assert_done("killed")["rewinds"], 0)

    def test_the_coordinators_pod_is_deleted(self):
        self.submit("adopted", counting(FIXED))
        self.until_step("adopted", 50)
        before = self.uid("jobsets", "adopted")
        pods = {pod["metadata"]["uid"] for pod in self.pods("adopted")}
        old = self.cluster.get("-n", SYSTEM, "pod", "muster-0")["metadata"]["uid"]
        self.cluster.kubectl("delete", "pod", "-n", SYSTEM, "muster-0")
        self.until("another coordinator", lambda: any(
            pod["metadata"]["uid"] != old and pod["status"].get("podIP")
            for pod in self.cluster.get("-n", SYSTEM, "pods")), 60)
        self.until("its answer", lambda: self.job("adopted").get("state"), 60)
        self.assertEqual(self.uid("jobsets", "adopted"), before)
        self.assertEqual({pod["metadata"]["uid"] for pod in self.pods("adopted")}, pods)
        done = self.assert_done("adopted")
        self.assertEqual((done["rewinds"], done["lanes_recomputed"]), (0, 0))

    def test_it_is_stopped_and_resumed_with_other_pods(self):
        self.submit("stopped", counting(FIXED))
        self.until_step("stopped", 50)
        before = self.uid("jobsets", "stopped")
        self.ask("POST", "/v1/jobs/stopped:stop")
        self.until_state("stopped", "stopped")
        self.until("the end of its pods", lambda: not self.pods("stopped"), 60)
        self.assertEqual(self.ask("POST", "/v1/jobs", {"id": "stopped", "spec": counting(FIXED)})[0], 200)
        self.until_state("stopped", "running")
        self.assertNotEqual(self.uid("jobsets", "stopped"), before)
        self.assert_done("stopped")

    def test_its_jobset_is_deleted_behind_our_back(self):
        self.submit("gone", counting(FIXED))
        self.until_step("gone", 250)
        before = self.uid("jobsets", "gone")
        self.cluster.kubectl("delete", "jobset", "-n", JOBS, self.objects("jobsets", "gone")[0]["metadata"]["name"])
        self.until("another one", lambda: [each for each in self.objects("jobsets", "gone")
                                           if each["metadata"]["uid"] != before], 60)
        self.assert_done("gone")

    def test_what_it_waits_for_is_said(self):
        self.submit("devices", counting(FIXED, devices=1))
        self.until("the reason", lambda: "Insufficient nvidia.com/gpu" in self.job("devices")["waits_for"], 30)
        self.assertEqual(self.job("devices")["state"], "queued")
        self.ask("POST", "/v1/jobs/devices:cancel")
        self.until("the end of its pods", lambda: not self.objects("jobsets", "devices"), 30)

    def test_the_api_is_away_for_a_while(self):
        self.submit("deaf", counting(FIXED, epochs=8))
        self.until_step("deaf", 50)
        api = self.cluster.process("kube-apiserver")
        os.kill(api, signal.SIGSTOP)
        try:
            reached = self.job("deaf")["step"]
            self.until_step("deaf", reached + 1000)
        finally:
            os.kill(api, signal.SIGCONT)
        self.assertEqual(self.assert_done("deaf", epochs=8)["recoveries"], 0)

    def test_zz_all_rights_that_are_granted_are_used(self):
        """The last one by its name: the log has what the others have used."""
        used = set()
        for line in (self.cluster.folder / "audit.log").read_text().splitlines():
            call = json.loads(line)
            what = call.get("objectRef", {})
            allowed = call["annotations"].get("authorization.k8s.io/decision") == "allow"
            if allowed and what.get("namespace") == JOBS:
                used.add((what.get("apiGroup", ""), what["resource"], call["verb"]))
        granted = {(group, resource, verb)
                   for rule in self.cluster.get("-n", JOBS, "role", "muster-coordinator")["rules"]
                   for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]}
        # What an apply makes is asked of both verbs, and told of one.
        made = {(group, resource, "create") for group, resource, verb in used if verb == "patch"}
        self.assertEqual(granted - used - made, set())


if __name__ == "__main__":
    main()
