"""The coordinator in a pod makes pods for jobs: what deploy/k8s/overlays/dev applies, typed as it stands there."""

import json

from cluster import main
from host_cluster import FIXED, JOBS, SYSTEM, HostTest, counting


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
        used = set()
        for line in (self.cluster.folder / "audit.log").read_text().splitlines():
            call = json.loads(line)
            what = call.get("objectRef", {})
            allowed = call["annotations"].get("authorization.k8s.io/decision") == "allow"
            if allowed and what.get("namespace") == JOBS:
                used.add((what.get("apiGroup", ""), what["resource"], call["verb"]))
        granted = {(group, resource, verb)
                   for rule in self.cluster.get("-n", JOBS, "role", "muster-coordinator")["rules"]
                   for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]}
        self.assertEqual(granted - used, set())


if __name__ == "__main__":
    main()
