"""Every manifest passes the API's own check, strictly and at the restricted level, and broken ones do not.

Whether the manifests of an overlay fit each other is seen without a cluster: manifests_test.py Built
"""

import base64
import collections
import copy
import json
import pathlib
import re
import secrets
import shutil
import subprocess
import tempfile
import textwrap
import unittest

from cluster import CACHE, KUBECTL, ROOT, ClusterTest, decoded, main

K8S = ROOT / "deploy/k8s"
DOCUMENT = ROOT / "docs/kubernetes.md"
OF_PLUGINS = {"jobs/guest-plugin-image": "localhost/muster-plugins", "jobs/guest-plugin-volume": "localhost/muster"}
OF_ANY_NAMESPACE = ("jobs/guest-job", "jobs/guest-elastic", "jobs/guest-jobset", "jobs/guest-servers", "jobs/trainjob",
                    *OF_PLUGINS)
FOLDERS = (*OF_ANY_NAMESPACE, "jobs/scale-by-metric", "base", "overlays/dev", "overlays/prod", "overlays/gpu",
           "overlays/kubeflow")
# What no overlay has: each beside the base.
COMPONENTS = ("tls-files", "rdma", "prometheus", "grafana", "webhooks", "mlflow")
# All that go together, beside that overlay; as people make their own.
TOGETHER = {
    "everything": ("prod", ("prometheus", "grafana", "webhooks", "mlflow", "rdma")),
    "watched": ("prod", ("prometheus",)),
    "cards": ("prod", ("rdma",)),
    "gpu-and-cards": ("gpu", ("prometheus", "rdma")),
    "dev-gpu": ("dev", ("nvidia-gpu",)),
    "dev-cards": ("dev", ("prometheus", "rdma")),
}
MADE = {name: ("../base", (name,)) for name in COMPONENTS} | TOGETHER
# Of sections of the document, as they are written there.
OF_DOCUMENT = ("data", "plugins", "streams", "cache", "curves")
# With a coordinator that makes pods.
HOST_MODE = ("base", "overlays/dev", "overlays/prod", "overlays/gpu",
             *(f"overlays/{name}" for name in (*OF_DOCUMENT, *MADE)))
# In which overlays pods may do more than the restricted level lets them, and what.
PRIVILEGED = {name: "IPC_LOCK" for name, (_, components) in MADE.items() if "rdma" in components}
# What whoever applies an overlay makes first in the namespace of jobs, and what the base leaves to an overlay.
BY_HAND = {("Secret", "muster-join")}
OF_OVERLAYS = {("PersistentVolumeClaim", "muster-checkpoints")}
PLUGIN_FOLDER = "/opt/muster/lib/muster/plugins"  # where every worker of the image looks
COORDINATOR = "/opt/muster/bin/muster-coordinator"
GPU = "nvidia.com/gpu"  # which the coordinator adds to the template of pods

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


def copied(into):
    """The manifests, with what people put beside them."""
    copy_of = into / "k8s"
    if not copy_of.exists():
        shutil.copytree(K8S, copy_of)
        (copy_of / "overlays/dev/join.secret").write_text(f"muster-join-{secrets.token_hex(16)}\n")
        for name, (beside, components) in MADE.items():
            put_overlay(copy_of, name, beside, components)
        put_data(copy_of)
        put_plugins(copy_of)
        put_streams(copy_of)
        put_cache(copy_of)
        put_files(copy_of, "curves", {"kustomization.yaml": next(written("Curves"))})
    return copy_of


def written(title):
    """What is indented in that section of the document."""
    section = DOCUMENT.read_text().split(f"\n### {title}\n")[1].split("\n### ")[0]
    return map(textwrap.dedent, re.findall("(?:^    .*\n)+", section, re.MULTILINE))


def put_data(copy_of):
    """The overlay of the section about data, as it is written there."""
    claim, more, kustomization, policy = written("Data")
    put_mounted(copy_of, "data", more, {"data.yaml": claim + "---\n" + policy, "kustomization.yaml": kustomization})


def put_plugins(copy_of):
    """The overlay of the section about plug-ins, likewise."""
    claim, more, kustomization = written("Plug-ins")
    put_mounted(copy_of, "plugins", more, {"plugins.yaml": claim, "kustomization.yaml": kustomization})


def put_streams(copy_of):
    """The overlay of the section about streams, likewise."""
    claim, more, kustomization = written("Streams")
    put_mounted(copy_of, "streams", more, {"streams.yaml": claim, "kustomization.yaml": kustomization})


def put_cache(copy_of):
    """The overlay of the section about what pods keep, likewise: with another volume in the place of one."""
    claim, volume, kustomization = written("What pods keep")
    pod, count = re.subn("^( *)- name: cache .*\n.*\n", lambda found: found[1] + volume.splitlines()[-1] + "\n",
                         (K8S / "base/worker-pod.yaml").read_text(), flags=re.MULTILINE)
    assert count == 1, pod
    put_files(copy_of, "cache", {"cache.yaml": claim, "kustomization.yaml": kustomization, "worker-pod.yaml": pod})


def put_mounted(copy_of, name, more, files):
    """An overlay whose pods have one volume more."""
    pod = (K8S / "base/worker-pod.yaml").read_text()
    for key, item in re.findall("^(volumeMounts|volumes):\n(- .*\n)", more, re.MULTILINE):
        pod = re.sub(f"^( *){key}:\n", lambda found: found[0] + found[1] + item, pod, count=1, flags=re.MULTILINE)
    put_files(copy_of, name, {**files, "worker-pod.yaml": pod})


def put_files(copy_of, name, files):
    overlay = copy_of / "overlays" / name
    overlay.mkdir()
    for file, text in files.items():
        (overlay / file).write_text(text)


def put_overlay(copy_of, name, beside, components):
    overlay = copy_of / "overlays" / name
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(json.dumps({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [f"../{beside}"],
        "components": [f"../../components/{component}" for component in components]}))


def kubectl(*words, text=None):
    return subprocess.run([KUBECTL, *words], input=text, text=True, check=True, stdout=subprocess.PIPE).stdout


def as_objects(text):
    """Of YAML, by kubectl alone: a patch of nothing, which asks no cluster."""
    return decoded(kubectl("patch", "--local", "--type=merge", "--patch={}", "-o", "json", "-f", "-", text=text))


def launched_pods(objects):
    """Of the template from which the coordinator makes pods."""
    for each in objects:
        if each["kind"] == "ConfigMap" and "worker-pod.yaml" in each.get("data", {}):
            text = each["data"]["worker-pod.yaml"].replace("metadata:", "metadata:\n  name: worker", 1)
            yield from as_objects("apiVersion: v1\nkind: Pod\n" + text)


def pods_of(objects):
    """Of what makes pods, one each."""
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


def launch_namespace(objects):
    coordinator = one(objects, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    return next(each["value"] for each in coordinator["env"] if each["name"] == "LAUNCH_NAMESPACE")


def asked_for(pod):
    """The resources that a launched pod may ask for."""
    names = {GPU for each in pod["spec"]["tolerations"] if each["key"] == GPU}
    for container in pod["spec"]["containers"] + pod["spec"].get("initContainers", []):
        for way in ("requests", "limits"):
            names |= container["resources"].get(way, {}).keys()
    return names


def needed_by(pod):
    """The objects of its namespace that a pod names."""
    spec = pod["spec"]
    found = {("ServiceAccount", spec["serviceAccountName"])}
    found |= {("Secret", each["name"]) for each in spec.get("imagePullSecrets", [])}
    for volume in spec["volumes"]:
        for source in (volume, *volume.get("projected", {}).get("sources", [])):
            for key, kind, name in (("persistentVolumeClaim", "PersistentVolumeClaim", "claimName"),
                                    ("secret", "Secret", "secretName"), ("configMap", "ConfigMap", "name")):
                if key in source:
                    found.add((kind, source[key].get(name) or source[key]["name"]))
    for container in spec["containers"] + spec.get("initContainers", []):
        for each in container.get("envFrom", []) + [each.get("valueFrom", {}) for each in container.get("env", [])]:
            for key, kind in (("secretRef", "Secret"), ("secretKeyRef", "Secret"),
                              ("configMapRef", "ConfigMap"), ("configMapKeyRef", "ConfigMap")):
                if key in each:
                    found.add((kind, each[key]["name"]))
    return found


def in_namespaces(objects):
    """What is in each namespace, by kind and name."""
    found = collections.defaultdict(dict)
    for each in objects:
        if "namespace" in each["metadata"]:
            found[each["metadata"]["namespace"]][each["kind"], each["metadata"]["name"]] = each
    return found


class Built(unittest.TestCase):
    """What kustomize makes of each overlay with a coordinator that makes pods."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="muster-manifests-")
        cls.addClassCleanup(folder.cleanup)
        cls.copy_of = copied(pathlib.Path(folder.name))
        cls.made = {name: cls.build(name) for name in HOST_MODE}

    @classmethod
    def build(cls, name):
        return as_objects(kubectl("kustomize", cls.copy_of / name))

    def test_every_component_is_checked(self):
        """In an overlay, or beside the base."""
        used = set(COMPONENTS)
        for kustomization in K8S.glob("**/kustomization.yaml"):
            lines = [line for line in kustomization.read_text().splitlines() if not line.startswith("#")]
            used |= set(re.findall(r"components/([a-z-]+)", "\n".join(lines)))
        self.assertEqual({folder.name for folder in (K8S / "components").iterdir()} - used, set())

    def test_all_is_where_the_jobs_are(self):
        """What the base has for pods, unchanged, and no namespace besides."""
        of_base = in_namespaces(self.made["base"])["muster-jobs"]
        self.assertEqual({kind for kind, _ in of_base}, {"ServiceAccount", "Role", "RoleBinding", "NetworkPolicy",
                                                         "ResourceQuota", "LimitRange"})
        for name, objects in self.made.items():
            with self.subTest(name):
                namespace = launch_namespace(objects)
                self.assertEqual(namespace, "muster-rdma" if name.split("/")[-1] in PRIVILEGED else "muster-jobs")
                found = in_namespaces(objects)
                self.assertEqual(found.keys(), {"muster-system", namespace})
                self.assertEqual({each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"},
                                 found.keys())
                for key, each in of_base.items():
                    there = copy.deepcopy(found[namespace][key])
                    there["metadata"]["namespace"] = "muster-jobs"
                    self.assertEqual(there, each)
                way_in = found["muster-system"]["NetworkPolicy", "coordinator"]["spec"]["ingress"][0]["from"]
                self.assertEqual([each["namespaceSelector"]["matchLabels"] for each in way_in],
                                 [{"kubernetes.io/metadata.name": namespace}])

    def test_the_coordinator_has_rights_where_it_makes_pods_and_nowhere_else(self):
        for name, objects in self.made.items():
            with self.subTest(name):
                account = {"kind": "ServiceAccount", "name": "muster-coordinator", "namespace": "muster-system"}
                given = [each for each in objects if each["kind"] in ("RoleBinding", "ClusterRoleBinding")
                         and account in each["subjects"]]
                self.assertEqual([(each["kind"], each["metadata"].get("namespace")) for each in given],
                                 [("RoleBinding", launch_namespace(objects))])
                roles = [each for each in objects if each["kind"] in ("Role", "ClusterRole")]
                self.assertEqual([(each["kind"], each["metadata"]["name"]) for each in roles],
                                 [(given[0]["roleRef"]["kind"], given[0]["roleRef"]["name"])])
                self.assertEqual(roles[0]["metadata"]["namespace"], launch_namespace(objects))
                self.assertIn({"apiGroups": ["batch"], "resources": ["jobs"],
                               "verbs": ["create", "patch", "delete", "list", "watch"]}, roles[0]["rules"])

    def test_launched_pods_find_what_they_name(self):
        """Or whoever applies the overlay makes it, in a namespace that documents name."""
        said = DOCUMENT.read_text() + (K8S / "overlays/prod/kustomization.yaml").read_text()
        for name, objects in self.made.items():
            with self.subTest(name):
                namespace = launch_namespace(objects)
                beside = MADE.get(name.split("/")[-1], [name])[0].split("/")[-1]
                by_hand = {"base": BY_HAND | OF_OVERLAYS, "dev": set()}.get(beside, BY_HAND)
                there = in_namespaces(objects)[namespace]
                pods = list(launched_pods(objects))
                self.assertEqual(len(pods), 1)
                needed = needed_by(pods[0])
                self.assertLessEqual({("ServiceAccount", "muster-worker")} | BY_HAND | OF_OVERLAYS, needed)
                self.assertEqual(needed - there.keys(), by_hand)
                for kind, secret in by_hand - OF_OVERLAYS:
                    command = f"kubectl create secret generic -n {namespace} {secret} "
                    self.assertTrue(command in said, f"no document has: {command}")
                # Each claim has a volume that is kept for it.
                kept = collections.Counter((each["spec"]["claimRef"]["namespace"], each["spec"]["claimRef"]["name"])
                                           for each in objects if each["kind"] == "PersistentVolume")
                claims = [(each["metadata"]["namespace"], each["metadata"]["name"])
                          for each in objects if each["kind"] == "PersistentVolumeClaim"
                          and each["metadata"]["name"] == "muster-checkpoints"]
                self.assertEqual(kept, collections.Counter(claims))

    def test_data_is_mounted_as_the_document_says(self):
        objects = self.made["overlays/data"]
        pod = next(launched_pods(objects))
        container, = pod["spec"]["containers"]
        self.assertIn({"name": "data", "mountPath": "/data", "readOnly": True}, container["volumeMounts"])
        self.assertIn(("PersistentVolumeClaim", "data"), needed_by(pod))
        self.assertEqual(one(objects, "NetworkPolicy", "data")["spec"]["podSelector"],
                         one(objects, "NetworkPolicy", "workers")["spec"]["podSelector"])
        # By another name, so that the coordinator is started anew and reads it.
        names = {name: [each["configMap"]["name"] for each in
                        one(self.made[name], "StatefulSet")["spec"]["template"]["spec"]["volumes"]
                        if "configMap" in each] for name in ("overlays/data", "overlays/prod")}
        self.assertNotEqual(names["overlays/data"], names["overlays/prod"])

    def test_plugins_come_in_the_image_or_in_a_volume_that_no_job_writes_to(self):
        for folder, image in OF_PLUGINS.items():
            with self.subTest(folder):
                objects = self.build(folder)
                pod = one(objects, "Job", "train")["spec"]["template"]["spec"]
                container, = pod["containers"]
                self.assertEqual(container["image"], image)
                self.assertIn("\ntask: mlp\n", one(objects, "ConfigMap", "train")["data"]["training.yaml"])
                mounted = [each for each in container["volumeMounts"] if each["mountPath"] == PLUGIN_FOLDER]
                if image == "localhost/muster":
                    self.assertEqual([(each["name"], each["readOnly"]) for each in mounted], [("plugins", True)])
                    volume = next(each for each in pod["volumes"] if each["name"] == "plugins")
                    claim = volume["persistentVolumeClaim"]
                    self.assertTrue(claim["readOnly"])
                    self.assertEqual(one(objects, "PersistentVolumeClaim", claim["claimName"])["spec"]["accessModes"],
                                     ["ReadOnlyMany"])
                else:
                    self.assertEqual(mounted, [])
                    layer = (K8S / folder / "Containerfile").read_text()
                    self.assertRegex(layer, rf"\nFROM localhost/muster\nCOPY --chmod=644 mlp.so {PLUGIN_FOLDER}/\n")
                    self.assertIn(f"--tag {image} ", layer)

    def test_plugins_are_mounted_in_launched_pods_as_the_document_says(self):
        pod = next(launched_pods(self.made["overlays/plugins"]))
        container, = pod["spec"]["containers"]
        self.assertIn({"name": "plugins", "mountPath": PLUGIN_FOLDER, "readOnly": True}, container["volumeMounts"])
        self.assertIn(("PersistentVolumeClaim", "plugins"), needed_by(pod))

    def test_files_of_streams_are_mounted_in_launched_pods_as_the_document_says(self):
        objects = self.made["overlays/streams"]
        pod = next(launched_pods(objects))
        container, = pod["spec"]["containers"]
        self.assertIn({"name": "streams", "mountPath": "/streams", "readOnly": True}, container["volumeMounts"])
        self.assertIn(("PersistentVolumeClaim", "streams"), needed_by(pod))
        self.assertEqual(one(objects, "PersistentVolumeClaim", "streams")["spec"]["accessModes"], ["ReadWriteMany"])

    def test_what_pods_keep_is_in_a_volume_of_the_document(self):
        objects = self.made["overlays/cache"]
        pod = next(launched_pods(objects))
        self.assertEqual([each["persistentVolumeClaim"] for each in pod["spec"]["volumes"] if each["name"] == "cache"],
                         [{"claimName": "cache"}])
        self.assertEqual(one(objects, "PersistentVolumeClaim", "cache")["spec"]["accessModes"], ["ReadWriteMany"])

    def test_what_is_prepared_is_not_in_the_memory_of_the_keys(self):
        """Wherever workers run: there it would take the room of the keys, and the pod's memory."""
        seen = collections.Counter()
        guests = {name: self.build(name) for name in (*OF_ANY_NAMESPACE, "overlays/kubeflow")}
        for name, objects in {**self.made, **guests}.items():
            for pod in (*pods_of(objects), *launched_pods(objects)):
                for container in pod["spec"]["containers"]:
                    is_ours = container["image"].startswith("localhost/muster")
                    if not is_ours or container.get("command") == [COORDINATOR]:
                        continue
                    with self.subTest(name, container=container["name"]):
                        seen[name] += 1
                        places = [each["value"] for each in container["env"] if each["name"] == "XDG_CACHE_HOME"]
                        mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
                        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
                        self.assertEqual(len(places), 1)
                        mount = mounts[places[0]]
                        self.assertFalse(mount.get("readOnly"))
                        volume = volumes[mount["name"]]
                        if "persistentVolumeClaim" not in volume:
                            self.assertEqual(volume["emptyDir"].keys(), {"sizeLimit"}, "on disk, with a bound")
                        # The home of the image's user, for keys.
                        self.assertNotEqual(mounts["/tmp"]["name"], mount["name"])
                        self.assertEqual(volumes[mounts["/tmp"]["name"]]["emptyDir"]["medium"], "Memory")
        # A TrainJob's pods are those of its runtime.
        self.assertEqual(set(seen), {*self.made, *guests} - {"jobs/trainjob"})
        self.assertEqual(set(seen.values()), {1})

    def test_histories_lie_on_the_volume_of_the_store(self):
        for name, objects in self.made.items():
            with self.subTest(name):
                coordinator = one(objects, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
                self.assertEqual(coordinator["command"], [COORDINATOR])
                said = dict(word.removeprefix("--").split("=", 1) for word in coordinator["args"] if "=" in word)
                mount = next(each for each in coordinator["volumeMounts"] if each["name"] == "store")
                self.assertFalse(mount.get("readOnly"))
                claims = one(objects, "StatefulSet")["spec"]["volumeClaimTemplates"]
                self.assertEqual([each["metadata"]["name"] for each in claims], ["store"])
                places = [pathlib.PurePath(said[each]) for each in ("dir", "history-dir", "tensorboard-dir")]
                self.assertEqual({place.parent for place in places}, {pathlib.PurePath(mount["mountPath"])})
                self.assertEqual(len(set(places)), 3)

    def test_who_reads_histories_as_the_document_says_reads_nothing_else_of_the_store(self):
        coordinator, curves = one(self.made["overlays/curves"], "StatefulSet")["spec"]["template"]["spec"]["containers"]
        self.assertEqual(coordinator["command"], [COORDINATOR])
        self.assertEqual({(each["name"], each["subPath"], each["readOnly"]) for each in curves["volumeMounts"]},
                         {("store", "history", True), ("store", "tensorboard", True)})
        for each in curves["volumeMounts"]:
            self.assertTrue(any(word.endswith(f"-dir=/store/{each['subPath']}") for word in coordinator["args"]))

    def test_mlflow_is_told_of_by_the_secret_that_its_component_speaks_of(self):
        head = (K8S / "components/mlflow/kustomization.yaml").read_text()
        said = "\n".join(re.findall("^#     (.*)", head, re.MULTILINE))
        names = set()
        for token in ("a-token", "another-token"):
            overlay = self.copy_of / "overlays" / token
            (overlay / "mlflow").mkdir(parents=True)
            (overlay / "mlflow/mlflow.token").write_text(token + "\n")
            (overlay / "mlflow/ca.pem").write_text("a certificate\n")
            (overlay / "kustomization.yaml").write_text(
                "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../../base]\n" + said)
            objects = self.build(f"overlays/{token}")
            secret = one(objects, "Secret")
            self.assertEqual(secret["metadata"]["namespace"], "muster-system")
            self.assertEqual(base64.b64decode(secret["data"]["url"]), b"https://mlflow.example.com")
            pod = one(objects, "StatefulSet")["spec"]["template"]["spec"]
            coordinator, = pod["containers"]
            env = {each["name"]: each for each in coordinator["env"]}
            self.assertIn("--mlflow=$(MLFLOW_TRACKING_URI)", coordinator["args"])
            self.assertEqual(env["MLFLOW_TRACKING_URI"]["valueFrom"]["secretKeyRef"]["key"], "url")
            asked = [each["valueFrom"]["secretKeyRef"] for name, each in env.items()
                     if name.startswith("MLFLOW_") and "valueFrom" in each]
            self.assertEqual({each["name"] for each in asked}, {secret["metadata"]["name"]})
            # Who we are there is said in one way or the other, or not at all.
            self.assertEqual({each["key"]: each.get("optional", False) for each in asked},
                             {"url": False, "token": True, "user": True, "password": True})
            volume = next(each for each in pod["volumes"] if each["name"] == "mlflow")["secret"]
            self.assertEqual(volume["secretName"], secret["metadata"]["name"])
            mount = next(each for each in coordinator["volumeMounts"] if each["name"] == "mlflow")
            self.assertTrue(mount["readOnly"])
            certificate = pathlib.PurePath(env["MLFLOW_TRACKING_SERVER_CERT_PATH"]["value"])
            self.assertEqual(str(certificate.parent), mount["mountPath"])
            self.assertEqual([each["path"] for each in volume["items"]], [certificate.name])
            self.assertLessEqual({*(each["key"] for each in volume["items"]), "url", "token"}, secret["data"].keys())
            self.assertIn({"port": 443}, [port for way in one(objects, "NetworkPolicy", "coordinator")["spec"]["egress"]
                                          for port in way["ports"]])
            names.add(secret["metadata"]["name"])
        self.assertEqual(len(names), 2, "a coordinator is started anew for another token")

    def test_a_queue_covers_what_pods_ask_for(self):
        """One that does not cover a resource admits no job that asks for it."""
        seen = set()
        for name, objects in self.made.items():
            with self.subTest(name):
                if not any(each["kind"] == "ClusterQueue" for each in objects):
                    continue
                queue = one(objects, "ClusterQueue")["spec"]
                namespace = launch_namespace(objects)
                self.assertEqual(one(objects, "LocalQueue")["metadata"]["namespace"], namespace)
                self.assertIn(namespace, queue["namespaceSelector"]["matchExpressions"][0]["values"])
                self.assertEqual(len(queue["resourceGroups"]), 1)
                covered = queue["resourceGroups"][0]["coveredResources"]
                self.assertEqual(len(covered), len(set(covered)))
                for flavor in queue["resourceGroups"][0]["flavors"]:
                    self.assertEqual(covered, [each["name"] for each in flavor["resources"]])
                for pod in launched_pods(objects):
                    self.assertLessEqual(asked_for(pod), set(covered))
                    seen |= asked_for(pod)
        self.assertEqual(seen, {"cpu", "memory", GPU, "rdma/hca_shared_devices_a"})

    def test_prometheus_finds_the_pods_and_reaches_them(self):
        watched = [name for name, (_, components) in MADE.items() if "prometheus" in components]
        self.assertGreaterEqual(len(watched), 4)
        for name, objects in self.made.items():
            with self.subTest(name):
                if name.split("/")[-1] not in watched:
                    continue
                monitor = one(objects, "PodMonitor", "muster-members")
                self.assertEqual(monitor["metadata"]["namespace"], launch_namespace(objects))
                self.assertNotIn("namespaceSelector", monitor["spec"], "it is to look in its own namespace")
                ways = [each for each in objects if each["kind"] == "NetworkPolicy"
                        and each["metadata"]["name"] == "prometheus"]
                self.assertEqual({each["metadata"]["namespace"] for each in ways},
                                 {"muster-system", launch_namespace(objects)})
                # Rules are about series, of whatever namespace.
                self.assertNotIn("namespace", json.dumps(one(objects, "PrometheusRule")["spec"]))

    def test_components_are_in_the_order_of_the_document(self):
        table = DOCUMENT.read_text().split("\n| component | adds |\n")[1].split("\n\n")[0]
        order = [name for row in table.splitlines()[1:] for name in re.findall("`([a-z-]+)`", row.split("|")[1])]
        self.assertEqual(sorted(order), sorted(folder.name for folder in (K8S / "components").iterdir()))
        self.assertLess(order.index("kueue"), order.index("nvidia-gpu"))
        lists = [re.findall(r"components/([a-z-]+)", text)
                 for file in K8S.glob("overlays/*/kustomization.yaml")
                 for text in re.findall(r"^components:((?:.*\n- )*.*)", file.read_text(), re.MULTILINE)]
        self.assertGreaterEqual(len(lists), 2)
        for components in (*lists, *(components for _, components in MADE.values())):
            self.assertEqual(list(components), sorted(components, key=order.index))

    def test_a_component_after_rdma_is_refused(self):
        """When it is applied, as it is in a namespace that is not made."""
        put_overlay(self.copy_of, "too-late", "../base", ("rdma", "kueue"))
        objects = self.build("overlays/too-late")
        self.assertEqual(in_namespaces(objects)["muster-jobs"].keys(), {("LocalQueue", "team")})
        self.assertNotIn("muster-jobs", [each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"])

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
        self.assertEqual({line.split(":")[0].strip() for line in gpu - rdma}, {
            "requests", "limits", "capabilities", "runAsNonRoot", "runAsUser"})


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

    def assert_taken(self, objects, namespace, level_of_pods):
        self.assertEqual(self.refusal(objects, None), "")
        for pod in [*pods_of(objects), *launched_pods(objects)]:
            pod["metadata"].pop("namespace", None)
            self.assertEqual(self.refusal([pod], level_of_pods), "")

    def test_all_are_taken(self):
        namespace, privileged = self.namespace("all"), self.namespace("all-privileged", "privileged")
        for name in ("muster-system", "muster-jobs", "muster-rdma", "muster-scaling"):
            self.namespace(name)
        for account in ("muster-worker", "muster-coordinator"):
            for each in (namespace, privileged):
                self.cluster.kubectl("create", "serviceaccount", "-n", each, account)
        for folder in (*FOLDERS, *(f"overlays/{name}" for name in (*OF_DOCUMENT, *MADE))):
            with self.subTest(folder):
                of_any = folder in OF_ANY_NAMESPACE
                objects = self.cluster.objects(copied(self.cluster.folder) / folder, namespace if of_any else None)
                self.assertGreater(len(objects), 0)
                more = PRIVILEGED.get(folder.split("/")[-1])
                self.assert_taken(objects, namespace, privileged if more else namespace)
                if more:  # and for that alone, which the restricted level refuses
                    said = "".join(self.refusal([pod], namespace) for pod in launched_pods(objects))
                    self.assertIn(more, said)

    def test_what_watches_is_whole(self):
        for name in ("muster-system", "muster-jobs"):
            self.namespace(name)
        objects = [each for name in ("prometheus", "grafana")
                   for each in self.cluster.objects(copied(self.cluster.folder) / "overlays" / name)]
        kinds = collections.Counter(each["kind"] for each in objects)
        self.assertEqual((kinds["PodMonitor"], kinds["PrometheusRule"]), (2, 1))
        dashboards = [each for each in objects if each["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]
        self.assertEqual(len(dashboards), 4)
        monitor = next(each for each in objects if each["kind"] == "PodMonitor")
        monitor["spec"]["podMetricsEndpoints"][0]["honourLabels"] = True
        self.assertIn("honourLabels", self.refusal([monitor], None))

    def test_pods_of_ones_own_reach_each_other_and_nobody_else(self):
        """By the labels that they get: of their templates, and of what a TrainJob patches into its runtime."""
        for folder in OF_ANY_NAMESPACE:
            with self.subTest(folder):
                objects = self.cluster.objects(K8S / folder, "default")
                policy = one(objects, "NetworkPolicy")["spec"]
                labels = policy["podSelector"]["matchLabels"]
                pods = list(pods_of(objects + [
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
                        for pod in pods_of([broken])]
                said = self.refusal([broken], namespace) or self.refusal(pods, namespace)
                self.assertIn(word, said)


if __name__ == "__main__":
    main()
