"""A Jupyter notebook as text: its cells and what they put out, without the JSON around them.

Format: https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from tools.verdict import Json

_OUTPUT_CHARACTERS_MAX = 2_000  # of one output: a longer one is data
_TEXT_KINDS = ("text/plain", "text/markdown", "text/latex")

NOTE = (
    "(A notebook, shown as text: these lines are not those of the file. Edit works on the file's JSON, which Grep with "
    "output_mode content shows.)"
)


def notebook_text(data: bytes) -> str | None:
    """The cells in order; None when it is no notebook of format 4."""
    try:
        notebook = json.loads(data)
    except (ValueError, RecursionError):
        return None
    match notebook:
        case {"nbformat": 4, "cells": list(cells)}:
            return "\n".join(line for number, cell in enumerate(cells, 1) for line in _cell(number, cell))
    return None


def _cell(number: int, cell: Json) -> Iterator[str]:
    if not isinstance(cell, dict):
        return
    run = cell.get("execution_count")
    yield f"--- cell {number}, {cell.get('cell_type', 'of no kind')}{'' if run is None else f', run {run}'}"
    yield _joined(cell.get("source"))
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else []:
        if isinstance(output, dict):
            yield "--- output"
            yield _output(output)


def _output(output: Mapping[str, Json]) -> str:
    match output:
        case {"output_type": "stream", "text": text}:
            return _short(_joined(text))
        case {"output_type": "error", "ename": name, "evalue": value}:
            return _short(f"{name}: {value}")
        case {"data": dict(data)}:
            return _short("\n".join(_datum(kind, value) for kind, value in data.items() if _is_shown(kind, data)))
    return ""


def _is_shown(kind: str, data: Mapping[str, Json]) -> bool:
    """One thing comes in several kinds: HTML only when there is no plain text of it."""
    return kind != "text/html" or not any(plain in data for plain in _TEXT_KINDS)


def _datum(kind: str, value: Json) -> str:
    text = _joined(value)
    return text if kind.startswith("text/") else f"({kind}, {len(text):,} characters)"


def _joined(text: Json) -> str:
    """A text of the format: a string, or a list of lines that hold their ends."""
    parts = text if isinstance(text, list) else [text]
    return "".join(part for part in parts if isinstance(part, str)).removesuffix("\n")


def _short(text: str) -> str:
    left_out = len(text) - _OUTPUT_CHARACTERS_MAX
    return text if left_out <= 0 else f"{text[:_OUTPUT_CHARACTERS_MAX]}\n({left_out:,} characters more.)"
