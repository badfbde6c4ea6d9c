"""A new user's path on Kubernetes: the lines of the README, typed as they stand there."""

import json
import os
import shutil
import subprocess

from cluster import KUBECTL, ROOT, ClusterTest, main


def lines_of_readme():
    """Those of its section on Kubernetes that are indented, without their comments."""
    section = (ROOT / "README.md").read_text().split("### On Kubernetes\n")[1].split("\n#")[0]
    return [line.strip() for line in section.splitlines() if line.startswith("    ")]


class Readme(ClusterTest):
    options = {"nodes": 2, "jobset": True}

    @classmethod
    def setUpClass(cls):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/var/lib"], check=True)  # in the mounts of this program
        super().setUpClass()
        # The kit's class of volumes makes folders of root's; those of kind, minikube and k3s may be written by all.
        cls.cluster.volume("muster-system", "store-muster-0")

    def test_the_lines_as_they_stand(self):
        self.namespaces = ["muster-system", "muster-jobs"]
        lines = lines_of_readme()
        self.assertGreater(len(lines), 15)
        # The first is a job of its own pods, which guest_test tries.
        self.assertIn("jobs/guest-job", lines[0])
        lines = lines[1:]
        # What a machine may lack, and what is named here as people would have it in their PATH.
        tools = self.cluster.folder / "tools"
        tools.mkdir()
        (tools / "kubectl").symlink_to(KUBECTL)
        (tools / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
        (tools / "sudo").chmod(0o755)
        # A clone of one's own, where what the lines write does no harm.
        clone = self.cluster.folder / "clone"
        shutil.copytree(ROOT / "deploy", clone / "deploy")
        marked = "\n".join(f"printf '\\n== %s\\n' {at}\n{line}" for at, line in enumerate(lines))
        done = subprocess.run(["bash", "-e", "-c", marked + "\nkill %1"], cwd=clone, text=True, timeout=200,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(self.cluster.environment, PATH=f"{tools}:{os.environ['PATH']}"))
        self.assertEqual(done.returncode, 0, done.stdout)
        said = {}
        for part in done.stdout.split("\n== ")[1:]:
            number, _, text = part.partition("\n")
            said[lines[int(number)]] = text
        answer = lambda words: json.loads(next(text for line, text in said.items() if line.endswith(words)))
        self.assertEqual(answer("$jobs/first")["state"], "done", done.stdout)
        self.assertTrue(answer("$jobs/first/audit")["ok"])
        self.assertTrue(answer("-X DELETE $jobs/first")["deleting"])
        text_of = lambda words: next(text for line, text in said.items() if line.endswith(words))
        self.assertIn("worker-0: ", text_of("/logs"))
        self.assertRegex(text_of("/events"), r"view 1 of worker-\d")
        self.assertIn("event: done", text_of("/events"))
        self.until("the end of its pods", lambda: not self.cluster.get("-n", "muster-jobs", "pods"))


if __name__ == "__main__":
    main()
