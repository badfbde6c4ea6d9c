"""Two jobs in a queue of Kueue that has room for one."""

from cluster import main
from host_cluster import FIXED, JOBS, HostTest, counting

IN_QUEUE = {"labels": {"kueue.x-k8s.io/queue-name": "team"}}


class Kueue(HostTest):
    options = {**HostTest.options, "kueue": True}
    components = ("kueue",)

    def test_one_job_after_the_other(self):
        # Three processors for the pods of one job.
        self.cluster.kubectl("patch", "clusterqueue", "muster", "--type=json", "-p",
                             '[{"op": "replace", "path": "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota", '
                             '"value": "3"}]')
        self.submit("first", counting(FIXED, **IN_QUEUE))
        self.until_step("first", 10)
        self.submit("second", counting(FIXED, **IN_QUEUE))
        self.until("the reason", lambda: "it is suspended: Kueue" in self.job("second")["waits_for"], 30)
        self.assertEqual(self.pods("second"), [])
        self.assert_done("first")
        self.assert_done("second")

    def test_an_elastic_job_is_scaled_in_its_queue(self):
        """Its pods train on meanwhile."""
        self.submit("elastic", counting({"min": 1, "max": 2}, epochs=32, **IN_QUEUE))
        self.until("two workers", lambda: self.job("elastic")["workers"] == 2)
        uid, pods = self.uid("jobs", "elastic"), {pod["metadata"]["uid"] for pod in self.pods("elastic")}
        self.scale("elastic", 3)
        self.until("three workers", lambda: self.job("elastic")["workers"] == 3)
        self.assertLess(pods, {pod["metadata"]["uid"] for pod in self.pods("elastic")})
        self.scale("elastic", 2)
        self.until("two workers", lambda: self.job("elastic")["workers"] == 2 and len(self.pods("elastic")) == 2)
        self.assertEqual(pods, {pod["metadata"]["uid"] for pod in self.pods("elastic")})
        self.assertEqual(self.uid("jobs", "elastic"), uid)
        done = self.assert_done("elastic", epochs=32)
        self.assertEqual((done["recoveries"], done["rewinds"], done["lanes_recomputed"]), (0, 0, 0))

    def scale(self, job, most):
        status, answer = self.ask("POST", f"/v1/jobs/{job}:scale", {"workers": {"min": 1, "max": most}})
        self.assertEqual(status, 200, answer)

    def test_a_job_that_kueue_stops_goes_on_later(self):
        self.submit("evicted", counting(FIXED, **IN_QUEUE))
        self.until_step("evicted", 100)
        workload = self.cluster.get("-n", JOBS, "workloads")[0]["metadata"]["name"]
        self.cluster.kubectl("patch", "workload", "-n", JOBS, workload, "--type=merge", "-p",
                             '{"spec": {"active": false}}')
        self.until("the end of its pods", lambda: not self.pods("evicted"), 60)
        job = self.until_state("evicted", "queued")
        self.assertGreaterEqual(job["checkpoint_step"], job["step"] - 1, "it gave way with a checkpoint")
        self.cluster.kubectl("patch", "workload", "-n", JOBS, workload, "--type=merge", "-p",
                             '{"spec": {"active": true}}')
        self.assertEqual(self.assert_done("evicted")["rewinds"], 0)


if __name__ == "__main__":
    main()
