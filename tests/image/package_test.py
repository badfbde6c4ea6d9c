"""The package of Debian and the archive: each is unpacked where nothing was built, and runs there; the first leaves nothing
when it goes.
"""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import numpy as np
from safetensors.numpy import load_file

from image_test import COMPUTES, COUNTS, digest_in
from store import BUILD, ROOT, call

TO_BUILD = ("cmake", "g++", "libabsl-dev", "make")
INSIDE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
          'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"')


@functools.cache
def scratch():
    """Of all tests here."""
    folder = tempfile.TemporaryDirectory(prefix="muster-package-")
    unittest.addModuleCleanup(folder.cleanup)
    return pathlib.Path(folder.name)


@functools.cache
def made():
    """The package and the archive."""
    call("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", scratch(), seconds=900)
    return next(scratch().glob("muster_*_amd64.deb")), next(scratch().glob("muster-*.tar.zst"))


def bare_debian(root, *options):
    done = subprocess.run(["mmdebstrap", "--quiet", "--variant=apt", *options, "bookworm", root, "-"],
                          input=call(ROOT / "deploy/image/sources"), text=True, timeout=900, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def run_in(root, *words, seconds=300):
    return call(*INSIDE, root, *words, seconds=seconds)


def digest_outside(job, file):
    return digest_in(call(BUILD / "bin/muster", "train", file, "--json", "--dir", scratch() / f"{file.parts[-3]}-{job['name']}"))


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.package, _ = made()
        cls.root = scratch() / "root"
        bare_debian(cls.root, f"--customize-hook=copy-in {cls.package} /var",
                    f'--customize-hook=chroot "$1" apt-get install --yes --no-install-recommends /var/{cls.package.name} ' +
                    " ".join(TO_BUILD))

    def run_in_it(self, *words, seconds=300):
        return run_in(self.root, *words, seconds=seconds)

    # What `--help` and the examples' own READMEs point at.
    def test_the_documents_come_along(self):
        share = self.root / "opt/muster/share/muster"
        told = self.run_in_it("/usr/bin/muster", "train", "--help")
        self.assertIn("docs/job-spec.md", told)
        self.assertTrue((share / "docs/job-spec.md").exists())
        for page in share.glob("examples/*/README.md"):
            for link in re.findall(r"\]\((\.\.[^)#]*)", page.read_text()):
                self.assertTrue((page.parent / link).exists(), f"{page}: {link}")

    def test_it_names_what_it_needs(self):
        said = call("dpkg-deb", "--info", self.package)
        for library in ("libc6 (>= ", "libgrpc++1.51", "librocksdb7.8"):
            self.assertIn(library, said)

    def test_a_run_has_the_digest_that_it_has_outside(self):
        for job in (COUNTS, COMPUTES):
            (self.root / "tmp/job.json").write_text(json.dumps(job))
            outside = digest_outside(job, self.root / "tmp/job.json")
            inside = self.run_in_it("/usr/bin/muster", "train", "/tmp/job.json", "--json", "--dir", f"/tmp/{job['name']}")
            self.assertEqual(digest_in(inside), outside)

    # As a stranger does it: the example is copied, built against what the package brings, and trained.
    def test_a_model_of_ones_own(self):
        shutil.copytree(self.root / "opt/muster/share/muster/examples/plugin", self.root / "tmp/own")
        self.assertFalse((self.root / "opt/muster/include/libtorch/google").exists())
        in_it = "cd /tmp/own && cmake -B build -DCMAKE_PREFIX_PATH=/opt/muster -DCMAKE_BUILD_TYPE=Release && cmake --build build"
        self.run_in_it("sh", "-c", in_it, seconds=600)
        train = "cd /tmp/own && muster train mlp.yaml --plugins build --json --dir run --workers {workers} && rm -r run"
        one, two = (self.run_in_it("sh", "-c", train.format(workers=n)) for n in (1, 2))
        self.assertEqual(digest_in(one), digest_in(two))
        result = json.loads(one.strip().splitlines()[-1])
        self.assertLess(result["final_loss"], 0.02)   # 0.16 for who says the mean

    def test_zz_it_goes_as_it_came(self):
        self.run_in_it("apt-get", "remove", "--yes", "muster")
        self.assertFalse(os.path.lexists(self.root / "usr/bin/muster"))
        self.assertFalse((self.root / "opt/muster").exists())


class Archive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        package, archive = made()
        needed = re.findall(r"(?:^|, )([a-z0-9.+-]+)", call("dpkg-deb", "--field", package, "Depends"))
        assert "libgrpc++1.51" in needed, needed
        cls.root = scratch() / "bare"
        bare_debian(cls.root, "--include=" + ",".join((*needed, *TO_BUILD)), f"--customize-hook=copy-in {archive} /srv")
        run_in(cls.root, "sh", "-c", "cd /srv && cmake -E tar xf *.tar.zst && rm *.tar.zst", seconds=300)
        cls.muster, = ("/srv/" + folder.name for folder in (cls.root / "srv").iterdir())

    def run_in_it(self, *words, seconds=300):
        return run_in(self.root, *words, seconds=seconds)

    def test_a_run_has_the_digest_that_it_has_outside(self):
        for job in (COUNTS, COMPUTES):
            (self.root / "tmp/job.json").write_text(json.dumps(job))
            inside = self.run_in_it(f"{self.muster}/bin/muster", "train", "/tmp/job.json", "--json", "--dir", f"/tmp/{job['name']}")
            self.assertEqual(digest_in(inside), digest_outside(job, self.root / "tmp/job.json"))

    def test_every_example_is_built_and_tells_its_task(self):
        shutil.copytree(ROOT / "examples", self.root / "tmp/examples")
        for file in sorted((self.root / "tmp/examples").glob("*/*.yaml")):
            task = re.search("^task: (.*)$", file.read_text(), re.MULTILINE)[1]
            plugins = self.built(f"/tmp/examples/{file.parent.name}")
            told = self.run_in_it(f"{self.muster}/bin/muster", "tasks", task, "--plugins", plugins)
            self.assertIn(f"{plugins}/{file.stem}.so", told)

    def built(self, folder):
        """The folder of a plug-in."""
        self.run_in_it("sh", "-c", f"cd {folder} && cmake -B build -DCMAKE_PREFIX_PATH={self.muster} -DCMAKE_BUILD_TYPE=Release "
                       "&& cmake --build build", seconds=600)
        return f"{folder}/build"

    # The figure of docs/testing.md: all of it but what the package takes to be installed.
    def test_from_a_clone_to_a_first_epoch(self):
        template, timed = scratch() / "template", self.root / "tmp/timed"
        shutil.copytree(ROOT / "examples/plugin", template)
        git = ("git", "-C", template, "-c", "user.name=a", "-c", "user.email=a@localhost")
        for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "template")):
            call(*git, *words)
        begin = time.monotonic()
        call("git", "clone", "--quiet", template, timed)
        cloned = time.monotonic()
        self.built("/tmp/timed")
        built = time.monotonic()
        self.run_in_it("sh", "-c", f"cd /tmp/timed && {self.muster}/bin/muster train mlp.yaml --plugins build --dir run --set epochs=1")
        end = time.monotonic()
        lines = {name: len((template / name).read_text().splitlines()) for name in ("mlp.cc", "CMakeLists.txt", "mlp.yaml")}
        print(f"from git clone to a trained epoch: {end - begin:.1f} s, {built - cloned:.1f} s of them for building; "
              f"lines of the template: {lines}", flush=True)

    # As a stranger does it: the template is copied, built, trained, killed with all its processes, gone on with, and exported.
    def test_a_strangers_path(self):
        own = self.root / "tmp/own"
        shutil.copytree(ROOT / "examples/plugin", own)
        self.built("/tmp/own")
        train = (f"cd /tmp/own && exec {self.muster}/bin/muster train mlp.yaml --plugins build --json --workers 2 --set epochs=60 "
                 "--set checkpoint.every_steps=20 --dir ")
        with subprocess.Popen([*INSIDE, self.root, "sh", "-c", train + "run"], text=True, stdout=subprocess.PIPE) as first:
            for line in first.stdout:
                event = json.loads(line)
                if event["event"] == "checkpoint" and event["saves"]:
                    break
            first.kill()
        result = json.loads(self.run_in_it("sh", "-c", train + "run").strip().splitlines()[-1])
        self.assertEqual(result["state"], "done")
        self.assertEqual(result["digest"], digest_in(self.run_in_it("sh", "-c", train + "undisturbed")))
        self.run_in_it("sh", "-c", f"cd /tmp/own && {self.muster}/bin/muster export --dir run -o model.safetensors")
        # What a stranger's Python makes of it.
        model, rows = load_file(own / "model.safetensors"), np.loadtxt(own / "rows.csv", delimiter=",", dtype=np.float32)
        inner = np.tanh(rows[:, :2] @ model["first.weight"].T + model["first.bias"])
        told = (inner @ model["last.weight"].T + model["last.bias"])[:, 0]
        self.assertLess(float(np.square(told - rows[:, 2]).mean()), 0.02)   # 0.16 for who says the mean


if __name__ == "__main__":
    unittest.main(verbosity=2)
