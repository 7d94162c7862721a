"""The entry point of an installed copy: the console script `mycodeagent`, and `python -m mycodeagent`.

`agent`, `tools` and `memory` are names that other projects use too. They are taken from our own folder alone, whatever
lies in the directory where the user works.
"""

# ruff: noqa: PTH109, PTH112, PTH117, PTH118, PTH120
# `os` and `sys` are loaded at every start; importing anything else here could find a stranger's file first.
import os
import sys


def main() -> None:
    """Run the program. Never returns: it leaves through SystemExit with the exit code."""
    _put_our_code_first()
    from agent.terminal.launch import main as start

    start()


def _put_our_code_first() -> None:
    """Let `agent`, `tools` and `memory` be found in our folder first, and nothing in the working directory."""
    home = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    app = os.path.join(home, "mycodeagent", "app")
    root = app if os.path.isdir(app) else home  # an installed copy, or the source tree
    # Whoever stands in one of these folders still needs what is in it.
    needed = {root, home, os.path.dirname(os.path.realpath(os.__file__))}
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # the directory was deleted: nothing can be found in it
        here = ""
    absolute = [place for place in sys.path if os.path.isabs(place)]  # the others mean the working directory
    kept = [place for place in absolute if os.path.realpath(place) != here or os.path.realpath(place) in needed]
    sys.path[:] = [root, *(place for place in kept if place != root)]
