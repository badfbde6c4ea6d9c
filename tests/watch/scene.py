"""A cluster of real programs that has everything go wrong with it in turn, and a real Prometheus that reads it.

The program runs in namespaces of its own: what it starts ends with it, its addresses are nobody else's, and its disks
are small ones of its own.
"""

import base64
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MUSTER_BUILD") or ROOT / "build/dev")
PATIENCE = 120  # seconds for whatever is waited for
LOOK_EVERY = 0.2


def alone():
    """Starts this program anew in namespaces of its own, and does not return before that."""
    if os.environ.get("MUSTER_WATCH_ALONE"):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    os.environ["MUSTER_WATCH_ALONE"] = "1"
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    os.execvp("unshare", ["unshare", *as_root, "--pid", "--fork", "--kill-child", "--mount-proc", "--mount", "--net",
                          sys.executable, *sys.argv])


def until(what, look):
    """What `look` finds, once that is true."""
    end, pause = time.monotonic() + PATIENCE, threading.Event()
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {PATIENCE} s")
        pause.wait(LOOK_EVERY)


class Disk:
    """A disk of a few mebibytes at a folder, whose files it keeps."""

    def __init__(self, folder, mebibytes):
        self.folder, self.ballast = folder, folder / "ballast"
        kept = folder.with_name(folder.name + ".kept")
        shutil.copytree(folder, kept, symlinks=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0700", "tmpfs", folder], check=True)
        shutil.copytree(kept, folder, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(kept)

    def fill(self):
        """What others free meanwhile is taken as well, until `free`."""
        with open(self.ballast, "ab", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                return

    def free(self):
        self.ballast.unlink()


class Told:
    """Somebody whom the cluster tells of its jobs, by webhooks."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    def __init__(self, folder):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.Answer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        secret, self.file = folder / "hook.secret", folder / "webhooks.yaml"
        secret.write_text("whsec_" + base64.b64encode(os.urandom(32)).decode() + "\n")
        secret.chmod(0o600)
        self.file.write_text(json.dumps({"webhooks": [{
            "name": "told", "url": f"http://127.0.0.1:{server.server_address[1]}/", "secret_file": secret.name}]}))


class Cluster:
    """`muster up` in a folder, and its members."""

    def __init__(self, folder):
        self.folder, self.process = folder, None
        self.log = folder.parent / "up.log"
        self.told = Told(folder.parent)

    def start(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [BUILD / "bin/muster", "up", "--dir", self.folder, "--slots", "4", "--lease", "5", "--devices", "2",
                 "--webhooks", self.told.file],
                stdout=log, stderr=log)
        until("a coordinator that answers", lambda: "ready at" in self.log.read_text())

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)

    def say(self, *words, check=True):
        return subprocess.run([BUILD / "bin/muster", *words, "--dir", self.folder], check=check, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def submit(self, job, spec):
        file = self.folder.parent / f"{job}.yaml"
        file.write_text(json.dumps(spec))
        self.say("submit", file, "--id", job)

    def processes(self, program, word=""):
        """Ids of processes of that program with that word among their arguments."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue  # it has ended
            if words[0].endswith(f"/{program}") and (not word or word in words):
                found.append(int(folder.name))
        return found


class Slow:
    """Lets a process run for a small part of the time, while it is entered."""

    RUNS, STANDS = 0.03, 0.2  # seconds

    def __init__(self, pid):
        self.pid, self.enough = pid, threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        while not self.enough.wait(self.RUNS):
            os.kill(self.pid, signal.SIGSTOP)
            self.enough.wait(self.STANDS)
            os.kill(self.pid, signal.SIGCONT)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.enough.set()
        self.thread.join()


class Prometheus:
    """Debian's, with examples/prometheus.yml and deploy/prometheus/rules.yaml as they stand, but for their pace."""

    AT = "http://127.0.0.1:9900"

    def __init__(self, folder, targets):
        config = (ROOT / "examples/prometheus.yml").read_text()
        config = re.sub(r"_interval: \d+s", "_interval: 1s", config).replace("_timeout: 4s", "_timeout: 1s")
        config = config.replace("[prometheus-targets.json]", f"[{targets}]")
        # Members are compared over seconds, as nobody is behind for ten minutes here.
        rules = folder / "rules.yaml"
        rules.write_text((ROOT / "deploy/prometheus/rules.yaml").read_text().replace("[5m]", "[10s]"))
        config = config.replace("[rule*.yaml]", f"[{rules}]")
        config = config.replace("global:", "global:\n  evaluation_interval: 1s", 1)
        assert "  scrape_interval: 1s" in config and str(targets) in config and "/rules.yaml]" in config
        (folder / "prometheus.yml").write_text(config)
        with open(folder / "prometheus.log", "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address={self.AT.removeprefix('http://')}"], stdout=log, stderr=log)
        until("a Prometheus that answers", lambda: self.ask("query", query="vector(1)"))

    def ask(self, kind, **words):
        try:
            with urllib.request.urlopen(f"{self.AT}/api/v1/{kind}?{urllib.parse.urlencode(words)}", timeout=20) as answer:
                return json.loads(answer.read())["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{words}: {error.read().decode()}") from None
        except OSError:
            return None  # it does not listen yet

    def now(self, expression):
        """Values by labels, as text: {'{"job": "a"}': 1.0}; nothing: {}."""
        found = self.ask("query", query=expression)
        return {json.dumps(each["metric"], sort_keys=True): float(each["value"][1]) for each in found}

    def over(self, expression, begin, end):
        """Each second from `begin` to `end`: (labels, [(time, value), …]) of each series."""
        found = self.ask("query_range", query=expression, start=begin, end=end, step=1)
        return [(each["metric"], [(float(at), float(value)) for at, value in each["values"]]) for each in found]
