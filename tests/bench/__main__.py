"""Print what things cost, as ratios taken in one run: `python -m tests.bench [start] [steps] [transcript] [files]`.

Compare only within one printout: the machine, its load and byte-compiled files change every absolute figure.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.bench import files, start, steps, transcript
from tests.bench.measure import Row

PARTS: Mapping[str, Callable[[Path], list[Row]]] = {
    "start": start.rows,
    "steps": steps.rows,
    "transcript": transcript.rows,
    "files": files.rows,
}


def main() -> None:
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [word for word in wanted if word not in PARTS]
    if unknown:
        raise SystemExit(f"no such part: {' '.join(unknown)}; there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="mycodeagent-bench-") as folder:
        for part in wanted:
            for row in PARTS[part](Path(folder) / part):
                print(line(row), flush=True)


def line(row: Row) -> str:
    budget = "" if row.budget is None else f"budget {row.budget:g}"
    verdict = "" if row.budget is None else ("ok" if row.value <= row.budget else "OVER")
    return f"{row.name:<52} {row.value:8.2f} {row.unit:<28} {budget:<12} {verdict:<5} {row.note}".rstrip()


if __name__ == "__main__":
    main()
