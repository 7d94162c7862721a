"""Images that Read returns: shown to a model that sees them, through crashes, resumes and forks."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from tests.conftest import NewProgram, NewServer
from tests.kit.json_object import JsonObject
from tests.kit.program import AUTO
from tests.kit.request import Request
from tests.kit.script import Reply, call, fault, say
from tests.kit.transcript import saw

SEES = {"MYCODEAGENT_IMAGES": "yes"}


def png(width: int = 2, height: int = 1) -> bytes:
    """A whole image of white pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xff" * 3 * width) * height
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


LOOK = call("Read", {"file_path": "shot.png"})


def images(request: Request) -> list[bytes]:
    """The images of a request, in order."""
    parts = [part for message in request.messages for part in _parts(message) if part.get("type") == "image_url"]
    return [base64.b64decode(str(part["image_url"]["url"]).partition(",")[2]) for part in parts]


def _parts(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def test_an_image_is_shown_behind_its_result_and_in_every_request_after_it(
    server: NewServer, program: NewProgram
) -> None:
    model = server({"GO": [LOOK, say("white")], "MORE": [say("still white")]})
    user = program(model, env=SEES)
    user.write("shot.png", png())
    assert user.ask("GO").out == "white\n"
    assert user.resume(user.session_id(), "MORE").out == "still white\n"
    assert user.resume(user.session_id(), "MORE", "--fork").out == "still white\n"
    assert [images(request) for request in model.requests] == [[], *[[png()]] * 3]
    assert model.requests[1].result_of("Read") == (
        f"shot.png is a PNG image of 2 x 1 pixels, {len(png())} bytes. It is shown below."
    )
    roles = [message["role"] for message in model.requests[2].messages]
    assert roles == ["system", "user", "assistant", "tool", "user", "assistant", "user"]
    assert not model.invalid


def test_a_resumed_run_sends_the_same_images(server: NewServer, program: NewProgram) -> None:
    wait = call("Bash", {"command": "sleep 30"})
    model = server({"GO": [LOOK, wait, say("done")]})
    user = program(model, env=SEES)
    user.write("shot.png", png())
    user.start("-p", "GO", *AUTO).kill_when(saw("started", "Bash"))
    asked = model.requests[-1]
    user.write("shot.png", png(3))  # the model has seen the other one
    user.go_on(user.session_id(), *AUTO, "--on-uncertain", "skip")
    again = model.requests[-1].messages
    assert again[: len(asked.messages)] == asked.messages
    assert images(model.requests[-1]) == [png()]


def test_a_lost_tool_message_brings_its_image_back(server: NewServer, program: NewProgram) -> None:
    """The crash comes between the outcome and the tool message that refers to it."""
    model = server({"GO": [LOOK, say("done")]})
    user = program(model, env=SEES)
    user.write("shot.png", png())
    user.ask("GO")
    lines = user.transcript().read_bytes().splitlines(keepends=True)
    outcome = next(index for index, record in enumerate(user.records()) if record.is_action("completed"))
    user.transcript().write_bytes(b"".join(lines[: outcome + 1]))
    user.go_on(user.session_id())
    assert images(model.requests[-1]) == [png()]
    assert not model.invalid


def test_a_session_without_a_transcript_shows_images_too(server: NewServer, program: NewProgram) -> None:
    model = server({"GO": [LOOK, say("white")]})
    user = program(model, env=SEES)
    user.write("shot.png", png())
    assert user.ask("GO", "--no-session").out == "white\n"
    assert images(model.requests[-1]) == [png()]
    assert user.transcripts() == []


def test_a_model_that_sees_none_gets_words(server: NewServer, program: NewProgram) -> None:
    model = server({"GO": [LOOK, say("hm")], "MORE": [say("hm")]})
    user = program(model)
    user.write("shot.png", png())
    user.ask("GO")
    assert "shot.png is not text: a PNG image of 2 x 1 pixels" in model.requests[1].result_of("Read")


def test_what_another_model_saw_is_named_to_one_that_sees_none(server: NewServer, program: NewProgram) -> None:
    model = server({"GO": [LOOK, say("hm")], "MORE": [say("hm")]})
    user = program(model, env=SEES)
    user.write("shot.png", png())
    user.ask("GO")
    blind = program(model, env={"MYCODEAGENT_HOME": str(user.state)})
    blind.resume(user.session_id(), "MORE")
    assert images(model.requests[-1]) == []
    assert model.requests[-1].has("in their order: shot.png; left out of this request]", "user")


def test_a_service_that_refuses_images_does_not_end_the_session(server: NewServer, program: NewProgram) -> None:
    refusal = fault(400, "this model does not support image input")

    def strict(count: int, request: Request) -> Reply:
        del count
        return refusal if images(request) else LOOK if len(request.messages) == 2 else say("done")

    model = server(strict)
    user = program(model, env=SEES)
    user.write("shot.png", png())
    assert user.ask("GO").out == "done\n"
    assert user.resume(user.session_id(), "more").out == "done\n"


@pytest.mark.parametrize("damage", ["missing", "altered"])
def test_an_image_whose_blob_is_lost_is_told(server: NewServer, program: NewProgram, damage: str) -> None:
    model = server({"GO": [LOOK, say("white")], "MORE": [say("gone")]})
    user = program(model, env=SEES)
    user.write("shot.png", png())
    user.ask("GO")
    blob = next(path for path in (user.state / "projects").rglob("blobs/*/*") if path.is_file())
    blob.unlink() if damage == "missing" else blob.write_bytes(b"other")
    done = user.resume(user.session_id(), "MORE")
    assert (done.out, images(model.requests[-1])) == ("gone\n", [])
    assert model.requests[-1].has("[The stored image shot.png is missing.]", "user")
    assert ("the image" in done.err) == (damage == "missing")
    assert "missing or altered" in user.run("fsck").out
