"""The scripted model as a process of its own, so that its CPU time is not the program's.

    python -m tests.bench.serve STEPS HOLD...

Answers STEPS requests with a trivial Read, and what follows with a text. Prints its address first, then the number of
each request as it comes; the request of a number in HOLD is answered only after a line on stdin.
"""

from __future__ import annotations

import sys

from tests.kit.model_server import ModelServer
from tests.kit.request import Request
from tests.kit.script import Reply, call, say

FILE = "small.txt"


def main() -> None:
    steps, *held = (int(word) for word in sys.argv[1:])

    def answer(number: int, _request: Request) -> Reply:
        print(number, flush=True)
        if number in held:
            sys.stdin.readline()
        return call("Read", {"file_path": FILE}) if number < steps else say("done")

    with ModelServer(answer) as server:
        print(server.url, flush=True)
        server.closed.wait()


if __name__ == "__main__":
    main()
