"""The text of a PDF, page by page: a program of its own, since a hostile file can take all time and memory there is.

Run with the file as standard input. Writes a line of JSON with the number of pages, then one for the text of each page,
as they become ready. It is part of no agent process: `tools.pdf` starts it and ends it.
"""

from __future__ import annotations

import json
import logging
import resource
import sys

MEMORY_BYTES_MAX = 2 * 1024**3
CPU_SECONDS_MAX = 60  # also when nobody is left to end it

NOT_INSTALLED = 3  # exit codes
UNREADABLE = 4


def main() -> int:
    """Returns the exit code; why a file cannot be read stands in a line of JSON."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS_MAX, CPU_SECONDS_MAX))
    try:
        import pypdf
    except ImportError:
        return NOT_INSTALLED
    logging.disable()  # its warnings are for whoever made the file
    try:
        reader = pypdf.PdfReader(sys.stdin.buffer)
        if reader.is_encrypted and not reader.decrypt(""):
            _say(error="it is encrypted with a password")
            return UNREADABLE
        _say(pages=len(reader.pages))
        for page in reader.pages:
            _say(text=page.extract_text())
    except BrokenPipeError:
        return 0  # enough was read
    except Exception as error:  # noqa: BLE001 - whatever a damaged file makes the library raise
        _say(error=f"it is damaged or of an unknown kind ({type(error).__name__})")
        return UNREADABLE
    return 0


def _say(**fact: object) -> None:
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
