"""A Kubernetes cluster of this machine's processes (kit/), for one test program.

The program runs in namespaces of its own: what it starts ends with it, its addresses are nobody else's, and its
volumes lie in its own folder. State that a test leaves behind is only what it is asked to keep.
"""

import base64
import http.server
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
KIT = ROOT / "tests/kube/kit"
CACHE = pathlib.Path(os.environ.get("KUBE_CACHE") or pathlib.Path.home() / ".cache/muster/kube")
KUBECTL = CACHE / "bin/kubectl"
# Who has asked for what, for tests that look at rights.
AUDIT_POLICY = json.dumps({
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": ["system:serviceaccount:muster-system:muster-coordinator"]},
              {"level": "None"}]})
PODS_OF_NODE = 60  # at most, one after the other
BUILD = pathlib.Path(os.environ.get("MUSTER_BUILD") or ROOT / "build/dev")


def alone():
    """Puts this program into namespaces of its own: starts it anew there, and does not return before that."""
    if os.environ.get("MUSTER_KUBE_ALONE"):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    if os.geteuid() != 0:
        sys.exit("The Kubernetes of processes makes namespaces of Linux, which takes root: run it with sudo.")
    os.environ["MUSTER_KUBE_ALONE"] = "1"
    os.execvp("unshare", ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--mount", "--net",
                          sys.executable, *sys.argv])


def muster(*words):
    """What it prints last as JSON, on this machine and outside of the cluster."""
    done = subprocess.run([BUILD / "bin/muster", *map(str, words)], text=True, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout.splitlines()[-1])


def decoded(text):
    """The objects that kubectl prints one after the other as JSON."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        each, at = decoder.raw_decode(text, at)
        found += each["items"] if each["kind"] == "List" else [each]
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def install_image(images, name="muster"):
    """The image that pods name localhost/NAME: the programs that `cmake --install` makes, laid over this machine's root."""
    image = pathlib.Path(images) / "localhost" / name
    shutil.rmtree(image, ignore_errors=True)  # of an earlier version it may hold more
    image.mkdir(parents=True)
    subprocess.run(["cmake", "--install", BUILD, "--prefix", image / "rootfs/opt/muster", "--component", "programs"],
                   check=True, stdout=subprocess.DEVNULL)
    (image / "image.json").write_text(json.dumps({"entrypoint": ["/opt/muster/bin/muster"], "user": 65532}))


class Cluster:
    """Runs from its making to `down`."""

    def __init__(self, nodes=2, jobset=False, kueue=False, resources="cpu=8,memory=16Gi", **environment):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-kube-"))
        self.state = self.folder / "state"
        images = BUILD / "kube-images"
        install_image(images)
        (self.state).mkdir()
        environment = {name: value % {"state": self.folder} for name, value in environment.items()}
        (self.folder / "audit.yaml").write_text(AUDIT_POLICY)
        self.environment = dict(os.environ, KUBE_CACHE=str(CACHE), KUBE_NODES=str(nodes), KUBE_IMAGES=str(images),
                                KUBE_NODE_RESOURCES=resources, KUBE_JOBSET="1" if jobset else "0",
                                KUBE_KUEUE="1" if kueue else "0", KUBE_POD_NETWORK="10.244", **environment)
        try:
            made = subprocess.run([KIT / "kube-up", self.state], env=self.environment, check=True,
                                  stdout=subprocess.PIPE, text=True)
        except subprocess.CalledProcessError:
            self.show_logs()
            raise
        self.environment["KUBECONFIG"] = made.stdout.strip()
        # Pods share one network here. An interface has the addresses that they get, as theirs would.
        text = "".join(f"address replace 10.244.{node}.{pod}/32 dev lo\n"
                       for node in range(1, nodes + 1) for pod in range(1, PODS_OF_NODE + 1))
        subprocess.run(["ip", "-batch", "-"], input=text, text=True, check=True)

    def show_logs(self):
        for log in sorted((self.state / "logs").glob("*.log")):
            print(f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-5:], sep="\n")

    def down(self):
        subprocess.run([KIT / "kube-down", self.state], env=self.environment)
        shutil.rmtree(self.folder, ignore_errors=True)

    def kubectl(self, *words, check=True, text=None, timeout=120):
        """What kubectl prints. `text` is its standard input."""
        done = subprocess.run([KUBECTL, *map(str, words)], env=self.environment, input=text, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout if done.returncode == 0 else done.stdout + done.stderr

    def refusal(self, *words, text=None):
        """What kubectl says against it; empty: nothing."""
        done = subprocess.run([KUBECTL, *map(str, words)], env=self.environment, input=text, text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120)
        return done.stderr if done.returncode != 0 else ""

    def get(self, *words):
        """Objects as dictionaries."""
        found = json.loads(self.kubectl("get", *words, "-o", "json"))
        return found["items"] if found["kind"].endswith("List") else found

    def objects(self, folder, namespace=None):
        """Those that kustomize makes of a folder, as dictionaries. What names no namespace is for this one."""
        text = self.kubectl("kustomize", folder)
        of_namespace = ["-n", namespace] if namespace else []
        made = self.kubectl("create", *of_namespace, "--dry-run=client", "--validate=false", "-o", "json", "-f", "-",
                            text=text)
        return decoded(made)

    def apply(self, objects, namespace):
        return self.kubectl("apply", "-n", namespace, "--server-side", "--validate=strict", "-f", "-",
                            text="\n".join(map(json.dumps, objects)))

    def kill_container(self, pod_uid):
        """As its kernel does when memory is short."""
        os.kill(self.container(pod_uid), signal.SIGKILL)

    def container(self, pod_uid):
        """The id of the first process of a pod's container."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                is_first = "\t1\n" in (process / "status").read_text().split("NSpid:")[1].split("\n")[0] + "\n"
                is_its = pod_uid in (process / "mountinfo").read_text()
            except OSError:
                continue
            if is_first and is_its:
                return int(process.name)
        raise AssertionError(f"no process of pod {pod_uid}")

    def volume(self, namespace, claim, owner=65532):
        """A folder of this machine that all nodes see, for the claim that will come."""
        folder = self.folder / "volumes" / namespace / claim
        folder.mkdir(parents=True)
        for each in (self.folder, self.folder / "volumes", self.folder / "volumes" / namespace):
            each.chmod(0o755)
        os.chown(folder, owner, owner)
        self.kubectl("create", "-f", "-", text=json.dumps({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{namespace}-{claim}"},
            "spec": {"accessModes": ["ReadWriteMany", "ReadWriteOnce"], "capacity": {"storage": "100Gi"},
                     "storageClassName": "standard", "hostPath": {"path": str(folder)},
                     "claimRef": {"namespace": namespace, "name": claim}}}))
        return folder

    def serve(self, handler):
        """A server of HTTPS on loopback, with the certificate of the API; who asks it is `handler`'s affair."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.state / "pki/apiserver.crt", self.state / "pki/apiserver.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def show(self, namespace):
        """What people would look at, while it is there."""
        print(self.kubectl("get", "-n", namespace, "pods,jobs,pvc,events", check=False))
        for pod in self.get("-n", namespace, "pods"):
            name = pod["metadata"]["name"]
            print(f"--- {name}\n" + self.kubectl("logs", "-n", namespace, name, "--tail=40", check=False))

    def process(self, name):
        """The id of a process of the kit, such as kube-apiserver or kubelet-127.0.1.2."""
        return int((self.state / "pids" / name).read_text().split()[0])

    def put_into_etcd(self, key, value):
        """What is none of Kubernetes' own; its counter of changes goes on all the same."""
        words = pathlib.Path(f"/proc/{self.process('etcd')}/cmdline").read_text().split("\0")
        url = words[words.index("--listen-client-urls") + 1] + "/v3/kv/put"
        keys = self.state / "pki"
        trust = ssl.create_default_context(cafile=keys / "etcd-ca.crt")
        trust.load_cert_chain(keys / "etcd.crt", keys / "etcd.key")
        body = json.dumps({part: base64.b64encode(text.encode()).decode() for part, text in (("key", key), ("value", value))})
        with urllib.request.urlopen(url, body.encode(), timeout=30, context=trust) as answer:
            answer.read()

    def signal_to_end(self, name, how):
        """Of a process of the kit. What it returns, called again and again, is once it has ended what starts it anew."""
        process = self.process(name)
        of = pathlib.Path("/proc", str(process))
        words = (of / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        place = os.readlink(of / "cwd")
        environment = dict(pair.split(b"=", 1) for pair in (of / "environ").read_bytes().split(b"\0") if b"=" in pair)
        os.kill(process, how)

        def again():
            with open(self.state / "logs" / f"{name}.log", "a") as log:
                started = subprocess.Popen(words, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                           stderr=log, start_new_session=True)
            begun = pathlib.Path("/proc", str(started.pid), "stat").read_text().split()[21]
            (self.state / "pids" / name).write_text(f"{started.pid} {begun}\n")

        # It is a child of this program, the first of its namespace, since kube-up has ended.
        return lambda: again if os.waitpid(process, os.WNOHANG)[0] == process else None


class ClusterTest(unittest.TestCase):
    """Tests that share one cluster. A subclass sets `options`, the arguments of Cluster."""

    options = {}

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(**cls.options)
        cls.addClassCleanup(cls.cluster.down)

    def namespace(self, name, level="restricted"):
        self.cluster.kubectl("apply", "-f", "-", text=json.dumps({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": level}}}))
        self.namespaces.append(name)
        return name

    def setUp(self):
        self.namespaces = []

    def _callTestMethod(self, method):
        try:
            method()
        except BaseException:
            for namespace in self.namespaces:
                self.cluster.show(namespace)
            raise

    def until(self, what, look, seconds=120):
        """What `look` finds, once that is true."""
        end = time.monotonic() + seconds
        pause = threading.Event()  # that nobody sets: kubectl tells of no change
        while True:
            found = look()
            if found:
                return found
            if time.monotonic() > end:
                self.fail(f"{what} did not happen within {seconds} s")
            pause.wait(0.2)

    def end(self, name, how=signal.SIGKILL):
        """Of a process of the kit: it has ended. What it returns starts it anew."""
        return self.until(f"the end of {name}", self.cluster.signal_to_end(name, how))

    def until_api(self):
        self.until("the API", lambda: self.cluster.kubectl("get", "--raw", "/readyz", check=False) == "ok")


def main():
    alone()
    unittest.main(verbosity=2)
