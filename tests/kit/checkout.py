"""The checkout under test: its files, and clean copies of them."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


@functools.cache
def files() -> tuple[str, ...]:
    """Every file that is, or would be, under version control: relative names, sorted.

    Raises:
        subprocess.CalledProcessError: this is no git checkout.
    """
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        check=True,
    )
    names = {name for name in listing.stdout.decode().split("\0") if name}
    return tuple(sorted(name for name in names if (CHECKOUT / name).is_file()))


def copy_to(folder: Path) -> Path:
    """Copy these files into a new folder, as a fresh clone would have them."""
    for name in files():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CHECKOUT / name, target)
    return folder
