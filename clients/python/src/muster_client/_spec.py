"""A job's specification, from a dict or a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import MusterError

_MOST_BYTES = 1 << 20  # as the coordinator takes


def spec_in(spec: Mapping[str, Any] | str | os.PathLike[str]) -> dict[str, Any]:
    """The specification as it is sent."""
    if isinstance(spec, Mapping):
        return dict(spec)
    path = Path(spec)
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as why:
        raise MusterError(f"the specification {path} cannot be read: {why}") from why
    if len(text) > _MOST_BYTES:
        raise MusterError(f"{path} is larger than the 1 MiB that a specification may have")
    said = _parse(path, text)
    if not isinstance(said, dict):
        raise MusterError(f"{path} holds no mapping of fields, which a specification is")
    return _with_whole_paths(said)


def _parse(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as why:
        if path.suffix == ".json":
            raise MusterError(f"{path}: {why}") from why
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ImportError as why:
        raise MusterError(f"{path} is YAML, and what reads it is not installed: pip install 'muster-client[yaml]', or "
                          "give the specification as a dict or as a file of JSON") from why
    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as why:
        raise MusterError(f"{path}: {why}") from why


def _with_whole_paths(spec: dict[str, Any]) -> dict[str, Any]:
    data = spec.get("data")
    if not isinstance(data, dict) or not isinstance(data.get("paths"), list):
        return spec
    paths = [os.path.abspath(path) if isinstance(path, str) and path else path for path in data["paths"]]
    return {**spec, "data": {**data, "paths": paths}}
