"""The client: one object for one cluster and one user."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from ._answer import object_in, objects_of
from ._events import events_in
from ._http import LOST, Asker, Attempts, Deadline
from ._spec import spec_in
from ._trust import find_place
from .errors import ConnectionLost, InvalidArgument, MusterError, TimedOut, Unavailable
from .types import OVER, Audit, Digest, Event, HistoryStep, Job, LogLine, SavedCheckpoint, read

# A quiet stream of events has a comment each 15 seconds: one without is dead.
_LONGEST_SILENCE = 45.0
# Where there are no new lines it is after five seconds that a coordinator says so.
_LONGEST_WAIT_FOR_LINES = 5.0
_ID = re.compile("[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_CHECKPOINT = re.compile("lineage-[0-9]{1,19}-step-[0-9]{1,19}")


class Client:
    """Asks the coordinator of a cluster over HTTPS, as the user of a token.

    `url` is https://HOST:PORT; `token` is what `muster token make` printed; `ca` is the file authority.pem of the
    coordinator's identity. What is left out is found where the command `muster` finds it: the token in the file that
    MUSTER_TOKEN_FILE names, the authority in the one that MUSTER_AUTHORITY names, either in `dir`, the folder of a
    cluster on this machine, or in ~/.config/muster. With `dir` the address is found there, too.

    Nothing is sent before the other side has shown a certificate that this authority has signed for
    spiffe://CLUSTER/coordinator; names of hosts prove nothing.

    `timeout` is how many seconds one attempt may take, from the connection to the last byte of the answer; `retry_for`
    is for how long a coordinator that cannot be reached is asked again, as one is that is started again. All requests
    may be repeated, so a lost answer does no harm.
    Any number of threads may use one client.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None, ca: str | os.PathLike[str] | None = None,
                 dir: str | os.PathLike[str] | None = None, timeout: float = 60.0, retry_for: float = 60.0) -> None:
        self._asker = Asker(find_place(url, token, ca, dir), timeout, retry_for)

    def submit(self, spec: Mapping[str, Any] | str | os.PathLike[str], *, id: str | None = None,
               accept: Sequence[str] = ()) -> Job:
        """Submits a job, and returns at once: it is queued, or starts.

        `spec` is a specification (docs/job-spec.md) as a dict, or the path of a file with one, in YAML or JSON.
        Relative `data.paths` of a file are taken from the working directory, as `muster submit` does.

        The same `id` with the same training specification is the same job, so this may be repeated; one that was
        stopped or failed goes on. Without `id` one is made of the name, and a lost answer starts no second job.
        `accept=["plugin"]` lets a job that goes on have another plug-in than before; that stands in its ledger.

        Raises AlreadyExists where the id has another training specification, and InvalidArgument with the `field` of
        the specification that is not right.
        """
        said = spec_in(spec)
        if id is None:
            id = f"{said.get('name') or 'job'}-{secrets.token_hex(4)}"
        body: dict[str, Any] = {"id": id, "spec": said}
        if accept:
            body["accept"] = list(accept)
        return self._job("POST", "/v1/jobs", body)

    def get(self, job: str) -> Job:
        """The job as it is now."""
        return self._job("GET", _path(job))

    def list(self, *, state: str | None = None, namespace: str | None = None,
             labels: Mapping[str, str] | None = None, page_size: int = 100) -> Iterator[Job]:
        """Jobs in the order in which they were submitted; pages are fetched as they are needed."""
        query: dict[str, Any] = {"limit": page_size, "state": state, "namespace": namespace}
        if labels:
            query["label"] = ",".join(f"{key}={value}" for key, value in labels.items())
        for job in self._pages("/v1/jobs", query, "jobs"):
            yield read(Job, job)

    def follow(self, job: str, *, timeout: float, after: str | None = None) -> Iterator[Event]:
        """Events of the job: those that are kept, then those to come, until it is over.

        Where the connection is lost, or the coordinator is started again, it goes on after the last event: none comes
        twice. What the coordinator does not have any more it says itself, by an event of the kind `gap` or `restart`.
        `after` is the `id` of an event, from which to go on. Raises TimedOut after `timeout` seconds,
        whatever comes.
        """
        deadline = Deadline(timeout)
        attempts = Attempts(self._asker.retry_for)
        while True:
            try:
                for event in self._stream(job, after, deadline):
                    attempts.succeeded()
                    deadline.check(f"following {job}")
                    if event is None:
                        continue
                    after = event.id or after
                    yield event
                if self._job("GET", _path(job), deadline=deadline).is_over:
                    return
                attempts.failed(ConnectionResetError("the stream of events ended before its job"), deadline)
            except (ConnectionLost, TimedOut):
                raise
            except (Unavailable, *LOST) as why:
                deadline.check(f"following {job}")
                attempts.failed(why, deadline)

    def wait(self, job: str, *, timeout: float) -> Job:
        """Waits until the job is over: done, stopped, failed or cancelled. Raises TimedOut after `timeout` seconds."""
        deadline = Deadline(timeout)
        for _ in self.follow(job, timeout=timeout):
            pass
        return self._job("GET", _path(job), deadline=deadline)

    def stop(self, job: str) -> Job:
        """Stops the job after a checkpoint, which takes a while (`wait`); `resume` lets it go on."""
        return self._job("POST", _path(job) + ":stop")

    def resume(self, job: str, *, timeout: float, accept: Sequence[str] = ()) -> Job:
        """Lets a job that was stopped or failed go on from its newest checkpoint; `accept` as of `submit`.

        One that is stopping is waited for, `timeout` seconds at most; one that runs stays as it is.
        """
        now = self.get(job)
        if now.state == "stopping":
            now = self.wait(job, timeout=timeout)
        if now.state not in OVER:
            return now
        spec = {name: value for name, value in now.spec.items() if name != "resume"}
        return self.submit(spec, id=job, accept=accept)

    def cancel(self, job: str) -> Job:
        """Ends the job for good, also one that was stopped or failed."""
        return self._job("POST", _path(job) + ":cancel")

    def delete(self, job: str) -> None:
        """Deletes what is kept of a job that has ended, its checkpoints too, which takes a while.

        Raises FailedPrecondition where it has not ended.
        """
        self._asker.ask("DELETE", _path(job), is_gone_fine=True)

    def scale(self, job: str, workers: int | tuple[int, int]) -> Job:
        """From now on the job may have 1 to `workers` workers, or (least, most)."""
        asked: Any = workers if isinstance(workers, int) else {"min": workers[0], "max": workers[1]}
        return self._job("POST", _path(job) + ":scale", {"workers": asked})

    def logs(self, job: str, *, member: str | None = None, tail: int | None = None) -> str:
        """The last lines that each member printed, 100 of each or `tail`; or of one member, such as worker-0."""
        query = _query({"member": member, "tail": tail})
        return self._asker.ask("GET", f"{_path(job)}/logs{query}").decode("utf-8", "replace")

    def follow_logs(self, job: str, *, timeout: float, member: str | None = None,
                    tail: int | None = None) -> Iterator[LogLine]:
        """Lines that members print, from those that are kept (or the last `tail` of each) until the job is over.

        None comes twice or gets lost, also where the coordinator is started again. Raises TimedOut after `timeout`
        seconds.
        """
        deadline = Deadline(timeout)
        query: dict[str, Any] = {"member": member, "tail": tail}
        while True:
            page = self._object("GET", f"{_path(job)}/logs:follow{_query(query)}", deadline=deadline,
                                may_wait=_LONGEST_WAIT_FOR_LINES)
            for line in objects_of(page, "lines"):
                yield read(LogLine, line)
            if page.get("over"):
                return
            query = {"member": member, "after": page.get("next")}

    def history(self, job: str, *, first: int = 0) -> Iterator[HistoryStep]:
        """How the loss went, from step `first` on, of the history that made the newest state."""
        step: int | None = first
        while step is not None:
            page = self._object("GET", f"{_path(job)}/history{_query({'from': step})}")
            for one in objects_of(page, "steps"):
                yield read(HistoryStep, one)
            following = page.get("next")
            if following is not None and not (isinstance(following, int) and following > step):
                raise MusterError(f"the history of {job} does not go on after step {step}")
            step = following

    def audit(self, job: str) -> Audit:
        """Whether each sample was used as often as it should be."""
        return read(Audit, self._object("GET", _path(job) + "/audit"))

    def digest(self, job: str, *, step: int | None = None) -> Digest:
        """SHA-256 of the state of the newest checkpoint, or of that of `step`."""
        return read(Digest, self._object("GET", f"{_path(job)}/digest{_query({'step': step})}"))

    def checkpoints(self, job: str) -> Iterator[SavedCheckpoint]:
        """What is committed of the job, by lineage and step; pages are fetched as they are needed."""
        for one in self._pages(f"{_path(job)}/checkpoints", {}, "checkpoints"):
            yield read(SavedCheckpoint, one)

    def keep_checkpoint(self, job: str, checkpoint: str, name: str | None) -> SavedCheckpoint:
        """Keeps it by that name, whatever the job says of old ones; None: by no name any more.

        `checkpoint` is that of a SavedCheckpoint. Raises NotFound where it is not there, or is just being removed,
        AlreadyExists where another one of the job has the name, and FailedPrecondition where it is not complete.
        """
        return read(SavedCheckpoint, self._object("PATCH", _path_of(job, checkpoint), {"name": name}))

    def delete_checkpoint(self, job: str, checkpoint: str, *, force: bool = False) -> None:
        """Deletes a checkpoint that the job would not go back to by itself; it is gone when this returns.

        Raises FailedPrecondition of all others, and without `force` also of one that has a name, or is the newest of a
        job that has ended.
        """
        query = _query({"force": "true" if force else None})
        self._asker.ask("DELETE", _path_of(job, checkpoint) + query, is_gone_fine=True)

    def _stream(self, job: str, after: str | None, deadline: Deadline) -> Iterator[Event | None]:
        headers = {} if after is None else {"Last-Event-ID": after}

        def patience() -> float:
            return min(_LONGEST_SILENCE, deadline.left())

        deadline.check(f"following {job}")
        path = _path(job) + "/events"
        with self._asker.open("GET", path, timeout=patience() or _LONGEST_SILENCE, headers=headers) as answer:
            yield from events_in(lambda most: answer.readline(most, patience()))

    def _pages(self, path: str, query: Mapping[str, Any], key: str) -> Iterator[dict[str, Any]]:
        token = None
        while True:
            page = self._object("GET", path + _query({**query, "page_token": token}))
            yield from objects_of(page, key)
            following = page.get("next_page_token")
            if not following:
                return
            if following == token:
                raise MusterError(f"the list {path} does not go on after {following}")
            token = following

    def _object(self, method: str, path: str, body: Mapping[str, Any] | None = None,
                deadline: Deadline | None = None, may_wait: float = 0) -> dict[str, Any]:
        sent = None if body is None else json.dumps(body).encode()
        content = self._asker.ask(method, path, sent, deadline=deadline, may_wait=may_wait)
        return object_in(content, f"the answer to {method} {path}")

    def _job(self, method: str, path: str, body: Mapping[str, Any] | None = None,
             deadline: Deadline | None = None) -> Job:
        return read(Job, self._object(method, path, body, deadline))


def _path(job: str) -> str:
    # "." and "" would be another path, and not the name of a job.
    if not _ID.fullmatch(job):
        raise InvalidArgument(400, "invalid_argument", f"{job!r} is no id of a job: 1 to 100 letters, digits, '.', "
                              "'_' or '-', not beginning with '.' or '-'", "id")
    return "/v1/jobs/" + job


def _path_of(job: str, checkpoint: str) -> str:
    if not _CHECKPOINT.fullmatch(checkpoint):
        raise InvalidArgument(400, "invalid_argument", f"{checkpoint!r} is no checkpoint; they are called "
                              "lineage-L-step-S", "checkpoint")
    return f"{_path(job)}/checkpoints/{checkpoint}"


def _query(values: Mapping[str, Any]) -> str:
    given = {name: value for name, value in values.items() if value is not None}
    return "?" + urlencode(given) if given else ""
