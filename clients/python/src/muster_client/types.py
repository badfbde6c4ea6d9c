"""What the coordinator answers with, as frozen values. docs/rest.md explains each field.

A field that a coordinator of another version does not have keeps its default, and one that is not known here is
passed over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ._answer import objects_of

OVER = frozenset({"done", "stopped", "failed", "cancelled"})
"""States of a job that does not run any more. One that is stopped or failed can go on (`Client.resume`)."""

_T = TypeVar("_T")


def read(cls: type[_T], said: Mapping[str, Any]) -> _T:
    """One of these values, made of an object of JSON."""
    values: dict[str, Any] = {}
    for one in dataclasses.fields(cls):  # type: ignore[arg-type]
        if one.name not in said:
            continue
        item = one.metadata.get("of")
        value = said[one.name]
        values[one.name] = value if item is None else tuple(read(item, part) for part in objects_of(said, one.name))
    return cls(**values)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that can be used."""

    lineage: int = 0
    step: int = 0


@dataclass(frozen=True)
class SavedCheckpoint:
    """What is committed of a job, also what it would not go back to by itself.

    `checkpoint` names it in requests; `name` is what it is kept by, `why` why it is not complete, `value` what
    `measure` says of it, all None without. `left_out`: the job has gone back behind it, and nothing goes on from it.
    """

    checkpoint: str = ""
    lineage: int = 0
    step: int = 0
    epoch: int | None = None
    bytes: int = 0
    time: str | None = None
    complete: bool = False
    why: str | None = None
    finite: bool = False
    name: str | None = None
    measure: str | None = None
    value: float | None = None
    best: bool = False
    left_out: bool = False
    deleting: bool = False


@dataclass(frozen=True)
class Member:
    """A process that takes part in a job."""

    name: str = ""
    role: str = ""
    rank: int = 0
    local_rank: int = 0
    node: str = ""
    host: str = ""
    address: str = ""
    incarnation: str = ""
    lanes: list[int] = field(default_factory=list)
    state: str = ""
    phase: str = ""
    step: int = 0


@dataclass(frozen=True)
class Metric:
    """How good a state is by one metric, on the validation data; `value` is None where it is not finite or not known."""

    metric: str = ""
    value: float | None = None


@dataclass(frozen=True)
class Job:
    """A job, as it was when the coordinator answered."""

    id: str = ""
    name: str = ""
    state: str = ""
    reason: str = ""
    waits_for: str = ""
    deleting: bool = False
    owner: str = ""
    parent: Mapping[str, Any] | None = None
    stream: Mapping[str, Any] | None = None
    first_start: int = 0
    step: int = 0
    steps: int = 0
    epoch: int = 0
    epochs: int = 0
    samples: int = 0
    loss: float | None = None
    validation: tuple[Metric, ...] = field(default=(), metadata={"of": Metric})
    validation_step: int | None = None
    digest: str | None = None
    digest_step: int = 0
    sample: str = ""
    fingerprint: str = ""
    fingerprint_step: int = 0
    view: int = 0
    lineage: int = 0
    workers: int = 0
    members: tuple[Member, ...] = field(default=(), metadata={"of": Member})
    views: int = 0
    recoveries: int = 0
    rewinds: int = 0
    lanes_recomputed: int = 0
    seconds: float = 0
    seconds_left: float | None = None
    checkpoints: tuple[Checkpoint, ...] = field(default=(), metadata={"of": Checkpoint})
    spec: Mapping[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    checkpoint_step: int | None = None

    @property
    def is_over(self) -> bool:
        """It does not run any more."""
        return self.state in OVER


@dataclass(frozen=True)
class Event:
    """Something that happened to a job. `kind` says what, `text` says it for people, `fields` has all of it."""

    id: str
    kind: str
    text: str
    time: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class LogLine:
    """A line that a member printed."""

    member: str = ""
    line: str = ""


@dataclass(frozen=True)
class HistoryStep:
    """How a step went; a number is None where it is not known or not measured.

    Where `last_state` is not None this is no step, but what was measured of that state, the last one of a job that
    has ended.
    """

    step: int = 0
    lineage: int = 0
    epoch: int = 0
    time: str | None = None
    loss: float | None = None
    learning_rate: float | None = None
    gradient_norm: float | None = None
    samples_per_second: float | None = None
    samples: int | None = None
    seconds: float | None = None
    validation: tuple[Metric, ...] = field(default=(), metadata={"of": Metric})
    last_state: int | None = None


@dataclass(frozen=True)
class Lineage:
    """A history of a job, which a rewind has begun."""

    number: int = 0
    parent: int = 0
    fork: int = 0
    cause: str = ""


@dataclass(frozen=True)
class Audit:
    """Whether each sample was used as often as it should be (`ok`), and what was looked at."""

    ok: bool = False
    conclusion: str = ""
    steps: int = 0
    full_epochs: int = 0
    samples: int = 0
    skipped_steps: int = 0
    skipped_samples: int = 0
    left_out_samples: int = 0
    lanes: int = 0
    lineages: tuple[Lineage, ...] = field(default=(), metadata={"of": Lineage})
    parent: Mapping[str, Any] | None = None
    plugins: list[Mapping[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Digest:
    """SHA-256 of a state: equal ones are equal in every bit."""

    lineage: int = 0
    step: int = 0
    digest: str = ""
