"""Every manifest passes the API's own check, strictly and at the restricted level, and broken ones do not."""

import collections
import copy
import json
import os

from cluster import ROOT, ClusterTest, main

FOLDERS = [ROOT / "deploy/k8s" / name for name in ("base", "jobs/guest-job", "jobs/guest-jobset")]
WATCHING = ("prometheus", "grafana")  # components, which are taken with the base

# What is broken of guest-job's Job, and a word of the refusal. Paths lead to what is replaced; None removes it.
POD = ("spec", "template", "spec")
CONTAINER = (*POD, "containers", 0)
BROKEN = {
    "a field that does not exist": ((*CONTAINER, "imagePullPolcy"), "Always", "not declared in schema"),
    "no container": ((*POD, "containers"), [], "containers"),
    "an image without a name": ((*CONTAINER, "image"), "", "image"),
    "a policy that restarts in place": ((*POD, "restartPolicy"), "Always", "restartPolicy"),
    "fewer completions than none": (("spec", "completions"), -1, "completions"),
    "an index for no indexed job": (("spec", "completionMode"), "NonIndexed", "successPolicy"),
    "an operator that does not exist": (
        ("spec", "podFailurePolicy", "rules", 0, "onExitCodes", "operator"), "Equals", "operator"),
    "exit code 0 as a failure": (
        ("spec", "podFailurePolicy", "rules", 0, "onExitCodes", "values"), [0], "values"),
    "an action that does not exist": (("spec", "podFailurePolicy", "rules", 0, "action"), "Stop", "action"),
    "replacement before the end": (("spec", "podReplacementPolicy"), "TerminatingOrFailed", "podReplacementPolicy"),
    "a name that is none of DNS": (("metadata", "name"), "Train_1", "name"),
    "a subdomain that is none of DNS": ((*POD, "subdomain"), "a b", "subdomain"),
    "a volume that is not there": ((*CONTAINER, "volumeMounts", 0, "name"), "elsewhere", "volumeMounts"),
    "a quantity that is none": ((*CONTAINER, "resources", "requests", "cpu"), "one", "quantit"),
    "a limit below the request": ((*CONTAINER, "resources", "limits", "memory"), "1Gi", "memory"),
    "root": ((*POD, "securityContext", "runAsUser"), 0, "runAsUser"),
    "no word of root": ((*POD, "securityContext", "runAsNonRoot"), None, "runAsNonRoot"),
    "privilege": ((*CONTAINER, "securityContext", "privileged"), True, "privileged"),
    "escalation": ((*CONTAINER, "securityContext", "allowPrivilegeEscalation"), None, "allowPrivilegeEscalation"),
    "capabilities": ((*CONTAINER, "securityContext", "capabilities", "add"), ["NET_ADMIN"], "capabilities"),
    "no seccomp": ((*POD, "securityContext", "seccompProfile"), None, "seccomp"),
    "the host's network": ((*POD, "hostNetwork"), True, "host"),
    "a folder of the host": ((*POD, "volumes", 0), {"name": "training", "hostPath": {"path": "/"}}, "hostPath"),
}


class Manifests(ClusterTest):
    options = {"nodes": 0, "jobset": True}

    def refusal(self, objects, namespace):
        """What the API says against them; empty: nothing. A Job's pods are looked at as pods, as its level warns."""
        text = "\n".join(map(json.dumps, objects))
        of_namespace = ["-n", namespace] if namespace else []
        return self.cluster.refusal("apply", *of_namespace, "--server-side", "--dry-run=server", "--validate=strict",
                                    "-f", "-", text=text)

    def pods_of(self, objects):
        for each in objects:
            spec = each.get("spec", {})
            if each["kind"] == "JobSet":
                spec = spec["replicatedJobs"][0]["template"]["spec"]
            if "template" in spec:
                pod = copy.deepcopy(spec["template"])
                pod.setdefault("metadata", {})["name"] = "pod"
                for claim in spec.get("volumeClaimTemplates", []):  # which a StatefulSet's pods have besides
                    pod["spec"]["volumes"].append({"name": claim["metadata"]["name"], "emptyDir": {}})
                yield {"apiVersion": "v1", "kind": "Pod", **pod}

    def launched_pods(self, objects, namespace):
        """Of the template from which the coordinator makes pods."""
        for each in objects:
            if each["kind"] == "ConfigMap" and "worker-pod.yaml" in each.get("data", {}):
                text = each["data"]["worker-pod.yaml"].replace("metadata:", "metadata:\n  name: worker", 1)
                yield json.loads(self.cluster.kubectl(
                    "create", "-n", namespace, "--dry-run=client", "--validate=false", "-o", "json", "-f", "-",
                    text="apiVersion: v1\nkind: Pod\n" + text))

    def test_all_are_taken(self):
        namespace = self.namespace("all")
        for name in ("muster-system", "muster-jobs"):
            self.namespace(name)
        for account in ("muster-worker", "muster-coordinator"):
            self.cluster.kubectl("create", "serviceaccount", "-n", namespace, account)
        for folder in FOLDERS:
            with self.subTest(folder.name):
                objects = self.cluster.objects(folder, None if folder.name == "base" else namespace)
                self.assertNotIn("rror", self.refusal(objects, None))
                for pod in [*self.pods_of(objects), *self.launched_pods(objects, namespace)]:
                    pod["metadata"].pop("namespace", None)
                    self.assertEqual(self.refusal([pod], namespace), "")

    def test_components_are_taken(self):
        for name in ("muster-system", "muster-jobs"):
            self.namespace(name)
        folder = self.cluster.folder / "watched"
        folder.mkdir()
        (folder / "kustomization.yaml").write_text(json.dumps({
            "resources": [str(os.path.relpath(FOLDERS[0], folder))],
            "components": [str(os.path.relpath(ROOT / "deploy/k8s/components" / name, folder)) for name in WATCHING]}))
        objects = self.cluster.objects(folder)
        self.assertEqual(self.refusal(objects, None), "")
        kinds = collections.Counter(each["kind"] for each in objects)
        self.assertEqual((kinds["PodMonitor"], kinds["PrometheusRule"]), (2, 1))
        dashboards = [each for each in objects if each["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]
        self.assertEqual(len(dashboards), 4)
        monitor = next(each for each in objects if each["kind"] == "PodMonitor")
        monitor["spec"]["podMetricsEndpoints"][0]["honourLabels"] = True
        self.assertIn("honourLabels", self.refusal([monitor], None))

    def test_broken_ones_are_refused(self):
        namespace = self.namespace("broken")
        job = next(each for each in self.cluster.objects(FOLDERS[1], namespace) if each["kind"] == "Job")
        self.assertGreaterEqual(len(BROKEN), 20)
        for what, (path, value, word) in BROKEN.items():
            with self.subTest(what):
                broken = copy.deepcopy(job)
                place = broken
                for key in path[:-1]:
                    place = place[key]
                if value is None:
                    place.pop(path[-1])
                else:
                    place[path[-1]] = value
                pods = [{**pod, "metadata": {**pod["metadata"], "namespace": namespace}}
                        for pod in self.pods_of([broken])]
                said = self.refusal([broken], namespace) or self.refusal(pods, namespace)
                self.assertIn(word, said)


if __name__ == "__main__":
    main()
