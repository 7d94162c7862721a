"""JSON as the tests look into it, parsed as strictly as the format is defined."""

from __future__ import annotations

import json
from typing import Any

# What the program wrote. Tests look into it by name, and a name that is not there fails the test.
JsonObject = dict[str, Any]


def parse_json(data: bytes | str) -> object:
    """Parse JSON that must be UTF-8, without NaN, Infinity and lone surrogates.

    Raises:
        ValueError: says what is wrong.
    """
    text = data if isinstance(data, str) else _decoded(data)
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from error
    except UnicodeEncodeError as error:
        raise ValueError("holds a lone surrogate") from error
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return value


def parse_object(data: bytes | str) -> JsonObject:
    """Parse JSON that must be an object.

    Raises:
        ValueError: says what is wrong.
    """
    value = parse_json(data)
    if not isinstance(value, dict):
        raise ValueError(f"not an object but a {type(value).__name__}")
    return value


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error


def _refuse_constant(name: str) -> float:
    raise ValueError(f"not JSON: {name}")
