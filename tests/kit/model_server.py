"""A scripted model behind a real HTTP server on loopback that refuses every ill-formed request."""

from __future__ import annotations

import json
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from tests.kit.json_object import JsonObject, parse_object
from tests.kit.request import Request
from tests.kit.script import Reply, Script, Step, pick, say
from tests.kit.stream import chunks, closing, whole_answer
from tests.kit.strict import problem_of

SUMMARY = say("Summary: the scripted work goes on; goal and open points are kept.")
PATH = "/v1/chat/completions"


class ModelServer:
    """Serves `script` at `url` until it is closed; use it as a context manager.

    A request with tools is one of the loop and answered by the script. One without tools asks for a summary or a title:
    it is answered by `side` and does not advance the script. Above `limit_tokens` (a quarter of the bytes; 0: no limit)
    a request of the loop is refused as too long. What was asked is kept in `requests`, `side_requests` and `invalid`
    (the problems of the ill-formed ones); `script` and `limit_tokens` may be changed while the server runs.
    """

    def __init__(self, script: Script, *, side: Step = SUMMARY, limit_tokens: int = 0) -> None:
        self.script = script
        self.side = side
        self.limit_tokens = limit_tokens
        self.requests: list[Request] = []
        self.side_requests: list[Request] = []
        self.invalid: list[str] = []
        self.script_errors: list[Exception] = []  # raised by a function of the script: a fault of the test
        self.closed = threading.Event()
        self._arrived = threading.Condition()
        self._http = _HttpServer(self)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and end every hanging answer. The address refuses connections from then on."""
        if not self.closed.is_set():
            self.closed.set()
            self._http.shutdown()
            self._http.server_close()

    def wait_for(self, condition: Callable[[Request], bool], timeout_s: float = 20) -> Request:
        """The first request of the loop that fits, waiting for it where it has not come yet.

        Raises:
            AssertionError: none came in time.
        """

        def found() -> Request | None:
            return next((request for request in self.requests if condition(request)), None)

        with self._arrived:
            request = self._arrived.wait_for(found, timeout_s)
        assert request is not None, f"no such request among {len(self.requests)} after {timeout_s} s"
        return request

    def last(self, marker: str = "") -> Request:
        """The newest request of the loop, or the newest whose user messages hold the marker.

        Raises:
            AssertionError: there is none.
        """
        for request in reversed(self.requests):
            if not marker or request.has(marker, "user"):
                return request
        raise AssertionError(f"no request holds {marker!r}; problems: {self.invalid}")

    # -- called by the HTTP handler

    def accept(self, raw: bytes, headers: Mapping[str, str]) -> tuple[Request, bool]:
        """Check and keep a request; the second value says whether it is one of the loop."""
        body: JsonObject = {}
        try:
            body = parse_object(raw)
            problem = problem_of(body)
        except ValueError as error:
            problem = f"the body is {error}"
        with self._arrived:
            of_loop = bool(body.get("tools"))
            kept = self.requests if of_loop else self.side_requests
            request = Request(len(kept), raw, headers, body, problem)
            kept.append(request)
            if problem is not None:
                self.invalid.append(problem)
            self._arrived.notify_all()
        return request, of_loop

    def answer(self, request: Request, of_loop: bool) -> Reply:
        """The scripted reply, or the refusal of a request that is too long."""
        tokens = len(request.raw) // 4
        if of_loop and 0 < self.limit_tokens < tokens:
            return _too_long(self.limit_tokens, tokens)
        try:
            if of_loop:
                return pick(self.script, request)
            return self.side if isinstance(self.side, Reply) else self.side(request)
        except Exception as error:  # noqa: BLE001 - any error of a test's function is handed to that test
            self.script_errors.append(error)
            return say("the script failed")


def _too_long(limit_tokens: int, tokens: int) -> Reply:
    text = (
        f"This model's maximum context length is {limit_tokens} tokens, but the messages resulted in {tokens} tokens."
    )
    error = {"message": text, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
    return Reply(status=400, body=json.dumps({"error": error}).encode())


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, model: ModelServer) -> None:
        self.model = model
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is an ordinary event here."""


class _Handler(BaseHTTPRequestHandler):
    server: _HttpServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            model = {"id": "scripted", "object": "model", "created": 1, "owned_by": "tests"}
            self._send_json(200, {"object": "list", "data": [model]})
        else:
            self._refuse(404, f"no such path: {self.path}")

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        if len(raw) < length:  # the client was killed while it sent
            self.close_connection = True
            return
        if self.path != PATH:
            self._refuse(404, f"no such path: {self.path}")
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request, of_loop = self.server.model.accept(raw, headers)
        if request.problem is not None:
            self._refuse(400, f"Invalid request: {request.problem}")
            return
        self._send_reply(self.server.model.answer(request, of_loop), request)

    # -- answers

    def _refuse(self, status: int, message: str) -> None:
        self._send_json(status, {"error": {"message": message, "type": "invalid_request_error", "code": None}})

    def _send_json(self, status: int, value: JsonObject) -> None:
        self._send_bytes(status, json.dumps(value).encode(), {})

    def _send_bytes(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send_reply(self, reply: Reply, request: Request) -> None:
        if reply.stall_s:
            self._be_silent(reply.stall_s)
        ident = f"call_{secrets.token_hex(6)}"
        if reply.status != 200:
            self._send_bytes(reply.status, reply.body or b"{}", reply.headers)
        elif reply.raw is None and not request.body.get("stream"):
            self._send_json(200, whole_answer(reply, request, ident))
        else:
            self._send_stream(reply, request, ident)

    def _send_stream(self, reply: Reply, request: Request, ident: str) -> None:
        self.send_response(200)
        for name, value in {"Content-Type": "text/event-stream", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if reply.raw is not None:
            self._put(reply.raw)
        elif not self._send_chunks(chunks(reply, request, ident), reply):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        elif reply.end_after_chunks is None:
            for event in closing(reply, request, ident):
                self._put(event)
        self.wfile.write(b"0\r\n\r\n")

    def _send_chunks(self, events: Iterator[bytes], reply: Reply) -> bool:
        """Send the chunks of an answer; False when the connection is to be cut."""
        for sent, event in enumerate(events):
            if sent == reply.cut_after_chunks:
                return False
            if sent == reply.end_after_chunks:
                return True
            if sent == reply.hang_after_chunks:
                self.server.model.closed.wait()
                return False
            self._put(event)
            if reply.pause_s:
                self._be_silent(reply.pause_s)
        return True

    def _put(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _be_silent(self, seconds: float) -> None:
        self.server.model.closed.wait(seconds)
