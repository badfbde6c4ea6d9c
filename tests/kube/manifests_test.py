"""Every manifest passes the API's own check, strictly and at the restricted level, and broken ones do not."""

import collections
import copy
import json
import re
import secrets
import shutil

from cluster import CACHE, ROOT, ClusterTest, main

K8S = ROOT / "deploy/k8s"
OF_ANY_NAMESPACE = ("jobs/guest-job", "jobs/guest-elastic", "jobs/guest-jobset", "jobs/guest-servers", "jobs/trainjob")
FOLDERS = (*OF_ANY_NAMESPACE, "jobs/scale-by-metric", "base", "overlays/dev", "overlays/prod", "overlays/gpu",
           "overlays/kubeflow")
# What no overlay has: each beside the base.
COMPONENTS = ("tls-files", "rdma", "prometheus", "grafana", "webhooks")
# All that go together, beside that overlay; as people make their own.
TOGETHER = {"everything": ("prod", ("prometheus", "grafana", "webhooks", "rdma")), "watched": ("prod", ("prometheus",))}
# In which overlays pods may do more than the restricted level lets them, and what.
PRIVILEGED = {"rdma": "IPC_LOCK", "everything": "IPC_LOCK"}

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


def one(objects, kind, name=None):
    """The only one."""
    found = [each for each in objects if each["kind"] == kind and name in (None, each["metadata"]["name"])]
    assert len(found) == 1, (kind, name, found)
    return found[0]


class Manifests(ClusterTest):
    options = {"nodes": 0, "jobset": True}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # The kinds of Kueue without the controller, which would have to run for its webhooks.
        cls.cluster.kubectl("apply", "--server-side", "-f", CACHE / "manifests/kueue-crds.yaml")

    def refusal(self, objects, namespace):
        """What the API says against them; empty: nothing. A Job's pods are looked at as pods, as its level warns."""
        text = "\n".join(map(json.dumps, objects))
        of_namespace = ["-n", namespace] if namespace else []
        return self.cluster.refusal("apply", *of_namespace, "--server-side", "--dry-run=server", "--validate=strict",
                                    "-f", "-", text=text)

    def pods_of(self, objects):
        for each in objects:
            spec = each.get("spec", {})
            if each["kind"] == "CronJob":
                spec = spec["jobTemplate"]["spec"]
            if each["kind"] == "ClusterTrainingRuntime":
                spec = spec["template"]["spec"]
            if "replicatedJobs" in spec:
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

    def copied(self):
        """The manifests, with what people put beside them."""
        copy_of = self.cluster.folder / "k8s"
        if not copy_of.exists():
            shutil.copytree(K8S, copy_of)
            (copy_of / "overlays/dev/join.secret").write_text(f"muster-join-{secrets.token_hex(16)}\n")
            made = {name: ("../base", (name,)) for name in COMPONENTS} | TOGETHER
            for name, (beside, components) in made.items():
                overlay = copy_of / "overlays" / name
                overlay.mkdir()
                (overlay / "kustomization.yaml").write_text(json.dumps({
                    "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
                    "resources": [f"../{beside}"],
                    "components": [f"../../components/{component}" for component in components]}))
        return copy_of

    def assert_taken(self, objects, namespace, level_of_pods):
        self.assertEqual(self.refusal(objects, None), "")
        for pod in [*self.pods_of(objects), *self.launched_pods(objects, level_of_pods)]:
            pod["metadata"].pop("namespace", None)
            self.assertEqual(self.refusal([pod], level_of_pods), "")

    def test_all_are_taken(self):
        namespace, privileged = self.namespace("all"), self.namespace("all-privileged", "privileged")
        for name in ("muster-system", "muster-jobs", "muster-rdma", "muster-scaling"):
            self.namespace(name)
        for account in ("muster-worker", "muster-coordinator"):
            for each in (namespace, privileged):
                self.cluster.kubectl("create", "serviceaccount", "-n", each, account)
        for folder in (*FOLDERS, *(f"overlays/{name}" for name in (*COMPONENTS, *TOGETHER))):
            with self.subTest(folder):
                of_any = folder in OF_ANY_NAMESPACE
                objects = self.cluster.objects(self.copied() / folder, namespace if of_any else None)
                self.assertGreater(len(objects), 0)
                more = PRIVILEGED.get(folder.split("/")[-1])
                self.assert_taken(objects, namespace, privileged if more else namespace)
                if more:  # and for that alone, which the restricted level refuses
                    said = "".join(self.refusal([pod], namespace) for pod in self.launched_pods(objects, namespace))
                    self.assertIn(more, said)

    def test_every_component_is_checked(self):
        """In an overlay, or beside the base."""
        used = set(COMPONENTS)
        for kustomization in K8S.glob("**/kustomization.yaml"):
            lines = [line for line in kustomization.read_text().splitlines() if not line.startswith("#")]
            used |= set(re.findall(r"components/([a-z-]+)", "\n".join(lines)))
        self.assertEqual({folder.name for folder in (K8S / "components").iterdir()} - used, set())

    def test_what_watches_is_whole(self):
        for name in ("muster-system", "muster-jobs"):
            self.namespace(name)
        objects = [each for name in ("prometheus", "grafana")
                   for each in self.cluster.objects(self.copied() / "overlays" / name)]
        kinds = collections.Counter(each["kind"] for each in objects)
        self.assertEqual((kinds["PodMonitor"], kinds["PrometheusRule"]), (2, 1))
        dashboards = [each for each in objects if each["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]
        self.assertEqual(len(dashboards), 4)
        monitor = next(each for each in objects if each["kind"] == "PodMonitor")
        monitor["spec"]["podMetricsEndpoints"][0]["honourLabels"] = True
        self.assertIn("honourLabels", self.refusal([monitor], None))

    def test_queue_and_prometheus_are_where_the_jobs_are(self):
        for name, namespace in {"everything": "muster-rdma", "watched": "muster-jobs"}.items():
            with self.subTest(name):
                self.namespace(namespace)
                objects = self.cluster.objects(self.copied() / "overlays" / name)
                coordinator = one(objects, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
                self.assertIn({"name": "LAUNCH_NAMESPACE", "value": namespace}, coordinator["env"])
                self.assertEqual(one(objects, "LocalQueue")["metadata"]["namespace"], namespace)
                queue = one(objects, "ClusterQueue")["spec"]
                self.assertIn(namespace, queue["namespaceSelector"]["matchExpressions"][0]["values"])
                covered = queue["resourceGroups"][0]["coveredResources"]
                for pod in self.launched_pods(objects, namespace):
                    self.assertLessEqual(pod["spec"]["containers"][0]["resources"]["requests"].keys(), set(covered))
                self.assertEqual(covered, [each["name"] for flavor in queue["resourceGroups"][0]["flavors"]
                                           for each in flavor["resources"]])
                monitor = one(objects, "PodMonitor", "muster-members")
                self.assertIn(namespace, monitor["spec"]["namespaceSelector"]["matchNames"])
                ways = [each for each in objects if each["kind"] == "NetworkPolicy"
                        and each["metadata"]["name"] == "prometheus"]
                self.assertEqual({each["metadata"]["namespace"] for each in ways}, {"muster-system", namespace})
                # Rules are about series, of whatever namespace.
                self.assertNotIn("namespace", json.dumps(one(objects, "PrometheusRule")["spec"]))

    def test_pods_of_ones_own_reach_each_other_and_nobody_else(self):
        """By the labels that they get: of their templates, and of what a TrainJob patches into its runtime."""
        for folder in OF_ANY_NAMESPACE:
            with self.subTest(folder):
                objects = self.cluster.objects(K8S / folder, "default")
                policy = one(objects, "NetworkPolicy")["spec"]
                labels = policy["podSelector"]["matchLabels"]
                pods = list(self.pods_of(objects + [
                    {"kind": "ClusterTrainingRuntime", "spec": patch["trainingRuntimeSpec"]}
                    for each in objects for patch in each.get("spec", {}).get("runtimePatches", ())]))
                self.assertEqual(len(pods), 1)
                self.assertLessEqual(labels.items(), pods[0]["metadata"]["labels"].items())
                self.assertGreater(len(labels), 0, "it would be for all pods of the namespace")
                among = [{"podSelector": {"matchLabels": labels}}]
                self.assertEqual(policy["policyTypes"], ["Ingress", "Egress"])
                self.assertEqual(policy["ingress"], [{"from": among}])
                self.assertEqual(policy["egress"][0], {"to": among})
                self.assertEqual([(port["port"], port["protocol"]) for port in policy["egress"][1]["ports"]],
                                 [(53, "UDP"), (53, "TCP")])
                self.assertEqual(len(policy["egress"]), 2)

    def test_no_image_is_asked_for_that_a_node_has(self):
        """Without a tag Kubernetes would ask a registry for it each time, one that is called localhost."""
        for file in K8S.glob("**/*.yaml"):
            lines = file.read_text().splitlines()
            for at, line in enumerate(lines):
                if "image: localhost/muster" in line and file.name != "trainjob.yaml":  # its runtime says it
                    self.assertIn("imagePullPolicy: IfNotPresent", lines[at + 1], file)

    def test_templates_of_pods_differ_in_what_they_are_for(self):
        """Kustomize does not look into them, so each is written out."""
        lines = lambda name: {line for line in (K8S / name / "worker-pod.yaml").read_text().splitlines()
                              if not line.startswith("#")}
        base, gpu, rdma = lines("base"), lines("components/nvidia-gpu"), lines("components/rdma")
        self.assertEqual(base - gpu, set())
        self.assertEqual({line.split(":")[0].strip() for line in gpu - rdma}, {"requests", "limits", "capabilities"})

    def test_broken_ones_are_refused(self):
        namespace = self.namespace("broken")
        job = next(each for each in self.cluster.objects(K8S / "jobs/guest-job", namespace) if each["kind"] == "Job")
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
