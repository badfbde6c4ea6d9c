"""Components and examples of deploy/k8s that say more than what pods there are: each does what it says."""

import base64
import hashlib
import hmac
import http.server
import json
import pathlib
import secrets
import shutil
import subprocess
import threading
import time

from cluster import BUILD, ROOT, main
from host_cluster import FIXED, HostTest, counting

CAP_IPC_LOCK = 14
SCALING = ROOT / "deploy/k8s/jobs/scale-by-metric"


def is_genuine(headers, body, secret):
    """As docs/webhooks.md says how receivers may look at it."""
    key = base64.b64decode(secret.strip().removeprefix("whsec_"))
    if abs(time.time() - int(headers["webhook-timestamp"])) > 300:
        return False
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(wanted, one) for one in headers["webhook-signature"].split())


class Webhooks(HostTest):
    components = ("webhooks",)

    @classmethod
    def before_it_starts(cls):
        cls.told, cls.secret = [], "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        told = cls.told

        class Receiver(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                told.append((dict(self.headers.items()), self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = cls.cluster.serve(Receiver)
        cls.addClassCleanup(server.shutdown)
        folder = cls.manifests / "overlays/dev"
        (folder / "webhooks").mkdir()
        (folder / "webhooks/webhooks.yaml").write_text(json.dumps({"webhooks": [{
            "name": "chat", "url": f"https://127.0.0.1:{server.server_address[1]}/muster",
            "secret_file": "chat.secret", "ca_file": "ca.pem"}]}))
        (folder / "webhooks/chat.secret").write_text(cls.secret + "\n")
        shutil.copy(cls.cluster.state / "pki/ca.crt", folder / "webhooks/ca.pem")
        # What the component's own file says that an overlay adds.
        said = (cls.manifests / "components/webhooks/kustomization.yaml").read_text()
        entry = said[said.index("#     - name: muster-webhooks"):said.index("\n#\n# with")]
        entry = "\n".join(line.removeprefix("#     ") for line in entry.splitlines())
        kustomization = folder / "kustomization.yaml"
        kustomization.write_text(kustomization.read_text().replace("secretGenerator:\n", f"secretGenerator:\n{entry}\n"))

    def test_events_of_a_job_are_told(self):
        self.submit("hooked", counting(FIXED, epochs=8))
        self.until_step("hooked", 50)
        self.restart_coordinator()
        self.assert_done("hooked", epochs=8)
        events = lambda: [json.loads(body) for _, body in self.told]
        self.until("its end to be told", lambda: any(event["type"] == "job.done" for event in events()))
        self.assertTrue(all(is_genuine({name.lower(): value for name, value in headers.items()}, body, self.secret)
                            for headers, body in self.told))
        states = [event["type"] for event in events() if event["type"].startswith("job.")]
        self.assertEqual((states[0], states[-1]), ("job.queued", "job.done"))
        self.assertIn("checkpoint.committed", {event["type"] for event in events()})
        done = next(event for event in events() if event["type"] == "job.done")
        self.assertEqual((done["data"]["job"], done["data"]["digest"]), ("hooked", self.digest(8)))


class Rdma(HostTest):
    components, jobs = ("rdma",), "muster-rdma"
    options = {**HostTest.options, "resources": "cpu=8,memory=16Gi,rdma/hca_shared_devices_a=4"}

    def test_pods_may_lock_memory_and_are_not_root(self):
        self.submit("cards", counting(FIXED))
        self.until_step("cards", 50)
        for pod in self.pods("cards"):
            first = self.cluster.container(pod["metadata"]["uid"])
            children = pathlib.Path(f"/proc/{first}/task/{first}/children").read_text().split()
            self.assertTrue(children, "an agent that has started a worker")
            for process in (first, *children):
                said = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines())
                self.assertEqual(set(said["Uid"].split()), {"65532"})
                for kind in ("CapEff", "CapPrm", "CapBnd"):
                    self.assertEqual(int(said[kind], 16), 1 << CAP_IPC_LOCK, kind)
                self.assertEqual(said["NoNewPrivs"].strip(), "1")
        self.assert_done("cards")


class Scaling(HostTest):
    def prometheus(self):
        """It reads how many samples wait from this test, each second."""
        class Exporter(http.server.BaseHTTPRequestHandler):
            def do_GET(answer):
                answer.send_response(200)
                answer.send_header("Content-Type", "text/plain; version=0.0.4")
                answer.end_headers()
                answer.wfile.write(f"samples_waiting {self.waiting}\n".encode())

            def log_message(self, *_):
                pass

        exporter = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
        threading.Thread(target=exporter.serve_forever, daemon=True).start()
        self.addCleanup(exporter.shutdown)
        folder = self.cluster.folder / "prometheus"
        folder.mkdir()
        (folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s"}, "scrape_configs": [{"job_name": "data", "static_configs": [{
                "targets": [f"127.0.0.1:{exporter.server_address[1]}"]}]}]}))
        process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             "--web.listen-address=127.0.0.1:9900"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return "http://127.0.0.1:9900"

    def test_a_job_is_scaled_by_a_metric(self):
        """As the example says, with the python3 of this machine for that of its image."""
        image = BUILD / "kube-images/python:3.12-slim"
        (image / "rootfs").mkdir(parents=True, exist_ok=True)
        (image / "image.json").write_text(json.dumps({"env": ["PATH=/usr/bin:/bin"]}))
        self.addCleanup(shutil.rmtree, image)
        self.submit("grows", counting({"min": 1, "max": 2}, epochs=1000))
        self.until_step("grows", 50)
        self.cluster.kubectl("apply", "-f", SCALING / "namespace.yaml")
        self.addCleanup(self.cluster.kubectl, "delete", "namespace", "muster-scaling", "--wait=false")
        token = self.cluster.folder / "operator.token"
        token.write_text(json.loads(self.muster("token", "make", "scaler", "--role", "operator", "--namespace", "*",
                                                "--json"))["token"])
        authority = self.cluster.folder / "authority.pem"
        shutil.copy(self.authority(), authority)
        self.cluster.kubectl("create", "secret", "generic", "-n", "muster-scaling", "muster-operator",
                             f"--from-file=token={token}", f"--from-file=authority.pem={authority}")
        objects = self.cluster.objects(SCALING)
        self.waiting = 2_600_000
        # As long as a sample counts: with the ten minutes of the example it would shrink as much later.
        query = "sum(max_over_time(samples_waiting[10s]))"
        changes = {"--job=": "grows", "--query=": query, "--prometheus=": self.prometheus()}
        container = next(each for each in objects if each["kind"] == "CronJob")[
            "spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
        for begin, value in changes.items():
            at = next(i for i, word in enumerate(container["args"]) if word.startswith(begin))
            container["args"][at] = begin + value
        self.assertIn("samples_waiting[10m]", (SCALING / "cronjob.yaml").read_text())
        self.cluster.apply(objects, "muster-scaling")
        self.until("three workers", lambda: self.job("grows").get("workers") == 3, 300)
        self.assertEqual(self.job("grows")["spec"]["workers"], {"min": 1, "max": 3})
        self.assertEqual(len(self.pods("grows")), 3)
        pod = self.cluster.get("-n", "muster-scaling", "pods")[0]["metadata"]["name"]
        self.assertIn("2.6e+06 with 1e+06 for each worker: 3 workers, and not 2",
                      self.cluster.kubectl("logs", "-n", "muster-scaling", pod))
        self.waiting = 500_000
        self.until("one worker", lambda: self.job("grows").get("workers") == 1, 300)
        self.assertEqual(self.job("grows")["spec"]["workers"], {"min": 1, "max": 1})
        self.assertEqual(self.job("grows")["rewinds"], 0)


if __name__ == "__main__":
    main()
