"""The package of Debian: it is installed where nothing was built, runs there, and leaves nothing when it goes."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from image_test import COMPUTES, COUNTS, digest_in
from store import BUILD, ROOT, call


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        call("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder, seconds=900)
        cls.package = next(cls.folder.glob("muster_*_amd64.deb"))
        cls.root = cls.folder / "root"
        done = subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=apt", f"--customize-hook=copy-in {cls.package} /var",
             f'--customize-hook=chroot "$1" apt-get install --yes --no-install-recommends /var/{cls.package.name} '
             "cmake g++ libabsl-dev make",
             "bookworm", cls.root, "-"], input=call(ROOT / "deploy/image/sources"), text=True, timeout=900, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout

    def run_in_it(self, *words, seconds=300):
        begin = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
        return call("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", begin, self.root, *words, seconds=seconds)

    def test_it_names_what_it_needs(self):
        said = call("dpkg-deb", "--info", self.package)
        for library in ("libc6 (>= ", "libgrpc++1.51", "librocksdb7.8"):
            self.assertIn(library, said)

    def test_a_run_has_the_digest_that_it_has_outside(self):
        for job in (COUNTS, COMPUTES):
            (self.root / "tmp/job.json").write_text(json.dumps(job))
            outside = digest_in(call(BUILD / "bin/muster", "train", self.root / "tmp/job.json", "--json", "--dir",
                                     self.folder / job["name"]))
            inside = self.run_in_it("/usr/bin/muster", "train", "/tmp/job.json", "--json", "--dir", f"/tmp/{job['name']}")
            self.assertEqual(digest_in(inside), outside)

    # As a stranger does it: the example is copied, built against what the package brings, and trained.
    def test_a_model_of_ones_own(self):
        shutil.copytree(ROOT / "examples/plugin", self.root / "tmp/own")
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
