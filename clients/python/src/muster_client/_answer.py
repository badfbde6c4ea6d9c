"""What an answer holds, as long as it is what a coordinator says: else a MusterError names the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .errors import MusterError


def object_in(content: bytes | str, what: str) -> dict[str, Any]:
    """The object of JSON that `what` is."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError) as why:
        raise MusterError(f"{what} is no JSON: {why}") from why
    if not isinstance(said, dict):
        raise MusterError(f"{what} is no object")
    return said


def objects_of(said: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A field that is a list of objects."""
    value = said.get(name)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise MusterError(f"an answer holds no list of objects called {name}")
    return value
