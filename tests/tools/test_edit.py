"""Edit: one place, all other bytes the same; else an error that says why, and the file unchanged."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.files_kit import Files
from tools.base import CallRefused, ErrorCode, ToolResult

BOM = b"\xef\xbb\xbf"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def edited(files: Files, content: bytes, old: str, new: str, replace_all: bool = False) -> bytes | ErrorCode:
    """Read and edit one file; the content afterwards, or why it was refused (then it must be unchanged)."""
    path = files.put("f.txt", content)
    assert isinstance(files.call("Read", file_path="f.txt"), ToolResult)
    done = files.call("Edit", file_path="f.txt", old_string=old, new_string=new, replace_all=replace_all)
    after = path.read_bytes()
    if isinstance(done, CallRefused):
        assert after == content
        return done.code
    return after


@pytest.mark.parametrize(
    ("content", "old", "new", "expected"),
    [
        (b"a\r\nb\nc\r\nd\r\n", "c", "C", b"a\r\nb\nC\r\nd\r\n"),
        (b"a\r\nb\nc\r\nd\r\n", "c\nd", "C\nD", b"a\r\nb\nC\r\nD\r\n"),
        (b"a\r\nb\nc\r\nd\r\n", "b\nc", "b\nX\nc", b"a\r\nb\nX\nc\r\nd\r\n"),
        (b"a\r\nb\r\nc\r\nd\r\n", "b\nc", "B\nX\nC", b"a\r\nB\r\nX\r\nC\r\nd\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc\nd", b"a\r\nb\r\nc\r\nd\r\n"),
        (b"a\r\nb", "b", "b\nc\n", b"a\r\nb\r\nc\r\n"),
        (b"a\nb\r\nc\nd\r\n", "a\nb\nc\nd\n", "X\nb\nc\nd\n", b"X\nb\r\nc\nd\r\n"),
        (b"a\r\nb\nc\n", "b\nc\n", "", b"a\r\n"),
        (b"a\r\nb\r\n", "\nb", "", b"a\r\n"),
        (b"a\nb\n", "a\n", "a\r\n", b"a\r\nb\n"),
        (BOM + b"first\nsecond\n", "first", "FIRST", BOM + b"FIRST\nsecond\n"),
        (b"a\nb", "b", "B", b"a\nB"),
        (b"a\rb\rc\n", "c", "C", b"a\rb\rC\n"),
        ("a\u2028b\u0085c\x0cd\nend\n".encode(), "end", "END", "a\u2028b\u0085c\x0cd\nEND\n".encode()),
        (b"x = 1\n", "x = 1", "x = '\\1 $& \\g<0> \\n'", b"x = '\\1 $& \\g<0> \\n'\n"),
        (b"a\\\r\nb\r\n", "a\\\nb", "c", b"c\r\n"),
    ],
)
def test_k14_only_the_edit_changes_and_new_lines_end_like_their_neighbours(
    files: Files, content: bytes, old: str, new: str, expected: bytes
) -> None:
    assert edited(files, content, old, new) == expected


@pytest.mark.parametrize(
    ("content", "old", "new", "expected"),
    [
        (b"aaa\n", "aa", "b", ErrorCode.NOT_UNIQUE),
        (b"a\nb\r\na\r\nb\n", "a\nb", "x", ErrorCode.NOT_UNIQUE),
        (b"abc\n", "xyz", "q", ErrorCode.NO_MATCH),
        (b"abc\n", "abc", "abc", ErrorCode.INVALID_ARGUMENTS),
        (b"a\r\nb\r\n", "a\r\nb", "a\nb", ErrorCode.INVALID_ARGUMENTS),
        (b"abc\n", "", "new", ErrorCode.REFUSED),
        (b"a\nb\n", "a\r\nb", "x", ErrorCode.NO_MATCH),
    ],
)
def test_k18_what_is_not_one_clear_change_is_refused(
    files: Files, content: bytes, old: str, new: str, expected: ErrorCode
) -> None:
    assert edited(files, content, old, new) == expected


def test_k18_a_text_that_stands_twice_is_told_with_its_lines_and_replace_all_with_its_count(files: Files) -> None:
    path = files.put("f.txt", "same\nx\nsame\n")
    files.text("Read", file_path="f.txt")
    assert files.refusal("Edit", file_path="f.txt", old_string="same", new_string="other") == (
        ErrorCode.NOT_UNIQUE,
        "old_string occurs 2 times in f.txt (line 1, 3). Nothing was changed. "
        "Give more of the text around the place, or set replace_all.",
    )
    assert files.text("Edit", file_path="f.txt", old_string="same", new_string="other", replace_all=True) == (
        "Edited f.txt (2 replacements).\n--- f.txt\n+++ f.txt\n@@ -1,3 +1,3 @@\n-same\n+other\n x\n-same\n+other"
    )
    assert path.read_bytes() == b"other\nx\nother\n"


def test_an_edit_shows_its_diff(files: Files) -> None:
    files.put("f.txt", "".join(f"{i}\n" for i in range(1, 30)) + "end")
    files.text("Read", file_path="f.txt")
    assert files.text("Edit", file_path="f.txt", old_string="28\n29\nend", new_string="28\nend!") == (
        "Edited f.txt (1 replacement).\n--- f.txt\n+++ f.txt\n@@ -26,5 +26,4 @@\n 26\n 27\n 28\n-29\n-end\n"
        "\\ No newline at end of file\n+end!\n\\ No newline at end of file"
    )


def test_an_edit_within_a_huge_line_shows_the_place_and_not_the_line(files: Files) -> None:
    path = files.put("long.txt", b"y" * 3_000_000 + b"needle" + b"z" * 3_000_000 + b"\r\n")
    files.text("Read", file_path="long.txt")
    told = files.text("Edit", file_path="long.txt", old_string="needle", new_string="NEEDLE")
    assert path.read_bytes() == b"y" * 3_000_000 + b"NEEDLE" + b"z" * 3_000_000 + b"\r\n"
    assert "\n-…" + "y" * 80 + "needlez" in told and "\n+…" + "y" * 80 + "NEEDLEz" in told and len(told) < 1_000


def test_a_text_that_is_not_there_is_answered_with_the_closest_place(files: Files) -> None:
    files.put("f.py", "def one():\n    return 1\n\ndef two():\n\treturn 2\n")
    files.text("Read", file_path="f.py")
    code, message = files.refusal("Edit", file_path="f.py", old_string="def two():\n    return 2", new_string="x")
    assert (code, message) == (
        ErrorCode.NO_MATCH,
        "old_string does not occur in f.py. Nothing was changed. The closest place begins at line 4 "
        "(it differs in white space only):\n--- old_string\n+++ the file\n@@ -1,2 +1,2 @@\n"
        " def two():\n-    return 2\n+\treturn 2",
    )


def test_an_empty_old_string_creates_a_file_and_its_directories(files: Files) -> None:
    assert files.text("Edit", file_path="a/b/new.txt", old_string="", new_string="x\n") == "Created a/b/new.txt."
    files.put("empty.txt", "")
    files.text("Edit", file_path="empty.txt", old_string="", new_string="y\n")
    assert ((files.root / "a/b/new.txt").read_text(), (files.root / "empty.txt").read_text()) == ("x\n", "y\n")


def test_consecutive_edits_need_no_new_read(files: Files) -> None:
    path = files.put("f.txt", "one\n")
    files.text("Read", file_path="f.txt")
    for old, new in (("one", "two"), ("two", "three")):
        files.text("Edit", file_path="f.txt", old_string=old, new_string=new)
    assert path.read_text() == "three\n"


@pytest.mark.parametrize(
    "content", [b"caf\xe9 1\n", "中文 1\n".encode("gbk"), b"ok\nstray \xff 1\n", "1\n".encode("utf-16")]
)
def test_k15_what_is_not_utf_8_is_refused_and_unchanged(files: Files, content: bytes) -> None:
    path = files.put("f.txt", content)
    assert files.code("Edit", file_path="f.txt", old_string="1", new_string="2") == ErrorCode.NOT_TEXT
    assert path.read_bytes() == content


def test_a_file_that_was_never_read_or_is_not_there(files: Files) -> None:
    files.put("f.txt", "one\n")
    assert files.code("Edit", file_path="f.txt", old_string="one", new_string="2") == ErrorCode.NOT_READ
    assert files.code("Edit", file_path="g.txt", old_string="one", new_string="2") == ErrorCode.NOT_FOUND
    assert files.code("Edit", file_path=".", old_string="one", new_string="2") == ErrorCode.REFUSED


TEXTS = st.text(st.sampled_from("ab \té中\n"), max_size=12)
LINES = st.lists(
    st.tuples(st.text(st.sampled_from("ab \té中\u2028"), max_size=5), st.sampled_from(["\n", "\r\n"])), max_size=8
)


@settings(max_examples=300, deadline=None)
@given(lines=LINES, last=TEXTS, mark=st.booleans(), old=TEXTS, new=TEXTS, replace_all=st.booleans(), data=st.data())
def test_k14_every_byte_outside_of_an_edit_is_identical(
    lines: list[tuple[str, str]], last: str, mark: bool, old: str, new: str, replace_all: bool, data: st.DataObject
) -> None:
    text = "".join(line + end for line, end in lines) + last
    plain = text.replace("\r\n", "\n")
    if plain and data.draw(st.booleans()):  # mostly texts that do occur
        start = data.draw(st.integers(0, len(plain) - 1))
        old = plain[start : data.draw(st.integers(start + 1, len(plain)))]
    content = (BOM if mark else b"") + text.encode()
    with tempfile.TemporaryDirectory() as folder:
        after = edited(Files(Path(folder)), content, old, new, replace_all)
    if isinstance(after, ErrorCode):
        return
    assert after.startswith(BOM) == mark
    assert after.decode("utf-8-sig").replace("\r\n", "\n") == plain.replace(old, new)
    if not replace_all:
        body, start = content.decode("utf-8-sig"), plain.index(old)
        head, tail = _bytes_before(body, start), _bytes_before(body, start + len(old))
        assert after.removeprefix(BOM)[:head] == body.encode()[:head]
        assert after.endswith(body.encode()[tail:])


def _bytes_before(body: str, plain_characters: int) -> int:
    """How many bytes of a text with CRLF stand before so many characters of the same text with LF."""
    position = 0
    for _ in range(plain_characters):
        position += 2 if body.startswith("\r\n", position) else 1
    return len(body[:position].encode())
