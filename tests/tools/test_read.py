"""Read: numbered lines, exact notes of what is missing, and nothing that blocks."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

from tests.tools.files_kit import Files
from tools.base import ErrorCode, FileState, ToolResult


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


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "a PNG image, 10 bytes"),
        (b"%PDF-1.7\n\xff\xfe", "a PDF document, 11 bytes"),
        (b"\0\1", "binary data, 2 bytes"),
        (b"\xff\xfea\0", "UTF-16 text, 4 bytes"),
        (b"caf\xe9", "text in another encoding, or binary data, 4 bytes"),
        (b"a" * 2_000_000 + "é".encode()[:1], "text in another encoding, or binary data, 2,000,001 bytes"),
    ],
)
def test_what_is_not_text_is_named_by_kind_and_size(files: Files, content: bytes, kind: str) -> None:
    files.put("f", content)
    message = f"f is not UTF-8 text: {kind}. Use a command (Bash) to look at it."
    assert files.refusal("Read", file_path="f") == (ErrorCode.NOT_TEXT, message)


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
