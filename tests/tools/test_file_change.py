"""The life of an Edit or Write: lock, whole files, faults and kills at every call, and the verdict after them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from memory.disk import Disk
from tests.tools.files_kit import OTHER_ID, Files, as_another_user, open_folder
from tools.base import CallRefused, ErrorCode, ToolResult
from tools.file_change import temp_name
from tools.verdict import Json, Verdict


class Killed(BaseException):
    """Stands for the death of the process: nothing on the disk happens after it."""


class FaultyDisk(Disk):
    """Fails at its n-th call: with an error, or by dying (then every later call fails too)."""

    def __init__(self, fail_at: int = -1, error: type[BaseException] = OSError, after: bool = False) -> None:
        self.calls: list[str] = []
        self._fail_at = fail_at
        self._error = error
        self._after = after

    def _count(self, name: str) -> bool:
        dead = self._error is Killed and len(self.calls) > self._fail_at >= 0
        self.calls.append(name)
        return dead or len(self.calls) - 1 == self._fail_at

    def _fail(self) -> BaseException:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if self._error is OSError else self._error()

    def _run(self, name: str, call: Callable[[], int | None]) -> int:
        fails = self._count(name)
        if fails and not self._after:
            raise self._fail()
        result = call()
        if fails:
            raise self._fail()
        return result or 0

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        return self._run("open", lambda: super(FaultyDisk, self).open(path, flags, mode))

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> int:
        return self._run("write", lambda: super(FaultyDisk, self).write(fd, data))

    def fsync(self, fd: int) -> None:
        self._run("fsync", lambda: super(FaultyDisk, self).fsync(fd))

    def chmod(self, fd: int, mode: int) -> None:
        self._run("chmod", lambda: super(FaultyDisk, self).chmod(fd, mode))

    def rename(self, source: Path, target: Path) -> None:
        self._run("rename", lambda: super(FaultyDisk, self).rename(source, target))

    def unlink(self, path: Path) -> None:
        self._run("unlink", lambda: super(FaultyDisk, self).unlink(path))

    def mkdir(self, path: Path) -> None:
        self._run("mkdir", lambda: super(FaultyDisk, self).mkdir(path))


EDIT_CALLS = ["open", "write", "chmod", "fsync", "rename", "open", "fsync"]
LARGE_EDIT_CALLS = ["open", "write", "write", "write", *EDIT_CALLS[2:]]
NEW_CALLS = ["mkdir", "open", "chmod", "open", "fsync", "open", "write", "fsync", "unlink", "open", "fsync"]


def edit(files: Files) -> ToolResult | CallRefused:
    files.put("f.txt", "one\n")
    files.text("Read", file_path="f.txt")
    return files.call("Edit", file_path="f.txt", old_string="one", new_string="two")


def large(middle: str) -> str:
    """A text that is hashed in a thread of its own, and written in pieces after an edit."""
    return "begin\n" * 200_000 + f"{middle}\n" + "end\n" * 300_000


def edit_large(files: Files) -> ToolResult | CallRefused:
    files.put("f.txt", large("one"))
    files.text("Read", file_path="f.txt", limit=1)
    return files.call("Edit", file_path="f.txt", old_string="one", new_string="two")


def create(files: Files) -> ToolResult | CallRefused:
    return files.call("Write", file_path="d/f.txt", content="two\n")


def content(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def test_the_calls_of_an_edit_and_of_a_new_file(tmp_path: Path) -> None:
    cases = (("edit", edit, EDIT_CALLS), ("large", edit_large, LARGE_EDIT_CALLS), ("new", create, NEW_CALLS))
    for name, act, calls in cases:
        disk = FaultyDisk()
        (tmp_path / name).mkdir()
        assert isinstance(act(Files(tmp_path / name, disk)), ToolResult)
        assert disk.calls == calls


@pytest.mark.parametrize("fail_at", range(len(EDIT_CALLS)))
def test_k17_an_edit_that_meets_a_full_disk_leaves_the_old_file_or_says_that_the_new_one_is_there(
    tmp_path: Path, fail_at: int
) -> None:
    files = Files(tmp_path, FaultyDisk(fail_at))
    done = edit(files)
    assert files.names() == {"f.txt"}
    if fail_at < 5:
        assert isinstance(done, CallRefused) and done.code == ErrorCode.REFUSED
        assert done.message == "f.txt was not changed: No space left on device."
        assert (tmp_path / "f.txt").read_text() == "one\n"
    else:
        assert isinstance(done, ToolResult)
        assert "could not be synced (No space left on device): a power cut may undo the change." in done.text
        assert (tmp_path / "f.txt").read_text() == "two\n"


@pytest.mark.parametrize("error", [OSError, Killed])
@pytest.mark.parametrize("fail_at", range(len(LARGE_EDIT_CALLS)))
def test_k17_an_edit_of_a_large_file_that_fails_at_any_call_leaves_a_whole_file(
    tmp_path: Path, fail_at: int, error: type[BaseException]
) -> None:
    files = Files(tmp_path, FaultyDisk(fail_at, error))
    with contextlib.suppress(Killed):
        edit_large(files)
    applied = fail_at > LARGE_EDIT_CALLS.index("rename")
    assert (tmp_path / "f.txt").read_text() == large("two" if applied else "one")
    _assert_verdict(files, "Edit", Verdict.APPLIED if applied else Verdict.NOT_APPLIED)
    assert files.names() == {"f.txt"}


@pytest.mark.parametrize("fail_at", range(len(NEW_CALLS)))
def test_k17_a_new_file_that_meets_a_full_disk_is_there_in_full_or_not_at_all(tmp_path: Path, fail_at: int) -> None:
    files = Files(tmp_path, FaultyDisk(fail_at))
    done = create(files)
    written = fail_at >= NEW_CALLS.index("unlink")
    assert isinstance(done, ToolResult) == written
    assert content(tmp_path / "d/f.txt") == ("two\n" if written else None)
    left = {".f.txt.act-0123456789ab.tmp"} if NEW_CALLS[fail_at] == "unlink" else set()
    assert {Path(name).name for name in files.names()} - {"d", "f.txt"} == left
    if isinstance(done, ToolResult):
        assert "could not be" in done.text and "(No space left on device)" in done.text


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("fail_at", range(len(EDIT_CALLS)))
def test_k17_an_edit_killed_at_any_call_leaves_a_whole_file_and_the_right_verdict(
    tmp_path: Path, fail_at: int, after: bool
) -> None:
    files = Files(tmp_path, FaultyDisk(fail_at, Killed, after))
    with pytest.raises(Killed):
        edit(files)
    applied = (fail_at, after) >= (EDIT_CALLS.index("rename"), True)
    assert (tmp_path / "f.txt").read_text() == ("two\n" if applied else "one\n")
    _assert_verdict(files, "Edit", Verdict.APPLIED if applied else Verdict.NOT_APPLIED)
    assert files.names() == {"f.txt"}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("fail_at", range(len(NEW_CALLS)))
def test_k17_a_new_file_killed_at_any_call_is_whole_or_absent_with_the_right_verdict(
    tmp_path: Path, fail_at: int, after: bool
) -> None:
    files = Files(tmp_path, FaultyDisk(fail_at, Killed, after))
    with pytest.raises(Killed):
        create(files)
    applied = fail_at >= NEW_CALLS.index("unlink")
    assert content(tmp_path / "d/f.txt") == ("two\n" if applied else None)
    _assert_verdict(files, "Write", Verdict.APPLIED if applied else Verdict.NOT_APPLIED)
    assert files.names() - {"d", "d/f.txt"} == set()


def _assert_verdict(files: Files, tool: str, verdict: Verdict) -> None:
    """A fresh process looks, seals, and looks again: twice the same verdict, the file untouched, no temp file."""
    later = Files(files.root)
    later.intents = files.intents
    path = files.root / str(files.intents[-1]["path"])
    before = content(path)
    assert later.verdict(tool) == verdict
    later.tool(tool).seal(files.intents[-1], files.root)
    assert (later.verdict(tool), content(path)) == (verdict, before)


def test_the_intent_of_an_edit_and_the_verdicts_of_its_probe(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.put("f.txt", "one\n")
    path.chmod(0o640)
    edit_again = edit(files)
    assert isinstance(edit_again, ToolResult)
    old, new = (hashlib.sha256(text).hexdigest() for text in (b"one\n", b"two\n"))
    assert files.intents == [
        {
            "path": str(path),
            "sha256_before": old,
            "sha256_planned": new,
            "size_before": 4,
            "size_planned": 4,
            "mode": 0o640,
            "blob": old,
            "temp": ".f.txt.act-0123456789ab.tmp",
        }
    ]
    assert files.kept == {old: b"one\n"}
    probe = files.tool("Edit").probe
    facts = {"path": str(path), "sha256_before": old, "sha256_planned": new, "revertible": True}
    assert probe(files.intents[0], tmp_path).evidence() == {
        "text": "the file has the planned content",
        **facts,
        "sha256_now": new,
    }
    verdicts = [files.verdict("Edit")]
    for text in ("one\n", "three\n"):
        path.write_text(text)
        verdicts.append(files.verdict("Edit"))
    path.unlink()
    verdicts.append(files.verdict("Edit"))
    path.mkdir()
    verdicts.append(files.verdict("Edit"))
    assert verdicts == [
        Verdict.APPLIED,
        Verdict.NOT_APPLIED,
        Verdict.CHANGED_SINCE,
        Verdict.CHANGED_SINCE,
        Verdict.UNKNOWN,
    ]
    assert probe({}, tmp_path).verdict == Verdict.UNKNOWN


def test_an_old_content_that_may_not_be_kept_is_no_blob(tmp_path: Path) -> None:
    files = Files(tmp_path, keeps=False)
    assert isinstance(edit(files), ToolResult)
    assert files.intents[0]["blob"] is None


def test_seal_removes_nothing_but_the_temp_file_that_the_intent_names(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    files = Files(tmp_path / "work")
    edit(files)
    intent, tool = files.intents[0], files.tool("Edit")
    outside = tmp_path / ".out.tmp"
    outside.write_text("")
    files.put(".f.txt.other.tmp", "")
    (files.root / ".link.tmp").symlink_to(outside)
    files.put("plain", "")
    before = files.names()
    for temp in ("../.out.tmp", "plain", ".link.tmp", ".", "..", ".f.txt.act-0123456789ab.tmp"):
        tool.seal({**intent, "temp": temp}, tmp_path)
    tool.seal({**intent, "path": str(tmp_path / "x"), "temp": ".out.tmp"}, tmp_path)
    tool.seal({}, tmp_path)
    assert (files.names(), outside.exists()) == (before, True)


def test_temp_names_fit_into_a_directory() -> None:
    assert temp_name("a.py", "act-1") == ".a.py.act-1.tmp"
    assert temp_name("é" * 127, "act-1") == "." + "é" * 122 + ".act-1.tmp"
    assert temp_name(os.fsdecode(b"\xff.py"), "act-1") == ".\ufffd.py.act-1.tmp"


# -- the optimistic lock


def test_k19_a_foreign_change_is_refused_with_the_new_content_which_then_counts_as_read(tmp_path: Path) -> None:
    files = Files(tmp_path)
    calls: list[tuple[str, dict[str, Json]]] = [
        ("Edit", {"old_string": "one", "new_string": "two"}),
        ("Write", {"content": "lost\n"}),
    ]
    for tool, arguments in calls:
        path = files.put("f.txt", "one\n")
        files.text("Read", file_path="f.txt")
        path.write_text("one\nTHEIRS\n")
        refused = files.call(tool, file_path="f.txt", **arguments)
        assert isinstance(refused, CallRefused)
        assert (refused.code, refused.message) == (
            ErrorCode.CHANGED_SINCE_READ,
            "f.txt changed since it was read. Nothing was changed by this call. This is what it holds now:\n"
            "     1\tone\n     2\tTHEIRS",
        )
        assert [state.sha256 for state in refused.file_states] == [hashlib.sha256(b"one\nTHEIRS\n").hexdigest()]
        assert path.read_text() == "one\nTHEIRS\n"
        assert isinstance(files.call(tool, file_path="f.txt", **arguments), ToolResult)


def test_k19_what_is_not_in_a_content_that_the_model_does_not_know_is_not_told(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.put("f.txt", "one\n")
    arguments: dict[str, Json] = {"file_path": "f.txt", "old_string": "gone", "new_string": "two"}
    assert files.code("Edit", **arguments) == ErrorCode.NOT_READ
    files.text("Read", file_path="f.txt")
    assert files.code("Edit", **arguments) == ErrorCode.NO_MATCH
    path.write_text("two\n")
    assert files.code("Edit", **arguments) == ErrorCode.CHANGED_SINCE_READ


@pytest.mark.parametrize("place", [0, 1_200_001, -1])
def test_k19_one_byte_of_a_large_file_that_changes_without_a_trace_is_seen(tmp_path: Path, place: int) -> None:
    files = Files(tmp_path)
    path = files.put("f.txt", large("one"))
    files.text("Read", file_path="f.txt", limit=1)
    before = path.stat()

    def change() -> None:
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    refused = files.call_late(change, "Edit", file_path="f.txt", old_string="one", new_string="two")
    assert isinstance(refused, CallRefused) and refused.code == ErrorCode.CHANGED_SINCE_READ
    assert files.names() == {"f.txt"}


def test_k19_a_change_too_large_to_be_shown_has_to_be_read(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.put("f.txt", "one\n")
    files.text("Read", file_path="f.txt")
    path.write_text("one\n" * 3000)
    for _ in range(2):
        assert files.code("Write", file_path="f.txt", content="x") == ErrorCode.CHANGED_SINCE_READ


@pytest.mark.parametrize("tool", ["Edit", "Write"])
def test_k19_a_change_between_question_and_rename_is_seen(tmp_path: Path, tool: str) -> None:
    files = Files(tmp_path)
    path = files.put("f.txt", "one\n")
    files.text("Read", file_path="f.txt")
    arguments: dict[str, Json] = {"old_string": "one", "new_string": "two"} if tool == "Edit" else {"content": "two\n"}
    refused = files.call_late(lambda: path.write_text("else\n"), tool, file_path="f.txt", **arguments)
    assert isinstance(refused, CallRefused) and refused.code == ErrorCode.CHANGED_SINCE_READ
    assert (path.read_text(), files.names()) == ("else\n", {"f.txt"})


def test_k19_a_file_that_appeared_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    def link(source: Path, target: Path) -> None:
        (tmp_path / "f.txt").write_text("theirs\n")
        os.link(source, target)

    files = Files(tmp_path, link=link)
    refused = files.call("Write", file_path="f.txt", content="ours\n")
    assert isinstance(refused, CallRefused) and refused.code == ErrorCode.CHANGED_SINCE_READ
    assert ((tmp_path / "f.txt").read_text(), files.names()) == ("theirs\n", {"f.txt"})


def test_a_new_file_where_the_file_system_has_no_hard_links(tmp_path: Path) -> None:
    def link(source: Path, target: Path) -> None:
        del source, target
        raise PermissionError(errno.EPERM, "Operation not permitted")

    files = Files(tmp_path, link=link)
    assert files.text("Write", file_path="f.txt", content="ours\n") == "Created f.txt."
    assert ((tmp_path / "f.txt").read_text(), files.names()) == ("ours\n", {"f.txt"})


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("foo.py\n", "A new name with such characters is written as $'...'."),
        ("file:///tmp/foo.py", "is an address. Give a path."),
        ("newdir/", "names a directory"),
    ],
)
def test_a_slip_in_a_path_makes_no_odd_name(tmp_path: Path, path: str, words: str) -> None:
    files = Files(tmp_path)
    code, message = files.refusal("Write", file_path=path, content="x\n")
    assert (code, words in message, files.names()) == (ErrorCode.INVALID_ARGUMENTS, True, set())
    files.text("Write", file_path="$'two\\nlines'", content="x\n")
    assert files.names() == {"two\nlines"}


def test_a_name_is_found_in_either_unicode_composition(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.put("cafe\u0301.txt", "one\n")
    files.text("Read", file_path="caf\u00e9.txt")
    files.text("Write", file_path="caf\u00e9.txt", content="two\n")
    assert files.names() == {"cafe\u0301.txt"}


def test_a_link_that_is_found_by_another_composition_is_followed_no_further_than_any_other(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden\n")
    files = Files(tmp_path / "work")
    files.put("inside.txt", "seen\n")
    (files.root / "cafe\u0301").symlink_to(tmp_path / "secret")
    (files.root / "the\u0301").symlink_to("inside.txt")
    assert files.code("Read", file_path="caf\u00e9") == ErrorCode.OUTSIDE_WORKSPACE
    assert files.text("Read", file_path="th\u00e9") == "     1\tseen"


@pytest.mark.parametrize("tool", ["Edit", "Write"])
def test_a_file_too_large_to_be_changed_is_refused_before_it_is_read(tmp_path: Path, tool: str) -> None:
    files = Files(tmp_path)
    with files.put("huge", "x").open("r+b") as file:
        file.truncate(5 * 1024**3)
    given = {"content": "y"} if tool == "Write" else {"old_string": "x", "new_string": "y"}
    tracemalloc.start()
    try:
        code, message = files.refusal(tool, file_path="huge", **given)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (code, "is larger than" in message) == (ErrorCode.REFUSED, True)
    assert peak < 20 * 1024**2


def test_k19_a_file_that_was_never_read_is_not_overwritten(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.put("f.txt", "one\n")
    assert files.code("Write", file_path="f.txt", content="x") == ErrorCode.NOT_READ
    assert path.read_text() == "one\n"


def test_a_write_of_the_same_content_changes_nothing_and_counts_as_read(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.put("f.txt", "one\n")
    assert files.text("Write", file_path="f.txt", content="one\n") == "f.txt has this content already."
    assert files.intents == []
    assert files.cache.is_current(path, hashlib.sha256(b"one\n").hexdigest())


@pytest.mark.parametrize(
    ("before", "given", "after"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\n", "x\ny\n", b"x\r\ny\n"),
        (b"a\r\nb\nc\r\n", "a\nb\nx\nc\n", b"a\r\nb\nx\r\nc\r\n"),
        (b"a\rb\r", "x\ny\nz\n", b"x\ry\rz\r"),
        (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\n"),
        (b"\xef\xbb\xbfa\n", "x\n", b"\xef\xbb\xbfx\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffx\n", b"\xef\xbb\xbfx\n"),
        (b"", "x", b"x"),
        ("a\r\nb\r\n".encode("utf-16"), "é\n", "é\r\n".encode("utf-16")),
        ("中文注释，第一行\n".encode("gbk"), "新的\n", "新的\n".encode("gbk")),
    ],
)
def test_k14_a_whole_new_content_keeps_what_read_does_not_show(
    tmp_path: Path, before: bytes, given: str, after: bytes
) -> None:
    files = Files(tmp_path)
    path = files.put("f.txt", before)
    files.text("Read", file_path="f.txt")
    files.text("Write", file_path="f.txt", content=given)
    assert path.read_bytes() == after


def test_k15_a_whole_new_content_that_the_encoding_cannot_express_is_refused(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.put("f.txt", b"caf\xe9\n")
    files.text("Read", file_path="f.txt")
    assert files.refusal("Write", file_path="f.txt", content="中\n") == (
        ErrorCode.REFUSED,
        "f.txt was not changed: '中' cannot be written in its encoding (ISO-8859-1 or like it). "
        "Convert it with a command (Bash, such as iconv), or make an edit that needs ASCII only.",
    )
    assert path.read_bytes() == b"caf\xe9\n"


# -- what a rename would destroy


def test_k16_mode_and_symlink_are_kept_and_the_target_changes(tmp_path: Path) -> None:
    files = Files(tmp_path)
    real = files.put("real.sh", "echo one\n")
    real.chmod(0o2755)
    (tmp_path / "link.sh").symlink_to("real.sh")
    files.text("Read", file_path="link.sh")
    files.text("Edit", file_path="link.sh", old_string="one", new_string="two")
    assert (tmp_path / "link.sh").is_symlink()
    assert (real.read_text(), stat.S_IMODE(real.stat().st_mode)) == ("echo two\n", 0o2755)
    assert files.names() == {"real.sh", "link.sh"}


def test_k16_a_dangling_link_inside_gets_its_target(tmp_path: Path) -> None:
    files = Files(tmp_path)
    (tmp_path / "link").symlink_to("target")
    files.text("Write", file_path="link", content="x\n")
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "target").read_text()) == (True, "x\n")


def test_new_files_and_directories_have_the_usual_modes(tmp_path: Path) -> None:
    files = Files(tmp_path)
    before = os.umask(0o027)
    try:
        files.text("Write", file_path="d/e/f.txt", content="x\n")
    finally:
        os.umask(before)
    assert {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("d", "d/e", "d/e/f.txt")} == {
        "d": 0o750,
        "d/e": 0o750,
        "d/e/f.txt": 0o640,
    }


def test_k16_a_hard_link_is_refused_before_any_question(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.put("hard.sh", "one\n")
    (tmp_path / "hard2.sh").hardlink_to(path)
    files.text("Read", file_path="hard.sh")
    assert files.refusal("Edit", file_path="hard.sh", old_string="one", new_string="two") == (
        ErrorCode.REFUSED,
        "hard.sh was not changed: it has 2 hard links, and replacing it would split them.",
    )
    assert files.intents == []
    assert (path.read_text(), path.stat().st_nlink) == ("one\n", 2)


def test_k16_extended_attributes_are_kept(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.put("f.txt", "one\n")
    try:
        os.setxattr(path, "user.origin", b"here")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    files.text("Read", file_path="f.txt")
    files.text("Edit", file_path="f.txt", old_string="one", new_string="two")
    assert {name: os.getxattr(path, name) for name in os.listxattr(path)} == {"user.origin": b"here"}


def give_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of another owner")
    os.chown(path, OTHER_ID, OTHER_ID)


def test_k16_flags_of_the_inode_are_kept(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.put("f.txt", "one\n")
    set_flags = subprocess.run(["chattr", "+dA", path], check=False, capture_output=True, text=True)
    if set_flags.returncode:
        pytest.skip(f"no such flags here: {set_flags.stderr.strip()}")
    files.text("Read", file_path="f.txt")
    before = subprocess.check_output(["lsattr", path], text=True)
    assert {"A", "d"} < set(before.split()[0])
    files.text("Edit", file_path="f.txt", old_string="one", new_string="two")
    assert subprocess.check_output(["lsattr", path], text=True) == before


def test_k16_a_foreign_owner_is_kept_by_root(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.put("f.txt", "one\n")
    give_away(path)
    files.text("Read", file_path="f.txt")
    files.text("Edit", file_path="f.txt", old_string="one", new_string="two")
    assert (path.read_text(), path.stat().st_uid, path.stat().st_gid) == ("two\n", OTHER_ID, OTHER_ID)


def test_k16_a_foreign_owner_and_a_closed_directory_are_refused_to_others() -> None:
    with open_folder() as root:
        files = Files(root)
        files.put("closed/ours.txt", "one\n")
        files.put("theirs.txt", "one\n")
        for name in ("closed/ours.txt", "theirs.txt"):
            files.text("Read", file_path=name)
        give_away(root / "closed/ours.txt")
        with as_another_user():
            refusals = [
                files.refusal("Write", file_path=name, content="x\n")
                for name in ("closed/ours.txt", "theirs.txt", "closed/new.txt", "closed/d/new.txt")
            ]
    closed = "its directory cannot be written to."
    assert refusals == [
        (ErrorCode.REFUSED, f"closed/ours.txt was not changed: {closed}"),
        (ErrorCode.REFUSED, "theirs.txt was not changed: it belongs to another owner (uid 0, gid 0)."),
        (ErrorCode.REFUSED, f"closed/new.txt was not changed: {closed}"),
        (ErrorCode.REFUSED, f"closed/d/new.txt was not changed: {closed}"),
    ]


def test_k16_a_bind_mount_is_refused(tmp_path: Path) -> None:
    """In a mount namespace of its own, by a process that runs this very test body."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    body = (
        "import sys; from pathlib import Path; from tests.tools.files_kit import Files\n"
        "files = Files(Path(sys.argv[1])); files.text('Read', file_path='f.txt')\n"
        "print(files.refusal('Edit', file_path='f.txt', old_string='one', new_string='two')[1])\n"
    )
    files = Files(tmp_path)
    files.put("f.txt", "one\n")
    files.put("g.txt", "one\n")
    script = 'mount --bind "$1/g.txt" "$1/f.txt" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", tmp_path, sys.executable, body],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    if "denied" in done.stderr or "not permitted" in done.stderr:
        pytest.skip("mounting is not allowed here")
    assert (done.stdout, done.stderr) == ("f.txt was not changed: it is a mount point of its own (a bind mount).\n", "")
