"""Paths as text: any name that Linux allows, written so that JSON, a screen and the next call can hold it.

A path that is valid UTF-8 without control characters is its own text. Any other is written in the quoting that Bash
knows as ANSI-C: `$'bad\\xffname'`, `$'two\\nlines'`. File tools read both forms, and so does a command line.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

QUOTING_RULE = (
    "Names with control characters or bytes that are not UTF-8 are shown as $'...' with \\n, \\xff and the like; "
    "every file tool takes a path in that form."
)

_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_QUOTED = re.compile(r"\$'((?:[^'\\]|\\[\\'nrt]|\\x[0-9a-fA-F]{2})*)'", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'"}
_WRITTEN = {character: "\\" + letter for letter, character in _LETTERS.items()}


def is_unfit(text: str) -> bool:
    """Whether a text, which is not quoted, holds characters that belong into quotes."""
    return _QUOTED.fullmatch(text) is None and _UNFIT.search(text) is not None


def path_to_text(path: Path | str | bytes) -> str:
    """Write a path so that `text_to_path` gives it back; valid UTF-8 without control characters."""
    raw = os.fsencode(path)
    text = raw.decode("utf-8", "surrogateescape")
    plain = not text.startswith("$'") and not _UNFIT.search(text) and not any(map(_is_byte, text))
    return text if plain else "$'" + "".join(map(_written, text)) + "'"


def text_to_path(text: str) -> Path:
    """The path that a text means. Raises UnicodeEncodeError for text that no path can hold (lone surrogates)."""
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return Path(os.fsdecode(text.encode("utf-8")))
    return Path(os.fsdecode(_ESCAPE.sub(_read, quoted[1]).encode("utf-8", "surrogateescape")))


def _is_byte(character: str) -> bool:
    return "\udc80" <= character <= "\udcff"  # surrogateescape: a byte that is not UTF-8


def _written(character: str) -> str:
    if character in _WRITTEN:
        return _WRITTEN[character]
    if _is_byte(character) or _UNFIT.match(character):
        return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
    return character


def _read(escape: re.Match[str]) -> str:
    code = escape[1]
    if not code.startswith("x"):
        return _LETTERS[code]
    byte = int(code[1:], 16)
    return chr(byte if byte < 0x80 else 0xDC00 + byte)
