"""A cluster with a coordinator in a pod, as deploy/k8s applies it, and what people ask it for by REST."""

import json
import os
import secrets
import shutil
import ssl
import tempfile
import urllib.error
import urllib.request

from cluster import ROOT, ClusterTest, muster

MANIFESTS = ROOT / "deploy/k8s"
FIXED = {"min": 3, "max": 3}
SYSTEM, JOBS = "muster-system", "muster-jobs"


def counting(workers, epochs=4, **more):
    """2,000 steps an epoch."""
    return {"task": "counting", "reduction": "sum", "data": {"samples": 192000}, "lanes": 6, "batch": 96,
            "epochs": epochs, "optimizer": {"kind": "sgd", "learning_rate": 1}, "workers": workers,
            "checkpoint": {"every_steps": 200}, **more}


class HostTest(ClusterTest):
    """A subclass may add components to the overlay dev."""

    components = ()
    jobs = JOBS  # the namespace of their pods
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
        kustomization = overlay / "kustomization.yaml"
        kustomization.write_text(kustomization.read_text() + "components: " +
                                 json.dumps([f"../../components/{name}" for name in cls.components]) + "\n")
        cls.cluster.kubectl("apply", "-f", cls.manifests / "base/namespaces.yaml")
        cls.before_it_starts()
        cls.cluster.kubectl("apply", "-k", overlay)
        try:
            cls.cluster.kubectl("rollout", "status", "-n", SYSTEM, "statefulset/muster", "--timeout=20s")
        except AssertionError:
            cls.cluster.show(SYSTEM)
            raise
        cls.known_at = cls.address()
        cls.token = json.loads(cls.muster("token", "make", "tester", "--role", "admin", "--namespace", "*",
                                          "--json"))["token"]
        cls.trust = ssl.create_default_context(cafile=str(cls.authority()))
        cls.trust.check_hostname = False  # the name of its service means nothing on this machine

    @classmethod
    def before_it_starts(cls):
        """What people make before they apply the manifests."""

    @classmethod
    def authority(cls):
        """Whom to trust: of the cluster's own making."""
        return cls.store / "muster/identity/current/authority.pem"

    def setUp(self):
        self.namespaces = [SYSTEM, self.jobs]

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

    def restart_coordinator(self):
        """By another pod in the place of its own."""
        old = self.cluster.get("-n", SYSTEM, "pod", "muster-0")["metadata"]["uid"]
        self.cluster.kubectl("delete", "pod", "-n", SYSTEM, "muster-0")
        self.until("another coordinator", lambda: any(
            pod["metadata"]["uid"] != old and pod["status"].get("podIP")
            for pod in self.cluster.get("-n", SYSTEM, "pods")), 60)
        self.until("its answer", lambda: self.ask("GET", "/v1/jobs")[0] == 200, 60)

    def submit(self, job, spec, **queue):
        status, answer = self.ask("POST", "/v1/jobs", {"id": job, "spec": {**spec, **queue}})
        self.assertEqual(status, 201, answer)
        self.addCleanup(self.ask, "POST", f"/v1/jobs/{job}:cancel")

    def job(self, job):
        return self.ask("GET", f"/v1/jobs/{job}")[1]

    def fail(self, message=None):
        print("jobs:", json.dumps(self.ask("GET", "/v1/jobs")[1].get("jobs"), indent=1)[:6000])
        super().fail(message)

    def until_state(self, job, *states):
        """As long as its steps go on: how fast they do is the machine's affair."""
        while True:
            step = self.job(job).get("step")
            known = self.until(f"{job} to be {' or '.join(states)}", lambda: (
                lambda j: j if j.get("state") in states or j.get("step") != step else None)(self.job(job)))
            if known.get("state") in states:
                return known

    def until_step(self, job, step):
        return self.until(f"step {step} of {job}", lambda: self.job(job).get("step", 0) >= step, 40)

    def until_waits(self, job, words, seconds=60):
        """All that it says it waits for, once these words are among it."""
        return self.until(f"{job} to wait for: {words}", lambda: (
            lambda text: text if words in text else "")(self.job(job).get("waits_for", "")), seconds)

    def objects(self, kind, job):
        return [each for each in self.cluster.get("-n", self.jobs, kind)
                if each["metadata"].get("annotations", {}).get("muster.dev/job") == job]

    def pods(self, job):
        return [pod for pod in self.objects("pods", job) if "deletionTimestamp" not in pod["metadata"]]

    def coordinator(self):
        """Its pod."""
        return self.cluster.get("-n", SYSTEM, "pod", "muster-0")

    def metrics(self, pod):
        """What a PodMonitor reads of it: at the port that the pod calls metrics."""
        port = next(each["containerPort"] for container in pod["spec"]["containers"]
                    for each in container.get("ports", []) if each["name"] == "metrics")
        with urllib.request.urlopen(f"http://{pod['status']['podIP']}:{port}/metrics", timeout=30) as answer:
            return answer.read().decode()

    def digest(self, epochs):
        if epochs not in self.digests:
            with tempfile.TemporaryDirectory() as folder:
                spec = json.dumps(counting(1, epochs))
                with open(f"{folder}/spec.yaml", "w") as file:
                    file.write(spec)
                self.digests[epochs] = muster("train", f"{folder}/spec.yaml", "--dir", f"{folder}/run",
                                              "--json")["digest"]
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
