"""The container image: what lies in it, that it runs with nothing else, and that it is the same whenever it is built.

What needs CUDA's libraries is done once `./dev setup cuda` has brought them, and is skipped before.
"""

import json
import os
import pathlib
import stat
import unittest

from store import BUILD, ROOT, USER, Container, Store, call, may_be_written

PRESET = BUILD.name
SETPRIV = "/usr/bin/setpriv"  # for pods with RDMA
PROGRAMS = {f"/opt/muster/bin/{name}" for name in ("muster", "muster-coordinator", "muster-decoder", "muster-server", "muster-worker")}
CUDA = pathlib.Path.home() / ".cache/muster/torch-2.11.0-cuda"
COUNTS = {"name": "counts", "task": "counting", "steps": 20, "workers": 2, "lanes": 4, "batch": 8}
# One that LibTorch computes.
COMPUTES = {"name": "computes", "task": "transformer", "steps": 5, "workers": 2, "lanes": 4, "batch": 8,
            "parameters": {"width": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "feedforward": 64,
                           "source_length": 8, "target_length": 8},
            "data": {"samples": 256}, "optimizer": {"kind": "adam", "learning_rate": 0.001}}
MOST_BYTES = 500 << 20


def digest_in(output):
    """Of the last event of `muster train --json`."""
    result = json.loads(output.strip().splitlines()[-1])
    assert result["event"] == "result" and len(result["digest"]) >= 64, result
    return result["digest"]


def findings_in(output):
    return {finding["check"]: finding for finding in json.loads(output)["findings"]}


class Refusals(unittest.TestCase):
    def test_wrong_words(self):
        store = Store()
        self.addCleanup(store.remove)
        for words, text in ((["--tags", "x"], "it takes --preset, --variant, --tag and --archive, not '--tags'"),
                            (["--tag"], "--tag needs a value"),
                            (["--variant", "rocm"], "--variant is cpu or cuda, not 'rocm'"),
                            (["--preset", "none"], "build/none has no programs: ./dev build none makes them")):
            self.assertEqual(store.build(*words, code=64), f"deploy/image/build: {text}\n")


class Cpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.store = Store()
        cls.addClassCleanup(cls.store.remove)
        cls.said = cls.store.build("--preset", PRESET, "--tag", "localhost/first")
        cls.container = Container(cls.store, "localhost/first")
        cls.addClassCleanup(cls.container.remove)
        cls.entries = cls.container.entries()
        cls.jobs = cls.store.folder / "jobs"
        cls.jobs.mkdir()
        for job in (COUNTS, COMPUTES):
            (cls.jobs / f"{job['name']}.json").write_text(json.dumps(job))

    def test_it_says_what_it_is(self):
        of = self.store.inspect("localhost/first")["OCIv1"]
        config = of["config"]
        self.assertEqual(config["User"], f"{USER}:{USER}")
        self.assertEqual(config["Entrypoint"], ["/opt/muster/bin/muster"])
        self.assertEqual(config["Cmd"], ["--help"])
        version = call(BUILD / "bin/muster", "--version").strip()
        self.assertEqual(config["Labels"]["org.opencontainers.image.version"], version)
        self.assertEqual(config["Labels"]["org.opencontainers.image.title"], "muster")
        self.assertEqual(self.container.run_strictly("/opt/muster/bin/muster", "--version").strip(), version)

    def test_nothing_else_lies_in_it(self):
        files = {path: of for path, of in self.entries.items() if stat.S_ISREG(of.st_mode)}
        executed = {path for path, of in files.items() if of.st_mode & 0o111 and ".so" not in path}
        self.assertEqual(executed, {*PROGRAMS, SETPRIV})
        for path in ("/bin", "/sbin", "/usr/sbin", "/root", "/home", "/etc/resolv.conf", "/etc/hostname"):
            self.assertNotIn(path, self.entries)
        self.assertEqual([path for path, of in self.entries.items() if of.st_mode & (stat.S_ISUID | stat.S_ISGID)], [])
        self.assertEqual([path for path in files if os.listxattr(f"{self.container.root}{path}")], [])
        self.assertEqual([path for path, of in self.entries.items() if may_be_written(of)], ["/tmp"])
        self.assertEqual({of.st_uid for of in self.entries.values()}, {0})
        kinds = {stat.S_IFMT(of.st_mode) for of in self.entries.values()}
        self.assertLessEqual(kinds, {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK})

    def test_it_is_small(self):
        size = sum(of.st_size for of in self.entries.values())
        print(f"\ncpu: {size / 1e6:.0f} MB; {self.said.strip()}", flush=True)
        self.assertLess(size, MOST_BYTES)
        self.assertEqual([path for path in self.entries if "cuda" in path and "libcudart" not in path], [])

    def test_each_program_finds_its_libraries(self):
        for program in sorted({*PROGRAMS, SETPRIV}):
            self.assertIn("Usage", self.container.run_strictly(program, "--help"))
            listed = self.container.run_strictly(program, environment=["LD_TRACE_LOADED_OBJECTS=1"])
            self.assertIn("libc.so.6 =>", listed)
            self.assertNotIn("not found", listed)

    def test_a_run_has_the_digest_that_it_has_outside(self):
        before = self.container.contents()
        for name in ("counts", "computes"):
            job = self.jobs / f"{name}.json"
            outside = digest_in(call(BUILD / "bin/muster", "train", job, "--json", "--dir", self.store.folder / name))
            words = ("/opt/muster/bin/muster", "train", f"/tmp/files/{name}.json", "--json", "--dir", f"/tmp/{name}")
            self.assertEqual(digest_in(self.container.run_strictly(*words, files=self.jobs)), outside)
        self.assertEqual(self.container.contents(), before)

    def test_buildah_runs_it_as_another_user_that_writes_only_tmp(self):
        muster = "/opt/muster/bin/muster"
        self.container.run(muster, "--version")
        (self.container.root / "tmp/counts.json").write_text(json.dumps(COUNTS))
        before = self.container.contents()
        self.container.run(muster, "train", "/tmp/counts.json", "--dir", "/tmp/of-buildah")
        self.assertEqual(self.container.contents(), before)
        written = [of for path, of in self.container.entries().items() if path.startswith("/tmp/of-buildah")]
        self.assertGreater(len(written), 5)
        self.assertEqual({(of.st_uid, of.st_gid) for of in written}, {(USER, USER)})

    def test_nothing_but_tmp_can_be_written(self):
        words = ("/opt/muster/bin/muster", "train", "/tmp/files/counts.json", "--dir", "/opt/muster/run")
        self.assertIn("/opt/muster/run", self.container.run_strictly(*words, code=64, files=self.jobs))
        self.assertNotIn("/opt/muster/run", self.container.entries())

    def test_the_doctor_finds_no_problem(self):
        findings = findings_in(self.container.run_strictly("/opt/muster/bin/muster", "doctor", "--json"))
        self.assertEqual([finding for finding in findings.values() if finding["verdict"] == "problem"], [])
        self.assertEqual(findings["LibTorch"]["verdict"], "ok")
        self.assertIn("computes on processors", findings["LibTorch"]["text"])
        self.assertIn("Its CUDA half is not here", findings["LibTorch"]["text"])

    def test_it_is_the_same_when_it_is_built_again(self):
        archive = self.store.folder / "again.tar"
        self.store.build("--preset", PRESET, "--tag", "localhost/again", "--archive", archive)
        first, again = (self.store.inspect(f"localhost/{tag}")["FromImageID"] for tag in ("first", "again"))
        self.assertEqual(again, first)
        manifest = json.loads(call("tar", "-xOf", archive, "manifest.json"))
        self.assertEqual(manifest[0]["RepoTags"], ["localhost/again:latest"])


class Cuda(unittest.TestCase):
    def test_its_libraries_load(self):
        if not CUDA.exists():
            self.skipTest(f"{CUDA} is not there: ./dev setup cuda")
        store = Store()
        self.addCleanup(store.remove)
        said = store.build("--preset", PRESET, "--variant", "cuda")
        print(f"\ncuda: {said.strip()}", flush=True)
        container = Container(store, "localhost/muster:cuda")
        entries = container.entries()
        self.assertEqual([path for path, of in entries.items() if may_be_written(of)], ["/tmp"])
        self.assertEqual({path for path, of in entries.items()
                          if stat.S_ISREG(of.st_mode) and of.st_mode & 0o111 and ".so" not in path}, {*PROGRAMS, SETPRIV})
        torch = findings_in(container.run_strictly("/opt/muster/bin/muster", "doctor", "--json"))["LibTorch"]
        self.assertIn("Its CUDA half (CUDA 13.0) loads", torch["text"])
        self.assertEqual(torch["verdict"], "ok")


if __name__ == "__main__":
    if os.geteuid() != 0:
        raise SystemExit("this test makes an image, and so needs root: sudo ./dev test image")
    unittest.main(verbosity=2)
