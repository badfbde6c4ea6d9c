"""The coordinator in a pod makes pods for jobs: what deploy/k8s/overlays/dev applies, typed as it stands there."""

import itertools
import json
import re

from cluster import main
from host_cluster import FIXED, JOBS, SYSTEM, HostTest, counting

ACCOUNT = "muster-coordinator"
# As what a binding may name it, by the kind of its subject: in its namespace, where that says one.
NAMES = {"ServiceAccount": [ACCOUNT], "User": [f"system:serviceaccount:{SYSTEM}:{ACCOUNT}"],
         "Group": [f"system:serviceaccounts:{SYSTEM}"]}
# What it may do as every account may.
OF_EVERYBODY = re.compile('to Group "system:(authenticated|serviceaccounts)"$')


def name_of(binding):
    """As the API's authorizer calls it."""
    parts = (binding["metadata"]["name"], binding["metadata"].get("namespace"))
    return f"{binding['kind']} {'/'.join(filter(None, parts))}"


class Host(HostTest):
    def test_a_fixed_job_is_one_jobset(self):
        self.submit("fixed", counting(FIXED, namespace="vision", labels={"team": "see"}))
        self.until_step("fixed", 10)
        for pod in self.pods("fixed"):
            self.assertIn('muster_steps_total{job="fixed"', self.metrics(pod))
        self.uid("jobsets", "fixed")
        self.assertEqual(self.objects("jobsets", "fixed")[0]["metadata"]["labels"]["team"], "see")
        self.assertEqual(len(self.pods("fixed")), 3)
        self.assertIn("muster_job", self.metrics(self.cluster.get("-n", SYSTEM, "pod", "muster-0")))
        done = self.assert_done("fixed")
        self.assertEqual((done["recoveries"], done["rewinds"]), (0, 0))

    def test_an_elastic_job_is_one_indexed_job_and_is_scaled(self):
        self.submit("elastic", counting({"min": 1, "max": 2}, epochs=8))
        self.until_step("elastic", 10)
        before = self.uid("jobs", "elastic")
        self.assertEqual(self.objects("jobsets", "elastic"), [])
        self.assertEqual(self.ask("POST", "/v1/jobs/elastic:scale", {"workers": {"min": 1, "max": 3}})[0], 200)
        self.until("three workers", lambda: self.job("elastic")["workers"] == 3, 60)
        self.assertEqual(self.ask("POST", "/v1/jobs/elastic:scale", {"workers": {"min": 1, "max": 1}})[0], 200)
        self.until("one worker", lambda: self.job("elastic")["workers"] == 1, 60)
        self.until("one pod", lambda: len(self.pods("elastic")) == 1, 60)
        self.assertEqual(self.uid("jobs", "elastic"), before)
        done = self.assert_done("elastic", epochs=8)
        self.assertEqual((done["rewinds"], done["lanes_recomputed"]), (0, 0))

    def test_servers(self):
        self.submit("servers", counting({"min": 2, "max": 2}, sync="server", servers=1))
        self.assert_done("servers")

    def test_a_pod_is_killed(self):
        self.submit("killed", counting(FIXED))
        self.until_step("killed", 50)
        self.uid("jobsets", "killed")
        pods = {pod["metadata"]["uid"] for pod in self.pods("killed")}
        self.cluster.kill_container(sorted(pods)[1])
        self.until("another pod in its place", lambda: len(
            {pod["metadata"]["uid"] for pod in self.pods("killed")} - pods) == 1, 60)
        self.assertEqual(self.assert_done("killed")["rewinds"], 0)

    def test_the_coordinators_pod_is_deleted(self):
        self.submit("adopted", counting(FIXED))
        self.until_step("adopted", 50)
        before = self.uid("jobsets", "adopted")
        pods = {pod["metadata"]["uid"] for pod in self.pods("adopted")}
        self.restart_coordinator()
        self.assertEqual(self.uid("jobsets", "adopted"), before)
        self.assertEqual({pod["metadata"]["uid"] for pod in self.pods("adopted")}, pods)
        done = self.assert_done("adopted")
        self.assertEqual((done["rewinds"], done["lanes_recomputed"]), (0, 0))

    def test_its_history_is_files_and_these_go_with_it(self):
        """Of each step once, also across another pod of the coordinator."""
        self.submit("curved", counting(FIXED))
        self.until_step("curved", 50)
        self.restart_coordinator()
        self.assert_done("curved")
        history, board = self.store / "history/curved", self.store / "tensorboard/curved"
        text = lambda: (history / "metrics.jsonl").read_text()
        steps = lambda: [json.loads(line)["step"] for line in text().split("\n")[:-1]]  # whole lines
        self.until("the last step in its file", lambda: steps() == list(range(8000)), 60)
        self.assertTrue(list(board.glob("events.out.tfevents.*")))
        self.assertEqual(self.ask("DELETE", "/v1/jobs/curved")[0], 200)
        self.until("the end of its files", lambda: not history.exists() and not board.exists(), 60)

    def test_the_coordinator_is_killed(self):
        """Its container, in the middle of a run of a job whose number of pods may change."""
        self.submit("killed-too", counting({"min": 2, "max": 3}, epochs=8))
        self.until("all workers", lambda: self.job("killed-too")["workers"] == 3)
        before = self.uid("jobs", "killed-too")
        pods = {pod["metadata"]["uid"] for pod in self.pods("killed-too")}
        self.cluster.kill_container(self.coordinator()["metadata"]["uid"])
        self.until("it to be started again", lambda: self.coordinator()["status"]["containerStatuses"][0][
            "restartCount"] > 0 and self.job("killed-too").get("state") == "running")
        self.assertEqual(self.uid("jobs", "killed-too"), before)
        self.assertEqual({pod["metadata"]["uid"] for pod in self.pods("killed-too")}, pods)
        done = self.assert_done("killed-too", epochs=8)
        self.assertEqual((done["rewinds"], done["lanes_recomputed"]), (0, 0))

    def test_it_is_stopped_and_resumed_with_other_pods(self):
        self.submit("stopped", counting(FIXED))
        self.until_step("stopped", 50)
        before = self.uid("jobsets", "stopped")
        self.ask("POST", "/v1/jobs/stopped:stop")
        self.until_state("stopped", "stopped")
        self.until("the end of its pods", lambda: not self.pods("stopped"), 60)
        self.assertEqual(self.ask("POST", "/v1/jobs", {"id": "stopped", "spec": counting(FIXED)})[0], 200)
        self.until_state("stopped", "running")
        self.assertNotEqual(self.uid("jobsets", "stopped"), before)
        self.assert_done("stopped")

    def test_its_jobset_is_deleted_behind_our_back(self):
        self.submit("gone", counting(FIXED))
        self.until_step("gone", 250)
        before = self.uid("jobsets", "gone")
        self.cluster.kubectl("delete", "jobset", "-n", JOBS, self.objects("jobsets", "gone")[0]["metadata"]["name"])
        self.until("another one", lambda: [each for each in self.objects("jobsets", "gone")
                                           if each["metadata"]["uid"] != before], 60)
        self.assert_done("gone")

    def test_what_it_waits_for_is_said(self):
        self.submit("devices", counting(FIXED, devices=1))
        self.until("the reason", lambda: "Insufficient nvidia.com/gpu" in self.job("devices")["waits_for"], 30)
        self.assertEqual(self.job("devices")["state"], "queued")
        self.ask("POST", "/v1/jobs/devices:cancel")
        self.until("the end of its pods", lambda: not self.objects("jobsets", "devices"), 30)

    def test_zz_all_rights_that_are_granted_are_used(self):
        """The last one by its name: the log has what the others have used."""
        granted, used = self.rights_granted(), self.rights_used()
        print(f"rights: {len(granted)} granted, {len(used & granted)} used")
        self.assertGreater(len(granted), 0)
        self.assertEqual(used - granted, set(), "it was allowed what no binding that was found grants")
        self.assertEqual(granted - used, set(), "it never does what it may do")

    def rights_granted(self):
        """To the coordinator's account, by all bindings that name it: the binding, the group, the resource or path, and
        the verb. What everybody may do is not among them."""
        granted = set()
        for binding in self.cluster.get("-A", "rolebindings,clusterrolebindings"):
            if not any(subject["name"] in NAMES.get(subject["kind"], ()) and
                       subject.get("namespace", SYSTEM) == SYSTEM for subject in binding.get("subjects", [])):
                continue
            namespace, role = binding["metadata"].get("namespace", ""), binding["roleRef"]
            of_namespace = ["-n", namespace] if namespace else []
            for rule in self.cluster.get(*of_namespace, role["kind"].lower(), role["name"]).get("rules") or ():
                for what in (*itertools.product(rule.get("apiGroups", ()), rule.get("resources", ())),
                             *(("", path) for path in rule.get("nonResourceURLs", ()))):
                    granted |= {(name_of(binding), *what, verb) for verb in rule["verbs"]}
        return granted

    def rights_used(self):
        """As the audit log tells them, likewise: by what binding a call was allowed stands in each of its lines."""
        used = set()
        for line in (self.cluster.folder / "audit.log").read_text().splitlines():
            call = json.loads(line)
            notes, what = call.get("annotations", {}), call.get("objectRef", {})
            reason = notes.get("authorization.k8s.io/reason", "")
            if notes.get("authorization.k8s.io/decision") != "allow" or OF_EVERYBODY.search(reason):
                continue
            binding = re.fullmatch(r'RBAC: allowed by (\w+) "([^"]+)" of .*', reason)
            self.assertIsNotNone(binding, line)
            resource = "/".join(filter(None, (what.get("resource"), what.get("subresource"))))
            right = (" ".join(binding.groups()), what.get("apiGroup", ""), resource or call["requestURI"].split("?")[0])
            used.add((*right, call["verb"]))
        return used


if __name__ == "__main__":
    main()
