"""The encoding that a text names for itself, in the ways that programs read: XML, HTML, CSS, and source code."""

from __future__ import annotations

import codecs
import re

_HEAD_BYTES = 1024  # as browsers and editors look
_NAME = rb"([A-Za-z0-9._:-]{2,40})"
_DECLARATIONS = (
    re.compile(rb"\A\s{0,10}<\?xml[^>]{0,200}?\sencoding\s*=\s*[\"']" + _NAME),
    re.compile(rb"<meta[^>]{1,200}?charset\s*=\s*[\"']?" + _NAME, re.IGNORECASE),
    re.compile(rb"\A@charset \"" + _NAME),
    # https://peps.python.org/pep-0263/, which is also how Ruby and Emacs have it
    re.compile(rb"\A(?:[^\n]{0,200}\n)?[ \t\f]*(?:#|//|;|--|%|/\*|<!--)[^\n]{0,200}?coding[:=][ \t]*" + _NAME),
)


def declared_codec(data: bytes) -> str | None:
    """Python's name of it; None when there is none that we know."""
    head = data[:_HEAD_BYTES]
    if b"coding" not in head and b"charset" not in head:
        return None
    for declaration in _DECLARATIONS:
        found = declaration.search(head)
        if found is not None:
            try:
                return codecs.lookup(found[1].decode("ascii")).name
            except LookupError:
                return None
    return None
