"""Read: numbered lines, exact notes of what is missing, and nothing that blocks."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
from pathlib import Path

import pytest

from tests.tools.files_kit import Files
from tests.tools.pdf_file import pdf
from tools.base import ErrorCode, FileState, Image, ToolResult
from tools.limits import IMAGE_BYTES_MAX
from tools.line_count import start_near_end
from tools.notebook import NOTE


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_lines_are_numbered_and_the_state_is_that_of_the_whole_file(files: Files) -> None:
    path = files.put("a.txt", "one\n\ttwo\r\n\nlast")
    state = FileState(str(path), hashlib.sha256(b"one\n\ttwo\r\n\nlast").hexdigest(), 15, path.stat().st_mtime_ns)
    expected = ToolResult("     1\tone\n     2\t\ttwo\n     3\t\n     4\tlast", file_states=(state,))
    assert files.call("Read", file_path="a.txt") == expected
    assert files.cache.get(path) == state


@pytest.mark.parametrize(
    ("content", "arguments", "expected"),
    [
        (b"", {}, "(The file is empty.)"),
        (b"\xef\xbb\xbf", {}, "(The file is empty.)"),
        (b"\xef\xbb\xbf", {"offset": 2}, "(The file is empty.)"),
        (b"\xef\xbb\xbfa\n", {}, "     1\ta"),
        (b"\n", {}, "     1\t"),
        (b"a\nb\nc\n", {"offset": 2}, "     2\tb\n     3\tc\n(Lines 2 to 3 of 3.)"),
        (
            b"a\nb\nc",
            {"offset": 2, "limit": 1},
            "     2\tb\n(Lines 2 to 2 of 3, 1 more after them: read on with offset=3.)",
        ),
        (b"a\nb\nc", {"offset": 3}, "     3\tc\n(Lines 3 to 3 of 3.)"),
        (b"a\nb\n", {"offset": 9}, "(The file ends with line 2; there is nothing from line 9 on.)"),
        ("\u2028x\x0cy\u0085\n".encode(), {}, "     1\t\u2028x\x0cy\u0085"),
        (b"a\rb\rc\n", {}, "     1\ta\rb\rc"),
    ],
)
def test_what_is_shown_and_what_is_said(files: Files, content: bytes, arguments: dict[str, int], expected: str) -> None:
    files.put("f.txt", content)
    assert files.text("Read", file_path="f.txt", **arguments) == expected


def test_at_most_2000_lines(files: Files) -> None:
    files.put("f.txt", "".join(f"{i}\n" for i in range(1, 5001)))
    lines = files.text("Read", file_path="f.txt", limit=4000).split("\n")
    assert len(lines) == 2001
    assert lines[-2:] == [
        "  2000\t2000",
        "(Lines 1 to 2000 of 5000, 3000 more after them: read on with offset=2001.)",
    ]


def test_the_50_kb_are_of_content_and_end_at_a_whole_line(files: Files) -> None:
    files.put("whole.txt", "x" * 89 + "\n" + ("y" * 89 + "\n") * 560)
    files.put("more.txt", ("y" * 99 + "\n") * 600)
    assert len(files.text("Read", file_path="whole.txt").split("\n")) == 561
    assert files.text("Read", file_path="more.txt").split("\n")[-2:] == [
        "   512\t" + "y" * 99,
        "(Lines 1 to 512 of 600, 88 more after them: read on with offset=513.)",
    ]


def test_k26_one_huge_line_is_cut_and_its_length_said(files: Files) -> None:
    files.put("min.js", "é" * 1_000_000 + "needle" + "y" * 1_000_000)
    assert files.text("Read", file_path="min.js") == (
        "     1\t" + "é" * 2000 + "\n(Line 1 has 3,000,006 bytes, cut after 2,000 characters. "
        "Grep with output_mode content shows the text around a match in it.)"
    )
    assert files.text("Read", file_path="min.js", offset=2) == (
        "(The file ends with line 1; there is nothing from line 2 on.)"
    )


def test_lines_in_the_middle_of_a_file_of_many_chunks(files: Files) -> None:
    files.put("big.txt", "".join(f"line {i:07d}\n" for i in range(1, 300_001)))
    assert files.text("Read", file_path="big.txt", offset=299_999, limit=9) == (
        "299999\tline 0299999\n300000\tline 0300000\n(Lines 299999 to 300000 of 300000.)"
    )


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_start_of_a_line_in_the_second_half_is_found_from_the_end(tmp_path: Path, end: str) -> None:
    """Over several chunks, and with lines of many lengths; what lies in the first half is left to an ordinary pass."""
    lines = [f"{number} " + "x" * (number % 40) for number in range(1, 100_001)]
    text = "\n".join(lines) + end
    (tmp_path / "f").write_text(text)
    wanted = (50_001, 60_000, 99_999, 100_000, 100_001, 3)
    with (tmp_path / "f").open("rb", buffering=0) as file:
        found = {line: start_near_end(file, line, asyncio.Event()) for line in wanted}
    starts: dict[int, int | None] = {line: text.index(f"\n{line} ") + 1 for line in wanted[:4]}
    if not end:  # the last line has no end of its own: its start is told by the pass over the whole file
        starts[100_000] = None
    assert found == {**starts, 100_001: None, 3: None}


def test_an_interrupted_count_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\n" * 1000)
    stop = asyncio.Event()
    stop.set()
    with (tmp_path / "f").open("rb", buffering=0) as file:
        start_near_end(file, 999, stop)
    assert Path(f"/proc/self/task/{os.getpid()}/children").read_text() == ""


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\2\x80\0\0\1\xe0\x08\6\0\0\0"
GIF = b"GIF89a\x10\0\x20\0\xf0"
JPEG = b"\xff\xd8\xff\xe0\0\4ab\xff\xc0\0\x11\x08\1\xe0\2\x80\3"
WEBP = b"RIFF\x16\0\0\0WEBPVP8L\x0a\0\0\0\x2f\x0f\xc0\x07\0" + bytes(5)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG[:10], "a PNG image, 10 bytes"),
        (PNG[:16] + bytes(8) + PNG[24:], "a PNG image of 0 x 0 pixels, 29 bytes"),
        (b"II*\0\x08\0", "a TIFF image, 6 bytes"),
        (b"\0\1", "binary data, 2 bytes"),
        (b"\xff\xfe\0\xd8", "damaged UTF-16 text, 4 bytes"),
        (b"\xff\xfe\0\0a\0\0\0", "UTF-32 text, 8 bytes"),
        (b"\1\x02\xff\xfe\x03", "binary data, 5 bytes"),
    ],
)
def test_what_is_not_text_is_named_by_kind_and_size(files: Files, content: bytes, kind: str) -> None:
    files.put("f", content)
    message = f"f is not text: {kind}. Use a command (Bash) to look at it."
    assert files.refusal("Read", file_path="f") == (ErrorCode.NOT_TEXT, message)


IMAGES = [
    (PNG, "a PNG image of 640 x 480 pixels, 29 bytes", "image/png"),
    (GIF, "a GIF image of 16 x 32 pixels, 11 bytes", "image/gif"),
    (JPEG, "a JPEG image of 640 x 480 pixels, 18 bytes", "image/jpeg"),
    (WEBP, "a WebP image of 16 x 32 pixels, 30 bytes", "image/webp"),
]


@pytest.mark.parametrize(("content", "kind", "media_type"), IMAGES)
def test_an_image_is_shown_to_a_model_that_sees_it_and_described_to_others(
    tmp_path: Path, content: bytes, kind: str, media_type: str
) -> None:
    files = Files(tmp_path)
    files.put("f", content)
    code, message = files.refusal("Read", file_path="f")
    assert (code, message.split(". ")) == (
        ErrorCode.NOT_TEXT,
        [
            f"f is not text: {kind}",
            "This model is not known to see images; the user can let it with MYCODEAGENT_IMAGES=yes.",
        ],
    )
    seeing = Files(tmp_path, sees_images=True)
    result = seeing.call("Read", file_path="f")
    name = hashlib.sha256(content).hexdigest()
    shown = Image("f", media_type, name, len(content))
    assert result == ToolResult(f"f is {kind}. It is shown below.", images=(shown,))
    assert seeing.kept == {name: content}
    assert seeing.code("Edit", file_path="f", old_string="a", new_string="b") == ErrorCode.NOT_TEXT


def test_an_image_that_is_too_large_or_cannot_be_kept_is_described(tmp_path: Path) -> None:
    files = Files(tmp_path, sees_images=True)
    files.put("large", PNG + bytes(IMAGE_BYTES_MAX))
    code, message = files.refusal("Read", file_path="large")
    assert (code, message.split(". ")[1][:40]) == (ErrorCode.NOT_TEXT, "An image above 3,932,160 bytes cannot be")
    files = Files(tmp_path, sees_images=True, keeps=False)
    files.put("secret", PNG)
    code, message = files.refusal("Read", file_path="secret")
    assert (code, message.split(". ")[1][:40]) == (ErrorCode.NOT_TEXT, "It cannot be shown, since it cannot be k")


def test_a_text_that_begins_like_an_image_is_text(tmp_path: Path) -> None:
    files = Files(tmp_path, sees_images=True)
    files.put("f", "GIF89a is how such a file begins\n")
    assert files.text("Read", file_path="f") == "     1\tGIF89a is how such a file begins"


KEPT = "an Edit or Write keeps it.)"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("é\r\nz\r\n".encode("utf-16"), f"     1\té\n     2\tz\n(The encoding is UTF-16 little-endian; {KEPT}"),
        ("中文注释，第一行".encode("gbk"), f"     1\t中文注释，第一行\n(The encoding is GBK; {KEPT}"),
        (b"caf\xe9\nna\xefve", f"     1\tcafé\n     2\tnaïve\n(The encoding is ISO-8859-1 or like it; {KEPT}"),
        (
            "gut ü\nändern\n".encode() + b"\xff",
            "     1\tgut ü\n     2\tändern\n     3\t\ufffd\n"
            "(Some bytes are not UTF-8 and are shown as \ufffd; an Edit leaves them as they are.)",
        ),
        (
            "мир".encode("cp1251"),
            "     1\tìèð\n"
            "(The encoding is not certain; shown as if it were Windows-1252. An Edit may touch ASCII text only.)",
        ),
        (b"a" * 1_100_000 + b"\n\xe9", "     1\t" + "a" * 2_000),
    ],
)
def test_k15_text_in_another_encoding_is_shown_and_said(files: Files, content: bytes, shown: str) -> None:
    path = files.put("f", content)
    assert files.text("Read", file_path="f")[: len(shown)] == shown
    assert files.cache.is_current(path, hashlib.sha256(content).hexdigest())


def test_a_notebook_is_shown_as_text_and_edited_as_it_lies_in_the_file(files: Files) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {
            "cell_type": "code",
            "execution_count": 3,
            "source": "x = 1\nprint(x)\n",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"text/html": "<b>", "text/plain": "b", "image/png": "aGk="}},
                {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []},
            ],
        },
    ]
    path = files.put("n.ipynb", json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    shown = [
        "--- cell 1, markdown",
        "# Title",
        "words",
        "--- cell 2, code, run 3",
        "x = 1",
        "print(x)",
        "--- output",
        "1",
        "--- output",
        "b",
        "(image/png, 4 characters)",
        "--- output",
        "ValueError: no",
        NOTE,
    ]
    lines = files.text("Read", file_path="n.ipynb").split("\n")
    assert [line.partition("\t")[2] or line for line in lines] == shown
    files.text("Edit", file_path="n.ipynb", old_string="x = 1", new_string="x = 2")
    assert json.loads(path.read_bytes())["cells"][1]["source"] == "x = 2\nprint(x)\n"


@pytest.mark.parametrize("content", ["{}", "no JSON", "[" * 100_000, '{"nbformat": 3, "worksheets": []}'])
def test_what_only_looks_like_a_notebook_is_read_as_it_is(files: Files, content: str) -> None:
    files.put("n.ipynb", content)
    assert files.text("Read", file_path="n.ipynb").startswith(f"     1\t{content[:2000]}")


def test_k25_what_could_block_is_refused_by_its_kind(files: Files) -> None:
    root = files.root
    os.mkfifo(root / "pipe")
    (root / "to-pipe").symlink_to("pipe")
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    (root / "zero").symlink_to("/dev/zero")
    (root / "dir").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(root)  # the name of a socket is limited to 107 bytes
        listener.bind("sock")
        os.chdir(here)
    only = "only regular files can be used."
    assert {name: files.refusal("Read", file_path=name) for name in ("pipe", "to-pipe", "sock", "dir", "one")} == {
        "pipe": (ErrorCode.REFUSED, f"pipe is a FIFO (named pipe): {only}"),
        "to-pipe": (ErrorCode.REFUSED, f"pipe is a FIFO (named pipe): {only}"),
        "sock": (ErrorCode.REFUSED, f"sock is a socket: {only}"),
        "dir": (ErrorCode.REFUSED, "dir is a directory, not a file. Use Glob to list what is in it."),
        "one": (ErrorCode.REFUSED, "one is a symbolic link that leads back to itself."),
    }
    assert files.code("Read", file_path="zero") == ErrorCode.OUTSIDE_WORKSPACE


def test_k25_a_proc_file_of_size_0_is_read_to_its_end() -> None:
    files = Files(Path("/proc/self"))
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc here")
    assert f"Pid:\t{os.getpid()}" in files.text("Read", file_path="status")


def test_a_missing_file_is_named_with_what_is_like_it(files: Files) -> None:
    files.put("src/parser.py", "")
    assert files.refusal("Read", file_path="src/parsr.py") == (
        ErrorCode.NOT_FOUND,
        "src/parsr.py does not exist. Did you mean src/parser.py?",
    )
    assert files.refusal("Read", file_path="scr/lib/x.py") == (
        ErrorCode.NOT_FOUND,
        "scr/lib/x.py does not exist. Neither does its directory; . is the nearest that does.",
    )


@pytest.mark.parametrize("name", [b"bad\xffname.txt", b"two\nlines.txt", b"$'quoted'", b"it's \\ odd\n", b"-n", b"~"])
def test_k05_any_name_can_be_read_by_the_text_that_shows_it(files: Files, name: bytes) -> None:
    path = files.root / os.fsdecode(name)
    path.write_bytes(b"here\n")
    shown = files.workspace.display(path)
    assert shown.encode().decode() == shown
    assert files.text("Read", file_path=shown) == "     1\there"
    assert files.text("Glob", pattern="*") == shown


def test_lines_that_end_in_a_lone_carriage_return_are_lines(files: Files) -> None:
    files.put("mac.txt", b"one\rtwo\rthree\r")
    assert files.text("Read", file_path="mac.txt", offset=2, limit=1) == (
        "     2\ttwo\n(Lines 2 to 2 of 3, 1 more after them: read on with offset=3.)"
    )
    done = files.text("Edit", file_path="mac.txt", old_string="two", new_string="2\n2b")
    assert done.split("\n")[3:] == ["@@ -1,3 +1,4 @@", " one", "-two", "+2", "+2b", " three"]
    assert files.refusal("Edit", file_path="mac.txt", old_string="e", new_string="x")[1].startswith(
        "old_string occurs 3 times in mac.txt (line 1, 4)."
    )


def test_a_notebook_with_half_a_character_is_shown(files: Files) -> None:
    notebook = {"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = '\ud83d'", "outputs": []}]}
    files.put("n.ipynb", json.dumps(notebook))
    assert files.text("Read", file_path="n.ipynb").split("\n")[1] == "     2\tx = '?'"


def test_a_huge_pdf_and_what_is_one_by_its_content_alone_are_read_as_pdf(files: Files) -> None:
    with files.put("huge.pdf", "%PDF-1.7\n").open("r+b") as file:
        file.truncate(5 * 1024**3)
    assert "Its text cannot be read" in files.refusal("Read", file_path="huge.pdf")[1]
    files.put("paper", b"\r\n" + pdf("Hello"))
    assert "     2\tHello\n" in files.text("Read", file_path="paper")
