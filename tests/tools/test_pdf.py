"""PDF as text: pages in order, bounded, and never a program that is left running."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pypdf
import pytest

from tests.tools.files_kit import Files, action
from tests.tools.pdf_file import pdf
from tools.base import CallRefused, ErrorCode
from tools.pdf import COMMAND, PdfUnreadable, pdf_text
from tools.read import Read

SHOWN = "(A PDF, shown as text: figures and layout are missing.)"
WITHOUT_PACKAGES = (COMMAND[0], "-S", *COMMAND[1:])


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_the_text_of_a_pdf_comes_page_by_page(files: Files) -> None:
    files.put("a.pdf", pdf("Hello\nsecond line", "", "third page"))
    assert files.text("Read", file_path="a.pdf").split("\n") == [
        "     1\t--- page 1 of 3",
        "     2\tHello",
        "     3\tsecond line",
        "     4\t--- page 2 of 3",
        "     5\t(No text on this page: perhaps it is a picture of one.)",
        "     6\t--- page 3 of 3",
        "     7\tthird page",
        SHOWN,
    ]
    assert files.text("Read", file_path="a.pdf", offset=6, limit=1).split("\n") == [
        "     6\t--- page 3 of 3",
        "(Lines 6 to 6 of 7, 1 more after them: read on with offset=7.)",
        SHOWN,
    ]
    assert files.code("Edit", file_path="a.pdf", old_string="Hello", new_string="Bye") == ErrorCode.NOT_TEXT


def test_a_long_pdf_is_read_as_far_as_it_is_wanted(files: Files) -> None:
    files.put("long.pdf", pdf(*["\n".join(["x"] * 50)] * 60))
    assert files.text("Read", file_path="long.pdf").split("\n")[-4:] == [
        "  2000\tx",
        "(Lines 1 to 2000: read on with offset=2001.)",
        "(These are lines of the pages 1 to 40; 20 more pages follow.)",
        SHOWN,
    ]
    assert files.text("Read", file_path="long.pdf", offset=2041).startswith("  2041\t--- page 41 of 60\n")


def test_a_pdf_of_ascii_alone_is_a_pdf_and_a_text_that_begins_like_one_is_a_text(files: Files) -> None:
    files.put("ascii.pdf", pdf("Hello").replace(b"\xe2\xe3\xcf\xd3", b"abcd"))
    files.put("about.txt", "%PDF- is how such a file begins\n")
    assert "     2\tHello\n" in files.text("Read", file_path="ascii.pdf")
    assert files.text("Read", file_path="about.txt") == "     1\t%PDF- is how such a file begins"


def test_without_the_package_the_model_is_told_what_helps(files: Files) -> None:
    read = Read(files.workspace, files.cache, pdf_command=WITHOUT_PACKAGES)
    path = files.put("a.pdf", pdf("Hello"))
    plan = asyncio.run(read.plan(read.params.model_validate({"file_path": "a.pdf"})))
    with pytest.raises(CallRefused) as refused:
        asyncio.run(read.act(plan, action(files.root)))
    message = (
        f"a.pdf is not text: a PDF document, {path.stat().st_size:,} bytes. Its text can be read when the package "
    )
    assert (refused.value.code, refused.value.message[: len(message)]) == (ErrorCode.NOT_TEXT, message)


def encrypted(password: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("Hello")))
    writer.encrypt(password, owner_password="owner", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"%PDF-1.4\n\xff\xfe garbage", "it is damaged or of an unknown kind"),
        (pdf("Hello")[:200], "it is damaged or of an unknown kind"),
        (pdf(), "it has no pages"),
        (encrypted("secret"), "it is encrypted with a password"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(files: Files, content: bytes, why: str) -> None:
    files.put("bad.pdf", content)
    code, message = files.refusal("Read", file_path="bad.pdf")
    assert code == ErrorCode.NOT_TEXT
    assert f"{len(content):,} bytes. Its text cannot be read: {why}" in message


def test_a_pdf_with_an_empty_password_is_read(files: Files) -> None:
    files.put("a.pdf", encrypted(""))
    assert "     2\tHello\n" in files.text("Read", file_path="a.pdf")


PAGE = 'import os, time; print(\'{"pages": 3}\\n{"text": "one"}\', flush=True); '


def read_with(tmp_path: Path, code: str, stop: asyncio.Event | None = None, seconds_max: float = 20) -> str:
    """What comes of a program that does this in the place of ours."""
    command: Sequence[str] = (sys.executable, "-c", code)
    (tmp_path / "a.pdf").write_bytes(b"%PDF-")
    with (tmp_path / "a.pdf").open("rb", buffering=0) as file:
        return pdf_text(file, 1, 100, stop or asyncio.Event(), command=command, seconds_max=seconds_max)


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        ("time.sleep(60)", "reading was stopped after 2 seconds"),
        ("os.kill(os.getpid(), 9)", "it takes more memory or time than it may"),
        ('print(\'{"error": "it is damaged"}\'); raise SystemExit(4)', "it is damaged"),
    ],
)
def test_the_pages_before_an_early_end_are_shown(tmp_path: Path, ends: str, why: str) -> None:
    shown = read_with(tmp_path, PAGE + ends, seconds_max=2)
    notes = ["(Lines 1 to 2: read on with offset=3.)", f"(After page 1 of 3 nothing more can be read: {why}.)"]
    assert shown.split("\n") == ["     1\t--- page 1 of 3", "     2\tone", *notes, SHOWN]
    assert children() == ""


def test_a_program_that_says_nothing_is_ended_in_time_or_when_the_user_interrupts(tmp_path: Path) -> None:
    with pytest.raises(PdfUnreadable, match="was stopped after"):
        read_with(tmp_path, "import time; time.sleep(60)", seconds_max=0.3)
    stop = asyncio.Event()
    stop.set()
    with pytest.raises(CallRefused, match="interrupted"):
        read_with(tmp_path, "import time; time.sleep(60)", stop)
    assert children() == ""


def children() -> str:
    """The ids of the processes that this one has started and not yet collected."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()
