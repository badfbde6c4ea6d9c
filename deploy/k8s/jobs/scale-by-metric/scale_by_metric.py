#!/usr/bin/env python3
"""Scales a job by a metric, as a HorizontalPodAutoscaler scales a Deployment.

Asks Prometheus for a number, divides it by what one worker is to have of it, and tells the coordinator how many workers
the job may have: what `muster scale JOB --workers MIN:MAX` does. A job is no Deployment, so the autoscaler of
Kubernetes cannot do it. It looks once and ends; the CronJob beside it runs it each minute. Python 3.9 and nothing else
is needed.

The number is to be one that more workers make smaller for each, such as samples that wait for their turn. Smooth it in
the query, with max_over_time or avg_over_time: nothing is remembered here from one look to the next.
"""

import argparse
import http.client
import json
import math
import ssl
import sys
import urllib.parse

SECONDS = 20  # for an answer
BYTES = 16 * 1024 * 1024  # of an answer, at most


class Refused(Exception):
    """What stood in the way, for people."""


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", required=True, help="its id")
    parser.add_argument("--query", required=True, help="PromQL, with one number as its result")
    parser.add_argument("--per-worker", required=True, type=float, help="as much of it as one worker is to have")
    parser.add_argument("--min", type=int, default=1, help="the fewest workers (%(default)s), where the job itself takes as few")
    parser.add_argument("--max", type=int, required=True, help="the most workers")
    parser.add_argument("--tolerance", type=float, default=0.1,
                        help="nothing is changed while the number is so near to what it is to be (%(default)s)")
    parser.add_argument("--prometheus", required=True, help="its address, such as http://prometheus:9090")
    parser.add_argument("--to", required=True, help="the coordinator, such as https://muster.muster-system.svc:8080")
    parser.add_argument("--authority", required=True, help="file of the authority that has signed its certificate")
    parser.add_argument("--token-file", required=True, help="file with the token of an operator, or of its submitter")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    given = parser.parse_args(words)
    if not (given.per_worker > 0 and math.isfinite(given.per_worker)):
        parser.error("--per-worker has to be above 0")
    if not 1 <= given.min <= given.max:
        parser.error("--min has to be 1 or more, and --max not below it")
    for option, address, schemes in (("--prometheus", given.prometheus, ("http", "https")), ("--to", given.to, ("https",))):
        url = urllib.parse.urlsplit(address)
        if url.scheme not in schemes or not url.hostname:
            parser.error(f"{option} has to be an address such as {schemes[0]}://HOST:PORT")
    return given


class ToCoordinator(http.client.HTTPSConnection):
    """Says nothing to whoever is not the coordinator, which is named in the URI of its certificate alone."""

    def connect(self):
        super().connect()
        names = [name for kind, name in self.sock.getpeercert().get("subjectAltName", ()) if kind == "URI"]
        if len(names) != 1 or not (names[0].startswith("spiffe://") and names[0].endswith("/coordinator")
                                   and names[0].count("/") == 3):
            self.close()
            raise Refused(f"{self.host}:{self.port} is no coordinator: its certificate names {names}")


def ask(connection, who, method, path, body=None, headers=()):
    """What it answers, as JSON."""
    try:
        connection.request(method, path, body=body, headers=dict(headers))
        answer = connection.getresponse()
        text = answer.read(BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        raise Refused(f"{who} does not answer: {error}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise Refused(f"{who} answers {answer.status}: {text[:500].decode(errors='replace')}")
    if len(text) > BYTES:
        raise Refused(f"{who} answers with more than {BYTES} bytes")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Refused(f"{who} answers with what is no JSON: {text[:200].decode(errors='replace')}") from None


def measured(given):
    """The number that the query has."""
    url = urllib.parse.urlsplit(given.prometheus)
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname, url.port, timeout=SECONDS)
    query = urllib.parse.urlencode({"query": given.query})
    path = f"{url.path.rstrip('/')}/api/v1/query?{query}"
    said = ask(connection, f"Prometheus at {given.prometheus}", "GET", path)
    try:
        found = said["data"]["result"] if said["status"] == "success" else None
        values = [found[1]] if said["data"]["resultType"] == "scalar" else [series["value"][1] for series in found]
        values = [float(value) for value in values if isinstance(value, str) and "_" not in value]
    except (KeyError, TypeError, IndexError, ValueError):
        raise Refused(f"Prometheus at {given.prometheus} answers with what is no result: {str(said)[:200]}") from None
    if len(values) != 1 or not math.isfinite(values[0]):
        raise Refused(f"--query has {len(values)} results, and not one number: sum() makes one of several")
    return values[0]


def token_in(path):
    with open(path, encoding="utf-8") as file:
        token = file.read(4096).strip()
    if not (token.isascii() and token.isprintable()) or len(token.split()) != 1:
        raise Refused(f"{path} holds no token, which is one word, as muster token make prints it")
    return token


def wanted(value, per_worker, current, least, most, tolerance):
    """How many workers there are to be: the rule of the HorizontalPodAutoscaler for averages."""
    if current > 0 and abs(value / (per_worker * current) - 1) <= tolerance:
        return min(max(current, least), most)
    return min(max(math.ceil(value / per_worker), least), most)


def scale(given):
    token = token_in(given.token_file)
    trust = ssl.create_default_context(cafile=given.authority)
    trust.check_hostname = False  # names of hosts prove nothing
    url = urllib.parse.urlsplit(given.to)

    def coordinator(method, path, body=None):
        connection = ToCoordinator(url.hostname, url.port, timeout=SECONDS, context=trust)
        return ask(connection, f"the coordinator at {given.to}", method, path, body,
                   {"Authorization": f"Bearer {token}"})

    path = f"/v1/jobs/{urllib.parse.quote(given.job, safe='')}"
    job = coordinator("GET", path)
    if job["state"] in ("done", "failed", "stopped", "cancelled", "stopping"):
        return f"job {given.job} is {job['state']}: nothing is scaled"
    value = measured(given)
    workers = job["spec"]["workers"]
    fewest, current = (workers["min"], workers["max"]) if isinstance(workers, dict) else (workers, workers)
    # The job says itself how few it can do with.
    next_most = max(fewest, wanted(value, given.per_worker, current, given.min, given.max, given.tolerance))
    told = f"job {given.job}: {value:g} with {given.per_worker:g} for each worker"
    if next_most == current:
        return f"{told}: it keeps its {current}"
    if not given.dry_run:
        coordinator("POST", f"{path}:scale", json.dumps({"workers": {"min": fewest, "max": next_most}}))
    return f"{told}: {next_most} {'worker' if next_most == 1 else 'workers'}, and not {current}"


def main(words=None):
    try:
        print(scale(arguments(words)))
    except (Refused, OSError, KeyError, TypeError, ValueError) as error:
        print(f"scale_by_metric: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
