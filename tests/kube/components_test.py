"""Components and examples of deploy/k8s that say more than what pods there are: each does what it says."""

import base64
import hashlib
import hmac
import http.server
import json
import secrets
import shutil
import ssl
import subprocess
import threading
import time

from cluster import BUILD, ROOT, main
from host_cluster import FIXED, HostTest, counting

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

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        pki = cls.cluster.state / "pki"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.shutdown)
        folder = cls.manifests / "overlays/dev"
        (folder / "webhooks").mkdir()
        (folder / "webhooks/webhooks.yaml").write_text(json.dumps({"webhooks": [{
            "name": "chat", "url": f"https://127.0.0.1:{server.server_address[1]}/muster",
            "secret_file": "chat.secret", "ca_file": "ca.pem"}]}))
        (folder / "webhooks/chat.secret").write_text(cls.secret + "\n")
        shutil.copy(pki / "ca.crt", folder / "webhooks/ca.pem")
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


class Scaling(HostTest):
    def prometheus(self):
        """The number that it answers is that of the query itself."""
        folder = self.cluster.folder / "prometheus"
        folder.mkdir()
        (folder / "prometheus.yml").write_text("global: {scrape_interval: 1m}\n")
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
        changes = {"--job=": "grows", "--query=": "vector(3000000)", "--prometheus=": self.prometheus()}
        container = next(each for each in objects if each["kind"] == "CronJob")[
            "spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
        for begin, value in changes.items():
            at = next(i for i, word in enumerate(container["args"]) if word.startswith(begin))
            container["args"][at] = begin + value
        self.cluster.apply(objects, "muster-scaling")
        self.until("three workers", lambda: self.job("grows").get("workers") == 3, 150)
        self.assertEqual(self.job("grows")["spec"]["workers"], {"min": 1, "max": 3})
        self.assertEqual(len(self.pods("grows")), 3)
        pod = self.cluster.get("-n", "muster-scaling", "pods")[0]["metadata"]["name"]
        self.assertIn("3 workers, and not 2", self.cluster.kubectl("logs", "-n", "muster-scaling", pod))


if __name__ == "__main__":
    main()
