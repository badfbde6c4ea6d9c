"""A store of images of the test's own, what lies in them, and containers of them.

`buildah run` runs them as people do on one machine, crun as a node of a cluster does: with a root that cannot be written,
without capabilities, in namespaces of their own. All of it is gone afterwards.
"""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["MUSTER_BUILD"])
USER = 65532
# crun takes no machine on which both versions of cgroups are in use, as it would have to choose; here it makes none.
BEFORE_CRUN = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'


def call(*words, code=0, seconds=300, **more):
    """Standard output of a program that ends with `code`."""
    ended = subprocess.run(words, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, **more)
    assert ended.returncode == code, f"{words} ended with {ended.returncode}:\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout + (ended.stderr if code else "")


class Store:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-image-"))
        config = self.folder / "storage.conf"
        config.write_text(f'[storage]\ndriver = "vfs"\nrunroot = "{self.folder}/run"\ngraphroot = "{self.folder}/store"\n')
        temporary = self.folder / "tmp"
        temporary.mkdir(mode=0o1777)
        self.environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(config), "TMPDIR": str(temporary)}

    def remove(self):
        shutil.rmtree(self.folder)

    def build(self, *words, code=0):
        return call(ROOT / "deploy/image/build", *words, code=code, seconds=900, env=self.environment)

    def buildah(self, *words, code=0):
        return call("buildah", *words, code=code, env=self.environment)

    def inspect(self, tag):
        return json.loads(self.buildah("inspect", "--type", "image", tag))


class Container:
    """Of the image with this tag, until remove(); its root is what lies in the image."""

    def __init__(self, store, tag):
        self.store = store
        self.name = store.buildah("from", tag).strip()
        self.root = pathlib.Path(store.buildah("mount", self.name).strip())
        self.bundle = pathlib.Path(tempfile.mkdtemp(dir=store.folder))

    def remove(self):
        self.store.buildah("rm", self.name)

    def run(self, *words, code=0):
        """By `buildah run`."""
        return self.store.buildah("run", "--isolation", "chroot", self.name, "--", *words, code=code)

    def run_strictly(self, *words, code=0, files=None, environment=()):
        """By crun, as the level `restricted` of Pod Security has it. `files`: a folder that is seen as /tmp/files."""
        (self.bundle / "config.json").unlink(missing_ok=True)
        call("crun", "spec", cwd=self.bundle)
        config = json.loads((self.bundle / "config.json").read_text())
        none = {kind: [] for kind in ("bounding", "effective", "permitted", "inheritable", "ambient")}
        config["process"].update(terminal=False, user={"uid": USER, "gid": USER}, args=list(words), cwd="/tmp",
                                 env=["PATH=/opt/muster/bin", *environment], noNewPrivileges=True, capabilities=none)
        config["process"].pop("rlimits")
        config["root"] = {"path": str(self.root), "readonly": True}
        config["linux"].pop("resources")
        kinds = ("pid", "ipc", "uts", "mount", "network")
        config["linux"]["namespaces"] = [{"type": kind} for kind in kinds]
        config["mounts"] = [mount for mount in config["mounts"] if mount["type"] not in ("cgroup", "mqueue")]
        config["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
                                 "options": ["nosuid", "nodev", "mode=1777"]})
        if files:
            config["mounts"].append({"destination": "/tmp/files", "type": "bind", "source": str(files),
                                     "options": ["bind", "ro"]})
        (self.bundle / "config.json").write_text(json.dumps(config))
        # What is killed here takes all of the container with it.
        return call("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", BEFORE_CRUN, "-",
                    "crun", "--root", str(self.bundle / "state"), "--cgroup-manager=disabled", "run", "muster", code=code,
                    cwd=self.bundle)

    def entries(self):
        """{path: lstat} of all that lies in it."""
        found = {}
        for folder, folders, files in os.walk(self.root):
            for name in folders + files:
                path = pathlib.Path(folder, name)
                found["/" + str(path.relative_to(self.root))] = path.lstat()
        return found

    def contents(self):
        """What would tell that somebody has written: of each entry but those of /tmp and what `buildah run` itself lays
        there for its time."""
        def is_left_out(path):
            return path.startswith(("/tmp", "/run", "/dev", "/proc", "/sys")) or path in (
                "/etc", "/etc/hosts", "/etc/resolv.conf")
        return {path: (of.st_mode, of.st_uid, of.st_gid, of.st_size, of.st_mtime_ns)
                for path, of in self.entries().items() if not is_left_out(path)}


def may_be_written(of):
    """By the user of the image, or by everybody."""
    if stat.S_ISLNK(of.st_mode):
        return False
    by_user = of.st_uid == USER or (of.st_gid == USER and of.st_mode & stat.S_IWGRP)
    return bool(by_user or of.st_mode & stat.S_IWOTH)
