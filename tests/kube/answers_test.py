"""What the API of Kubernetes answers to a coordinator in host mode, or does not: no job is lost, and none made twice."""

import base64
import contextlib
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import urllib.parse

from cluster import BUILD, KUBECTL, ROOT, main
from host_cluster import FIXED, JOBS, SYSTEM, HostTest, counting

COORDINATOR = "65532"  # the user of its pod; no other that is this user's asks the API for anything
MARK = "1"


class AnswersTest(HostTest):
    def calls(self):
        """What the coordinator has asked the API for, as the API's own log has it."""
        text = (self.cluster.folder / "audit.log").read_text()
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def made(self, job):
        """The names of the objects that the coordinator was told were made for that job."""
        return [call["objectRef"]["name"] for call in self.calls()
                if call["verb"] == "create" and call["responseStatus"]["code"] == 201
                and re.search(f"-{job}-[0-9a-f]+$", call["objectRef"].get("name", ""))]

    def iptables(self, *words):
        return subprocess.run(["iptables", "-w", *words], check=True, text=True, stdout=subprocess.PIPE).stdout

    @contextlib.contextmanager
    def rules(self, *rules):
        """Of the way between the coordinator and the API. Gives how many packets the last one of them has taken."""
        port = str(urllib.parse.urlparse(self.cluster.kubectl(
            "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")).port)
        rules = [[each.replace("PORT", port) for each in rule.split()] for rule in rules]
        for table, chain, *rule in rules:
            self.iptables("-t", table, "-I", chain, *rule)
        table, chain, *_ = rules[-1]
        try:
            yield lambda: int(self.iptables("-t", table, "-L", chain, "1", "-v", "-n", "-x").split()[0])
        finally:
            for table, chain, *rule in rules:
                self.iptables("-t", table, "-D", chain, *rule)

    def answers_lost(self):
        """What the coordinator asks reaches the API, and no answer comes back."""
        return self.rules(f"mangle OUTPUT -p tcp --dport PORT -m owner --uid-owner {COORDINATOR} "
                          f"-j CONNMARK --set-mark {MARK}",
                          f"filter INPUT -p tcp --sport PORT -m connmark --mark {MARK} -j DROP")

    def connections_reset(self):
        """Whatever one of the two says next breaks the connection, as answers do that are sent again."""
        return self.rules(f"filter OUTPUT -p tcp --dport PORT -m owner --uid-owner {COORDINATOR} "
                          "-j REJECT --reject-with tcp-reset",
                          f"filter INPUT -p tcp --sport PORT -m connmark --mark {MARK} "
                          "-j REJECT --reject-with tcp-reset")

    def watches(self, since, stage):
        """Which kinds the coordinator has begun (ResponseStarted), or ceased (ResponseComplete), to watch since then."""
        return {call["objectRef"]["resource"] for call in self.calls()[since:]
                if call["verb"] == "watch" and call["stage"] == stage}

    def until_it_sees(self, since):
        """Who cannot see makes nothing."""
        self.until("the coordinator to see again",
                   lambda: self.watches(since, "ResponseStarted") >= {"pods", "jobs", "jobsets"})

    def assert_nothing_left(self, *jobs):
        self.until("the end of all objects", lambda: not any(
            self.objects(kind, job) for kind in ("jobsets", "jobs", "pods") for job in jobs))


class Answers(AnswersTest):
    def names_of_launches(self, **jobs):
        """Submits them while the namespace has no room for their objects: under which names these would be made."""
        self.cluster.kubectl("create", "quota", "-n", JOBS, "none",
                             "--hard=count/jobsets.jobset.x-k8s.io=0,count/jobs.batch=0")
        self.addCleanup(self.cluster.kubectl, "delete", "quota", "-n", JOBS, "none", "--ignore-not-found")
        for job, spec in jobs.items():
            self.submit(job, spec)
        names = {job: re.search(r'"(muster-[^"]+)" is forbidden', self.until_waits(job, "none"))[1] for job in jobs}
        self.cluster.kubectl("delete", "quota", "-n", JOBS, "none")
        return names

    def test_409_an_object_of_that_name_is_somebody_elses(self):
        """It stays as it is, whatever becomes of the job that waits for its name."""
        names = self.names_of_launches(named=counting(FIXED), other=counting({"min": 1, "max": 3}))
        # As much like ours as it can be: an apply would change it, and take it for the coordinator's.
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "muster", "image": "localhost/host"}]}}
        job = {"completionMode": "Indexed", "completions": 3, "parallelism": 3, "template": template}
        strangers = {
            "named": {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {
                "suspend": True, "replicatedJobs": [{"name": "theirs", "replicas": 1, "template": {"spec": job}}]}},
            "other": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"suspend": True, **job}}}
        kinds = {"named": "jobset", "other": "job"}
        for each, stranger in strangers.items():
            self.cluster.kubectl("create", "-f", "-", text=json.dumps(
                {**stranger, "metadata": {"name": names[each], "namespace": JOBS}}))
            self.addCleanup(self.cluster.kubectl, "delete", "-n", JOBS, kinds[each], names[each], "--ignore-not-found")
        # Controllers have something to say about it first.
        self.until("what is said of them", lambda: all(
            self.cluster.get("-n", JOBS, kinds[each], names[each]).get("status", {}).get("conditions")
            for each in names))
        before = {each: self.cluster.get("-n", JOBS, kinds[each], names[each]) for each in names}
        refused = len(self.calls())
        self.restart_coordinator()  # which would wait for a minute more after a quota
        for each in names:
            self.assertIn(names[each], self.until_waits(each, "409"))
            self.assertEqual(self.job(each)["state"], "queued")
        self.until("it to be tried again", lambda: all(
            [call["objectRef"].get("name") for call in self.calls()[refused:]
             if call["responseStatus"]["code"] == 409].count(name) >= 2 for name in names.values()))
        self.ask("POST", "/v1/jobs/other:cancel")
        self.until_state("other", "cancelled", "failed")
        self.restart_coordinator()  # it looks for what it is to end
        self.assertEqual({each: self.cluster.get("-n", JOBS, kinds[each], names[each]) for each in names}, before)
        self.cluster.kubectl("delete", "jobset", "-n", JOBS, names["named"])
        self.assert_done("named")
        self.assertEqual(self.cluster.get("-n", JOBS, "job", names["other"]), before["other"])

    def test_409_somebody_else_has_set_the_number_of_pods(self):
        """And owns these fields from then on: the job has as many pods as it is to have all the same."""
        self.submit("owned", counting({"min": 1, "max": 3}, epochs=8))
        self.until_step("owned", 50)
        uid = self.uid("jobs", "owned")
        name = self.objects("jobs", "owned")[0]["metadata"]["name"]
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=stranger", "-f", "-",
                             text=json.dumps({"apiVersion": "batch/v1", "kind": "Job",
                                              "metadata": {"name": name, "namespace": JOBS},
                                              "spec": {"completions": 2, "parallelism": 2}}))
        self.until("three pods again", lambda: self.cluster.get("-n", JOBS, "job", name)["spec"]["completions"] == 3)
        self.assertEqual(self.uid("jobs", "owned"), uid)
        self.assertEqual(self.assert_done("owned", epochs=8)["rewinds"], 0)

    def test_410_what_a_watch_goes_on_after_is_forgotten(self):
        """The API ends all watches, comes back with a memory that begins later, and pods change meanwhile."""
        self.submit("forgotten", counting(FIXED, epochs=8))
        self.until_step("forgotten", 50)
        uid = self.uid("jobsets", "forgotten")
        coordinator = self.cluster.container(self.coordinator()["metadata"]["uid"])
        # It does not run meanwhile, so that it asks for more only when there is none to be had; nor does its kubelet, which
        # would start it anew for that.
        node = self.cluster.get("-n", SYSTEM, "pod", "muster-0")["spec"]["nodeName"]
        stopped = (self.cluster.process(f"kubelet-{node}"), coordinator)
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        try:
            told = len(self.calls())
            api = self.cluster.process("kube-apiserver")
            ended = self.cluster.signal_to_end("kube-apiserver", signal.SIGTERM)
            # Then it would wait for who does not hear of that.
            self.until("the end of the watch", lambda: "pods" in self.watches(told, "ResponseComplete"))
            os.kill(api, signal.SIGKILL)
            start = self.until("its end", ended)
            # The watch told of everything until its end, and the next API knows nothing before its begin: in between
            # something has to happen.
            self.cluster.put_into_etcd("passes", "by")
            start()
            self.until_api()
            pods = self.pods("forgotten")
            elsewhere = next(pod for pod in pods if pod["spec"]["nodeName"] != node)
            self.cluster.kubectl("delete", "pod", "-n", JOBS, elsewhere["metadata"]["name"], "--wait=false")
            self.until("a pod in its place", lambda: len(
                {pod["metadata"]["uid"] for pod in self.pods("forgotten")} -
                {pod["metadata"]["uid"] for pod in pods}) == 1)
            before = len(self.calls())
        finally:
            for process in reversed(stopped):
                os.kill(process, signal.SIGCONT)
        path = f"/api/v1/namespaces/{JOBS}/pods"
        def of_pods(verb):
            return [call for call in self.calls()[before:] if call["verb"] == verb
                    and call["requestURI"].startswith(path) and call["stage"] == "ResponseComplete"]
        self.until("a list of all pods", lambda: of_pods("list"))
        # What it was answered to its first question is no secret: it is the same for everybody.
        asked = of_pods("watch")[0]
        line = json.loads(self.cluster.kubectl("get", "--raw", asked["requestURI"]).splitlines()[0])
        self.assertEqual((line["type"], line["object"]["code"]), ("ERROR", 410), line)
        self.assertLess(asked["stageTimestamp"], of_pods("list")[0]["stageTimestamp"])
        self.assertEqual(self.uid("jobsets", "forgotten"), uid)
        self.assertEqual(self.assert_done("forgotten", epochs=8)["rewinds"], 0)

    def held(self):
        """A request of the account `default`, which its API answers after half a minute: so slow is a webhook."""
        class Slow(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                threading.Event().wait(35)

        server = self.cluster.serve(Slow)
        self.addCleanup(server.shutdown)
        self.cluster.kubectl("create", "-f", "-", text=json.dumps({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "slow"}, "webhooks": [{
                "name": "slow.muster.dev", "timeoutSeconds": 30, "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
                "clientConfig": {"url": f"https://127.0.0.1:{server.server_address[1]}/",
                                 "caBundle": base64.b64encode((self.cluster.state / "pki/ca.crt").read_bytes()).decode()},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                           "operations": ["CREATE"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}]}))
        self.addCleanup(self.cluster.kubectl, "delete", "validatingwebhookconfiguration", "slow", "--ignore-not-found")
        self.cluster.kubectl("create", "rolebinding", "-n", "default", "slow", "--clusterrole=edit",
                             "--serviceaccount=default:default")
        slow = subprocess.Popen([KUBECTL, "create", "configmap", "-n", "default", "slow", "--as",
                                 "system:serviceaccount:default:default"], env=self.cluster.environment,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(slow.wait, 30)
        self.addCleanup(slow.kill)

    def test_429_the_api_has_no_room_for_the_coordinator(self):
        """By Priority and Fairness, as in a cluster that is too busy."""
        self.submit("before", counting(FIXED, epochs=8))
        self.until_step("before", 50)
        self.uid("jobsets", "before")
        # A level that has no room takes one request at a time all the same. So another one is under way there.
        group = "flowcontrol.apiserver.k8s.io/v1"
        no_room = [
            {"apiVersion": group, "kind": "PriorityLevelConfiguration", "metadata": {"name": "no-room"},
             "spec": {"type": "Limited", "limited": {
                 "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
                 "limitResponse": {"type": "Reject"}}}},
            {"apiVersion": group, "kind": "FlowSchema", "metadata": {"name": "no-room"},
             "spec": {"priorityLevelConfiguration": {"name": "no-room"}, "matchingPrecedence": 2, "rules": [{
                 "subjects": [{"kind": "ServiceAccount", "serviceAccount": account} for account in (
                     {"namespace": SYSTEM, "name": "muster-coordinator"},
                     {"namespace": "default", "name": "default"})],
                 "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"],
                                    "clusterScope": True}],
                 "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]}}]
        take_back = ["delete", "flowschema,prioritylevelconfiguration", "no-room", "--ignore-not-found"]
        self.addCleanup(self.cluster.kubectl, *take_back)
        before = len(self.calls())
        self.cluster.kubectl("create", "-f", "-", text="\n".join(map(json.dumps, no_room)))
        self.held()
        # The API takes a moment to heed it all.
        token = self.cluster.kubectl("create", "token", "-n", SYSTEM, "muster-coordinator")
        server = self.cluster.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
        self.until("a refusal", lambda: "429" in subprocess.run(
            ["curl", "-s", "-k", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Authorization: Bearer {token}",
             f"{server}/api/v1/namespaces/{JOBS}/pods"], text=True, stdout=subprocess.PIPE, timeout=30).stdout)
        self.submit("busy", counting(FIXED))
        self.until_waits("busy", "429")
        self.assertEqual((self.job("busy")["state"], self.objects("jobsets", "busy")), ("queued", []))
        step = self.job("before")["step"]
        self.until("more steps", lambda: self.job("before")["step"] > step)
        self.cluster.kubectl(*take_back)
        refused = [call for call in self.calls()[before:] if call["responseStatus"]["code"] == 429
                   and call["userAgent"].startswith("muster-coordinator")]
        self.assertTrue(refused)
        self.assert_done("busy")
        done = self.assert_done("before", epochs=8)
        self.assertEqual((done["recoveries"], done["rewinds"]), (0, 0))
        self.assertEqual(len(self.made("busy")), 1)

    def test_the_api_is_killed(self):
        """In the middle of a run, and when it has made what it was asked for and nobody has heard so."""
        self.submit("runs", counting(FIXED, epochs=16))
        self.until_step("runs", 50)
        uid = self.uid("jobsets", "runs")
        again = self.end("kube-apiserver")
        step = self.job("runs")["step"]
        self.until("more steps without it", lambda: self.job("runs")["step"] > step + 100)
        before = len(self.calls())
        again()
        self.until_api()
        self.until_it_sees(before)
        self.submit("heard", counting(FIXED))  # so that a connection is there on which the next one is asked for
        self.until_state("heard", "running")
        with self.answers_lost() as lost:
            self.submit("unheard", counting(FIXED))
            made = self.until("its object", lambda: self.objects("jobsets", "unheard"))[0]["metadata"]
            again = self.end("kube-apiserver")
            self.assertGreater(lost(), 0)
        self.assertEqual(self.job("unheard")["state"], "queued")
        again()
        self.until_state("unheard", "running")
        self.assertEqual(self.uid("jobsets", "unheard"), made["uid"])
        self.assertEqual(self.uid("jobsets", "runs"), uid)
        self.assert_done("heard")
        self.assert_done("unheard")
        done = self.assert_done("runs", epochs=16)
        self.assertEqual((done["recoveries"], done["rewinds"]), (0, 0))

    def test_the_way_to_the_api_goes_silent(self):
        """Packets are lost and nobody says so, as where a machine on the way is gone."""
        trouble = lambda: self.ask("GET", "/v1/hosts")[1].get("launch_trouble") or ""
        self.submit("silent", counting(FIXED, epochs=16))
        self.until_step("silent", 50)
        self.assertEqual(trouble(), "")
        before = len(self.calls())
        with self.rules(f"filter OUTPUT -p tcp --dport PORT -m owner --uid-owner {COORDINATOR} -j DROP"):
            self.until("what keeps it from making pods", trouble, 90)
            self.assertIn("does not answer", trouble())
            self.assertIn("muster_launcher_trouble{role=\"coordinator\"} 1", self.metrics(self.coordinator()))
            step = self.job("silent")["step"]
            self.submit("later", counting(FIXED))
            self.until_waits("later", "the Kubernetes API")
            self.until("more steps", lambda: self.job("silent")["step"] > step)
        self.until("the end of the trouble", lambda: not trouble(), 90)
        self.assertIn("muster_launcher_trouble{role=\"coordinator\"} 0", self.metrics(self.coordinator()))
        self.until_it_sees(before)
        self.assert_done("later")
        done = self.assert_done("silent", epochs=16)
        self.assertEqual((done["recoveries"], done["rewinds"]), (0, 0))
        self.assertEqual(len(self.made("later")), 1)

    def cut(self, act, has_happened):
        """The API does what the coordinator asks after `act`; its answers are lost, and the connections break."""
        # A connection has to be open on which a request leaves: none can be made while answers are lost.
        warm = f"warm-{len(self.calls())}"
        self.submit(warm, counting(1))
        self.until("a request", lambda: self.objects("jobsets", warm) or self.objects("jobs", warm))
        self.ask("POST", f"/v1/jobs/{warm}:cancel")
        self.until("another", lambda: not self.objects("jobsets", warm) and not self.objects("jobs", warm))
        with self.answers_lost() as lost:
            act()
            self.until("what the API does", has_happened)
            self.until("an answer that is lost", lost)
            with self.connections_reset() as broken:
                self.until("a connection that breaks", broken)
                before = len(self.calls())  # now nothing that it says comes through
        self.until("the coordinator to ask again", lambda: len(self.calls()) > before)

    def test_connections_are_cut_in_the_middle_of_answers(self):
        elastic = {"min": 1, "max": 3}
        self.submit("first", counting(FIXED, epochs=8))
        self.until_step("first", 50)
        pod = self.pods("first")[0]["metadata"]
        self.cut(lambda: self.cluster.kubectl("delete", "pod", "-n", JOBS, pod["name"], "--wait=false"),
                 lambda: all(each["metadata"]["uid"] != pod["uid"] for each in self.objects("pods", "first")))
        for job, workers, epochs in (("second", elastic, 1000), ("third", FIXED, 8)):
            self.cut(lambda: self.submit(job, counting(workers, epochs)),
                     lambda: self.objects("jobsets", job) or self.objects("jobs", job))
        self.cut(lambda: self.ask("POST", "/v1/jobs/second:cancel"), lambda: all(
            "deletionTimestamp" in job["metadata"] for job in self.objects("jobs", "second")))
        self.until_state("second", "cancelled")
        for job in ("first", "third"):
            self.assertEqual(self.assert_done(job, epochs=8)["rewinds"], 0)
        jobs = ("first", "second", "third")
        for job in jobs:
            self.assertEqual(len(self.made(job)), 1, job)
        self.assert_nothing_left(*jobs)

    def grpc(self, method, request, question, answer):
        """A call of the service Jobs, with what any programmer has: protoc for messages, curl for HTTP/2."""
        def protoc(*words, of):
            return subprocess.run(["protoc", "-I", ROOT / "proto", *words, "muster/v1/control.proto"], input=of,
                                  stdout=subprocess.PIPE, check=True).stdout
        message = protoc(f"--encode=muster.v1.{question}", of=request.encode())
        name = "muster.muster-system.svc"
        said = subprocess.run(
            ["curl", "-sS", "--http2", "--max-time", "30", "--resolve", f"{name}:7070:{self.address()}",
             "--cacert", self.authority(), "--cert", f"{self.identity}/current/certificate.pem", "--key",
             f"{self.identity}/current/key.pem", "-H", "content-type: application/grpc", "-H", "te: trailers",
             "-D", f"{self.identity}/headers", "--data-binary", "@-", f"https://{name}:7070/muster.v1.Jobs/{method}"],
            input=b"\0" + len(message).to_bytes(4, "big") + message, stdout=subprocess.PIPE, check=True).stdout
        headers = pathlib.Path(f"{self.identity}/headers").read_text().lower()
        self.assertIn("grpc-status: 0", headers)
        self.assertEqual(int.from_bytes(said[1:5], "big"), len(said) - 5)
        return protoc(f"--decode=muster.v1.{answer}", of=said[5:]).decode()

    def test_a_job_is_submitted_over_grpc(self):
        """With the certificate that a user gets for a token."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.identity = f"{folder.name}/identity"
        pathlib.Path(folder.name, "token").write_text(self.token)
        os.chmod(f"{folder.name}/token", 0o600)
        subprocess.run([BUILD / "bin/muster", "certs", "user", "--identity", self.identity, "--to",
                        f"https://{self.address()}:8080"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "MUSTER_TOKEN_FILE": f"{folder.name}/token",
                            "MUSTER_AUTHORITY": str(self.authority())})
        said = self.grpc("Submit", """
            id: "called"
            spec { task: "counting" reduction: "sum" data { samples: 192000 } lanes: 6 batch: 96 epochs: 4
                   optimizer { kind: "sgd" learning_rate: 1 } workers { min: 3 max: 3 }
                   checkpoint { every_steps: 200 } }""", "SubmitRequest", "SubmitResponse")
        self.addCleanup(self.ask, "POST", "/v1/jobs/called:cancel")
        self.assertIn("created: true", said)
        self.until_step("called", 10)
        self.uid("jobsets", "called")
        self.assertEqual(len(self.pods("called")), 3)
        self.assertIn('state: "running"', self.grpc("Get", 'id: "called"', "JobRequest", "Job"))
        done = self.assert_done("called")
        self.assertIn(done["digest"], self.grpc("Get", 'id: "called"', "JobRequest", "Job"))


class WithoutJobSets(HostTest):
    options = {**HostTest.options, "jobset": False}

    def objects(self, kind, job):
        return [] if kind == "jobsets" else super().objects(kind, job)

    def test_a_fixed_job_is_an_indexed_job(self):
        self.assertIn("the server doesn't have a resource type", self.cluster.refusal("get", "jobsets", "-n", JOBS))
        self.submit("plain", counting(FIXED))
        self.until_step("plain", 50)
        uid = self.uid("jobs", "plain")
        self.assertEqual(self.objects("jobs", "plain")[0]["spec"]["completionMode"], "Indexed")
        pods = {pod["metadata"]["uid"] for pod in self.pods("plain")}
        self.assertEqual(len(pods), 3)
        self.cluster.kill_container(sorted(pods)[1])
        self.until("another pod in its place", lambda: len(
            {pod["metadata"]["uid"] for pod in self.pods("plain")} - pods) == 1, 60)
        self.assertEqual(self.uid("jobs", "plain"), uid)
        self.assertEqual(self.assert_done("plain")["rewinds"], 0)


if __name__ == "__main__":
    main()
