"""Server-sent events, as https://html.spec.whatwg.org/multipage/server-sent-events.html describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ._answer import object_in
from .errors import MusterError
from .types import Event

_LONGEST_LINE = 4 << 20
_MOST_DATA = 16 << 20


def events_in(readline: Callable[[int], bytes]) -> Iterator[Event | None]:
    """Events as they come, and None for each other sign of life; the end of it is that of the stream."""
    identity, data = "", ""
    while raw := readline(_LONGEST_LINE + 1):
        if len(raw) > _LONGEST_LINE or len(data) > _MOST_DATA:
            raise MusterError("an event is larger than any that a coordinator sends")
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not raw.endswith(b"\n"):
            return  # the connection broke within it
        if line == "":
            if data:
                yield _event(identity, data)
            data = ""
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            identity = value
        elif name == "data":
            data = f"{data}\n{value}" if data else value
        elif name == "":
            yield None  # a comment, which says that the other side lives


def _event(identity: str, data: str) -> Event:
    said = object_in(data, f"event {identity}")
    return Event(identity, str(said.get("event", "")), str(said.get("text", "")), str(said.get("time", "")), said)
