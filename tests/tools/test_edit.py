"""Edit: one place, all other bytes the same; else an error that says why, and the file unchanged."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.checkout import CHECKOUT
from tests.tools.files_kit import Files
from tools.base import CallRefused, ErrorCode, ToolResult
from tools.tolerant import LOOSELY

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
        (b"a\nb\n", "a", "x\r\ny", b"x\ny\nb\n"),
        (b"a\r\nb\r\n", "a\nb", 'a\np("\r")\nb', b'a\r\np("\r")\r\nb\r\n'),
        (b"a\rb\rc\r", "b", "b1\nb2", b"a\rb1\rb2\rc\r"),
        (b"a\rb\rc\r", "b\nc", "B\nC", b"a\rB\rC\r"),
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
        (b"a\rb\ra\r", "a", "x", ErrorCode.NOT_UNIQUE),
        (b"abc\n", "xyz", "q", ErrorCode.NO_MATCH),
        (b"abc\n", "abc", "abc", ErrorCode.INVALID_ARGUMENTS),
        (b"a\r\nb\r\n", "a\r\nb", "a\nb", ErrorCode.INVALID_ARGUMENTS),
        (b"a\nb\n", "a\n", "a\r\n", ErrorCode.INVALID_ARGUMENTS),
        (b"abc\n", "", "new", ErrorCode.REFUSED),
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
        "(it differs in white space only):\n--- old_string\n+++ the file\n@@ -1,2 +4,2 @@\n"
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


def test_a_file_that_was_never_read_or_is_not_there(files: Files) -> None:
    files.put("f.txt", "one\n")
    assert files.code("Edit", file_path="f.txt", old_string="one", new_string="2") == ErrorCode.NOT_READ
    assert files.code("Edit", file_path="g.txt", old_string="one", new_string="2") == ErrorCode.NOT_FOUND
    assert files.code("Edit", file_path=".", old_string="one", new_string="2") == ErrorCode.REFUSED


# -- encodings


GBK = "// 中文注释第一行\nint x = 1;\n// 第二行：变量\nint y = 2;\n".encode("gbk")
LATIN = b"caf\xe9 \xa9 2020\nline 5\nna\xefve end\n"
CYRILLIC = "привет, мир\nline 5\nещё\n".encode("cp1251")
U16 = "first\r\nhello\r\n中\r\n".encode("utf-16")
XML_WITH_E_ACUTE = b'<?xml version="1.0" encoding="ISO-8859-1"?>\n<a>\xe9</a>\n'
STRAY = "gut ü\nstray ".encode() + b"\xff" + " byte\nändern\nende\n".encode()


@pytest.mark.parametrize(
    ("content", "old", "new", "expected"),
    [
        (U16, "hello", "héllo\nnew 中", "first\r\nhéllo\r\nnew 中\r\n中\r\n".encode("utf-16")),
        (b"\xfe\xff" + "a\nb\n".encode("utf-16-be"), "a\nb", "é", b"\xfe\xff" + "é\n".encode("utf-16-be")),
        ("one\ntwo\n".encode("utf-16-le"), "two", "drei", "one\ndrei\n".encode("utf-16-le")),
        (GBK, "int y = 2;", "int y = 3; // 新增", GBK.replace(b"y = 2;", "y = 3; // 新增".encode("gbk"))),
        (GBK, "第二行：变量", "第三行", GBK.replace("第二行：变量".encode("gbk"), "第三行".encode("gbk"))),
        (GBK, "x = 1;", "é = '\U0001f600';", ErrorCode.REFUSED),
        (LATIN, "line 5", "LINE 5", LATIN.replace(b"line", b"LINE")),
        (LATIN, "café", "thé é", LATIN.replace(b"caf\xe9", b"th\xe9 \xe9")),
        (LATIN, "line 5", "line 中", ErrorCode.REFUSED),
        (LATIN, "line 5", "5 €", ErrorCode.REFUSED),  # Windows and ISO 8859-15 write it differently
        (b"caf\xe9 don\x92t\n1\n", "1", "5 €", b"caf\xe9 don\x92t\n5 \x80\n"),
        (STRAY, "ende", "schön", STRAY.replace(b"ende", "schön".encode())),
        (CYRILLIC, "line 5", "line 6", CYRILLIC.replace(b"5", b"6")),
        (CYRILLIC, "line 5", "строка", ErrorCode.REFUSED),
        (CYRILLIC, "мир", "x", ErrorCode.REFUSED),
        (b"\x82\xa0a\n", "a", "b", ErrorCode.REFUSED),  # perhaps the second half of a character
        ("한국어 주석 문자열 변수\nx\n".encode("euc-kr"), "x", "한", ErrorCode.REFUSED),
        ("こんにちは世界\nx\n".encode("euc-jp"), "x", "世", ErrorCode.REFUSED),
        ("データの読み込み\nx\n".encode("shift-jis"), "x", "世", ErrorCode.REFUSED),
        ("中文註解，第一行變數\nx\n".encode("big5"), "x", "中", ErrorCode.REFUSED),
        ("zażółć gęślą jaźń\nx\n".encode("cp1250"), "x", "ł", ErrorCode.REFUSED),
        ("Καλημέρα κόσμε\nx\n".encode("iso8859-7"), "x", "é", ErrorCode.REFUSED),
        ("café naïve\nx\n".encode("mac-roman"), "x", "é", "café naïve\né\n".encode("mac-roman")),
        ("@echo não encontrado\nx\n".encode("cp850"), "x", "ção", "@echo não encontrado\nção\n".encode("cp850")),
        ("Die Straße ist groß\nx\n".encode("cp850"), "x", "süß", ErrorCode.REFUSED),  # or Latin-1 with an á
        ("Die Straße ist groß\nx\n".encode("latin-1"), "x", "süß", "Die Straße ist groß\nsüß\n".encode("latin-1")),
        ("árvíztűrő\nx\n".encode("iso8859-2"), "x", "tükör", "árvíztűrő\ntükör\n".encode("iso8859-2")),
        ("değişken\nx\n".encode("cp1254"), "x", "şu", "değişken\nşu\n".encode("cp1254")),
        (b'<?xml version="1.0" encoding="ISO-8859-1"?>\n<a>e</a>\n', ">e<", ">é<", XML_WITH_E_ACUTE),
        (b"# -*- coding: gbk -*-\nx\n", "x", "变量", "# -*- coding: gbk -*-\n变量\n".encode("gbk")),
        (b"# coding: utf-8\nx\n", "x", "变量", "# coding: utf-8\n变量\n".encode()),
        ("日本\nx\n".encode("iso2022_jp"), "x", "日", ErrorCode.REFUSED),
        ("日本\nx\n".encode("iso2022_jp"), "x", "y", "日本\ny\n".encode("iso2022_jp")),
        (b"a\n", "a", "a\0b", ErrorCode.REFUSED),
        (STRAY, "ende", "caf\ufffd", ErrorCode.REFUSED),  # what Read shows for a byte that would be lost
        (b"caf\xe9\r\nx\r\n\x1a", "x", "thé", b"caf\xe9\r\nth\xe9\r\n\x1a"),
    ],
)
def test_k15_new_text_is_in_the_encoding_of_the_file_or_refused(
    files: Files, content: bytes, old: str, new: str, expected: bytes | ErrorCode
) -> None:
    assert edited(files, content, old, new) == expected


def test_k15_what_is_refused_says_why_and_what_to_do(files: Files) -> None:
    for name, content in (("latin", LATIN), ("cyrillic", CYRILLIC)):
        files.put(name, content)
        files.text("Read", file_path=name)
    way = "Convert it with a command (Bash, such as iconv), or make an edit that needs ASCII only."
    assert files.refusal("Edit", file_path="latin", old_string="line 5", new_string="中") == (
        ErrorCode.REFUSED,
        f"latin was not changed: '中' cannot be written in its encoding (ISO-8859-1 or like it). {way}",
    )
    assert files.refusal("Edit", file_path="cyrillic", old_string="line 5", new_string="я") == (
        ErrorCode.REFUSED,
        "cyrillic was not changed: its encoding is not certain, so 'я' cannot be matched or written in it. " + way,
    )


# -- matches that are not exact


@pytest.mark.parametrize(
    ("content", "old", "new", "expected", "how"),
    [
        ("a\nb\n", "a\r\nb", "a\r\nc", "a\nc\n", LOOSELY),
        ("x = 1  \ny = 2\t\nz\n", "x = 1\ny = 2\n", "x = 1\ny = 3\n", "x = 1  \ny = 3\nz\n", LOOSELY),
        ("x = 1\nx = 10\n", "x = 1 ", "y = 1", "y = 1\nx = 10\n", LOOSELY),
        ("say “hi” now\n", 'say "hi" now', 'say "hi" later', "say “hi” later\n", LOOSELY),
        ("it’s\r\nhere\r\n", "it's\nhere", "it's\nthere", "it’s\r\nthere\r\n", LOOSELY),
        ("cafe\u0301 au\n", "caf\u00e9 au", "th\u00e9 au", "th\u00e9 au\n", LOOSELY),
    ],
)
def test_a_tolerant_match_is_one_place_and_reported(
    files: Files, content: str, old: str, new: str, expected: str, how: str
) -> None:
    path = files.put("f.txt", content)
    files.text("Read", file_path="f.txt")
    told = files.text("Edit", file_path="f.txt", old_string=old, new_string=new)
    assert (path.read_bytes().decode(), told.split("\n")[0]) == (expected, f"Edited f.txt (1 replacement; {how}).")


@pytest.mark.parametrize(
    ("content", "old", "new", "expected", "how"),
    [
        (
            "class A:\n    def f():\n        return 1\n",
            "def f():\n    return 1\n",
            "def f():\n    x = 1\n\n    return x\n",
            "class A:\n    def f():\n        x = 1\n\n        return x\n",
            "4 spaces deeper",
        ),
        ("if x:\r\n\ta\r\n\tb\r\n", "a\nb", "a\nc\nb", "if x:\r\n\ta\r\n\tc\r\n\tb\r\n", "1 tab deeper"),
        ("a:\n  b\n", "    a:\n      b", "    a:\n      c\n        d", "a:\n  c\n    d\n", "4 spaces less deep"),
    ],
)
def test_a_block_at_another_indentation_is_replaced_at_that_of_the_file(
    files: Files, content: str, old: str, new: str, expected: str, how: str
) -> None:
    path = files.put("f.txt", content)
    files.text("Read", file_path="f.txt")
    told = files.text("Edit", file_path="f.txt", old_string=old, new_string=new).split("\n")
    assert path.read_bytes().decode() == expected
    assert told[0] == (
        f"Edited f.txt (1 replacement; the block stands {how} in the file than in old_string, "
        "and new_string was shifted likewise)."
    )
    assert told[1:3] == ["--- f.txt", "+++ f.txt"]


@pytest.mark.parametrize(
    ("content", "old", "new"),
    [
        ("  a\n    b\n", "a\nb\n", "x"),  # not one and the same shift
        ("a\nb\n", "  a\n  b", "c"),  # new text stands further left than the shift
        ("x = 10\n", "x = 1 ", "y"),  # spaces at its end: the line must end there
    ],
)
def test_a_match_that_would_be_a_guess_is_none(files: Files, content: str, old: str, new: str) -> None:
    assert edited(files, content.encode(), old, new) == ErrorCode.NO_MATCH


@pytest.mark.parametrize(
    ("content", "old", "lines"),
    [
        ("‘a’\n“a”\n’a’\n", "'a'", "1, 3"),
        ("  a\n  b\n    a\n    b\n", "a\nb\n", "1, 3"),
        ("it’s\n\nit’s\n", "it's", "1, 3"),
    ],
)
def test_several_places_that_are_only_alike_are_named(files: Files, content: str, old: str, lines: str) -> None:
    files.put("f.txt", content)
    files.text("Read", file_path="f.txt")
    code, message = files.refusal("Edit", file_path="f.txt", old_string=old, new_string="x", replace_all=True)
    assert (code, f"2 places are like it except for white space, quotes or the like (line {lines})." in message) == (
        ErrorCode.NOT_UNIQUE,
        True,
    )


def test_long_runs_of_blanks_cost_no_more_than_other_text(files: Files) -> None:
    """With a search that begins anew at each blank of a run, this takes a minute."""
    files.put("f.txt", " " * 40_000 + "x\nfoo \n")
    files.text("Read", file_path="f.txt")
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (20, 20)); "
        "from tools.tolerant import tolerant_place; print(tolerant_place(open(sys.argv[1]).read(), 'bar', 'y'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, files.root / "f.txt"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "None\n"


def test_the_closest_place_is_found_far_down_in_a_long_file(files: Files) -> None:
    lines = [f"value_{number} = compute(alpha, {number})" for number in range(20_000)]
    lines[15_000] = "    the_place = where_it_really_is(one, two)"
    files.put("f.py", "\n".join(lines))
    files.text("Read", file_path="f.py")
    _, message = files.refusal(
        "Edit", file_path="f.py", old_string="the_place = where_it_realy_is(one, two)", new_string="x"
    )
    assert "The closest place begins at line 15001" in message


# -- whatever the bytes are


ENCODINGS = {
    "utf-8": (b"", "ab \té中\u2028’"),
    "utf-8-sig": (b"\xef\xbb\xbf", "ab \té中"),
    "utf-16-le": (b"\xff\xfe", "ab \té中\U0001f600\u0a0d"),
    "utf-16-be": (b"\xfe\xff", "ab \té中\U0001f600\u0d0a"),
    "gb18030": (b"", "ab \t中的一行注释變€"),
    "cp1252": (b"", "ab \tcafé ü’"),
    "cp1251": (b"", "ab \tпривет"),
    "shift-jis": (b"", "ab \tデータ表ソ"),
    "latin-1": (b"", "".join(map(chr, range(1, 256)))),  # any bytes at all
}


@st.composite
def edits(draw: st.DrawFn) -> tuple[bytes, str, str, str]:
    """A file's bytes, the codec that they are in, and an old and a new text, mostly one that does occur."""
    codec = draw(st.sampled_from(list(ENCODINGS)))
    mark, alphabet = ENCODINGS[codec]
    words = st.text(st.sampled_from(alphabet), max_size=8)
    lines = draw(st.lists(st.tuples(words, st.sampled_from(["\n", "\r\n"])), max_size=8))
    text = "".join(line + end for line, end in lines) + draw(words)
    body = text.encode(codec.removesuffix("-sig"))
    old = draw(st.text(st.sampled_from(alphabet + "\n'"), max_size=8))
    if text and draw(st.booleans()):
        start = draw(st.integers(0, len(text) - 1))
        old = text[start : draw(st.integers(start + 1, len(text)))].replace("\r\n", "\n")
    new = draw(st.text(st.sampled_from(alphabet + "\nxé"), max_size=8))
    stray = draw(st.sampled_from([b"", b"\xff", b"\x81\n"]))
    return mark + body + stray, codec, old, new


@settings(max_examples=500)
@given(edit=edits(), replace_all=st.booleans())
def test_k14_k15_every_byte_outside_of_an_edit_is_identical_or_it_is_refused(
    edit: tuple[bytes, str, str, str], replace_all: bool
) -> None:
    content, codec, old, new = edit
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        path = files.put("f.txt", content)
        if isinstance(files.call("Read", file_path="f.txt"), CallRefused):
            return
        done = files.call("Edit", file_path="f.txt", old_string=old, new_string=new, replace_all=replace_all)
        after = path.read_bytes()
    if isinstance(done, CallRefused):
        assert after == content
        return
    head = _same(content, after)
    tail = min(_same(content[::-1], after[::-1]), len(content) - head, len(after) - head)
    removed = content[head : len(content) - tail]
    plain = codec.removesuffix("-sig")
    exact = any(old.replace("\n", end).encode(plain, "replace") in content for end in ("\n", "\r\n"))
    if not replace_all:  # what went is no more than the old text, with other line ends
        assert len(removed) <= len(old.replace("\n", "\r\n").encode(plain, "replace")) + (0 if exact else 40)
    mark = ENCODINGS[codec][0]
    assert after.startswith(mark) == content.startswith(mark)
    if codec not in UNSURE and _decodes(content, codec) and not (_decodes(content, "utf-8") and not mark):
        assert new.replace("\r\n", "\n") in after.decode(codec).replace("\r\n", "\n") or not exact


UNSURE = {"cp1251", "shift-jis", "latin-1"}  # so short, they may look like anything: bytes outside stay all the same


def _same(one: bytes, other: bytes) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _decodes(data: bytes, codec: str) -> bool:
    try:
        data.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


UTF_8_TEXTS = st.text(st.sampled_from("ab \té中\n"), max_size=12)
UTF_8_LINES = st.lists(
    st.tuples(st.text(st.sampled_from("ab \té中\u2028"), max_size=5), st.sampled_from(["\n", "\r\n"])), max_size=8
)


@settings(max_examples=300)
@given(lines=UTF_8_LINES, last=UTF_8_TEXTS, new=UTF_8_TEXTS, mark=st.booleans(), all_=st.booleans(), data=st.data())
def test_k14_an_exact_edit_is_what_replacing_means(
    lines: list[tuple[str, str]], last: str, new: str, mark: bool, all_: bool, data: st.DataObject
) -> None:
    text = "".join(line + end for line, end in lines) + last
    plain = text.replace("\r\n", "\n")
    if not plain:
        return
    start = data.draw(st.integers(0, len(plain) - 1))
    old = plain[start : data.draw(st.integers(start + 1, len(plain)))]
    content = (BOM if mark else b"") + text.encode()
    with tempfile.TemporaryDirectory() as folder:
        after = edited(Files(Path(folder)), content, old, new, all_)
    if isinstance(after, ErrorCode):
        return
    assert after.startswith(BOM) == mark
    assert after.decode("utf-8-sig").replace("\r\n", "\n") == plain.replace(old, new)
    if not all_:
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


@pytest.mark.parametrize(
    ("codec", "text", "first", "second"),
    [
        ("gbk", "// 用户的名字\nint x;\n", ("int x;", "// 张伟 赵磊 孙娜 吴婷 郑凯 冯雪 陈佳 褚宁"), ("张伟", "张炜")),
        ("latin-1", "// Müller\nint x;\n", ("int x;", "// ±5° §3 ©"), ("±5°", "±6°")),
        ("utf-16-le", "ab\n", ("ab", "中文中文中文"), ("中文中文中文", "中")),
        ("mac-roman", "// café\nint x;\n", ("int x;", "// ™ ©"), ("™", "®")),
    ],
)
def test_a_file_stays_in_its_encoding_whatever_our_own_edit_makes_of_it(
    files: Files, codec: str, text: str, first: tuple[str, str], second: tuple[str, str]
) -> None:
    """A look at the new content alone would tell another encoding, or none."""
    path = files.put("f", text.encode(codec))
    files.text("Read", file_path="f")
    for old, new in (first, second):
        done = files.text("Edit", file_path="f", old_string=old, new_string=new)
        text = text.replace(old, new)
        assert path.read_bytes() == text.encode(codec)
        assert f"+{next(line for line in text.splitlines() if new in line)}" in done.splitlines()
    assert files.text("Read", file_path="f").startswith(f"     1\t{text.splitlines()[0]}\n")
    again = Files(files.root)
    again.cache.import_entries(files.cache.export())
    assert isinstance(again.call("Edit", file_path="f", old_string=second[1], new_string=first[1]), ToolResult)
