"""Glob and Grep: what is found, what is said of the rest, and nothing outside, ignored or special."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.files_kit import Files, as_another_user, open_folder
from tools.base import CallRefused, ErrorCode, ToolResult
from tools.glob_pattern import compile_glob, normal_form
from tools.ignored import LOOKED_AT, NOT_LOOKED_AT
from tools.plain_search import plain_search
from tools.ripgrep import ripgrep
from tools.search import Form, Query, Search, SearchEnd
from tools.verdict import Json

HERE = Path("/somewhere")
ENGINES = [ripgrep, plain_search]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Search:
    found: Search = request.param
    return found


@pytest.fixture
def files(tmp_path: Path, engine: Search) -> Files:
    (tmp_path / "work").mkdir()
    return Files(tmp_path / "work", search=engine)


def fill(files: Files, *names: str, content: str = "needle\n") -> None:
    """Files whose times grow in the order given."""
    for index, name in enumerate(names):
        os.utime(files.put(name, content), (1_000_000 + index, 1_000_000 + index))


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("*.py", ["a.py", "d/a.py"], ["a.pyc", ".a.py", ".d/a.py"]),
        ("src/*.py", ["src/a.py"], ["a.py", "src/d/a.py", "x/src/a.py"]),
        ("**/*", ["a", "d/e/f"], [".a", "d/.e/f"]),
        ("src/**", ["src/a", "src/d/a"], ["src", "a"]),
        ("src/", ["src/a", "src/d/a"], ["src"]),
        ("src/**/x.py", ["src/x.py", "src/a/b/x.py"], ["srcx.py"]),
        ("*.{ts,tsx}", ["a.ts", "d/a.tsx"], ["a.t", "a.ts,tsx"]),
        ("{src,lib/*}/a", ["src/a", "lib/x/a"], ["lib/a"]),
        ("a{.b,*}", ["a.b", "a.c", "ax"], ["b"]),
        ("{.env,*.md}", [".env", "d/.env", "a.md"], [".a.md"]),
        (".*", [".env"], ["a"]),
        ("?[a-c][!x]", ["1ay"], ["1ax", "1dy", ".ay"]),
        ("[]]", ["]"], ["["]),
        ("\\*", ["*"], ["a"]),
        ("中?", ["中文"], ["中"]),
        ("./a//b", ["a/b"], ["b"]),
    ],
)
def test_what_a_pattern_means(pattern: str, fits: list[str], does_not: list[str]) -> None:
    expression = compile_glob(normal_form(pattern, HERE))
    assert [name for name in [*fits, *does_not] if expression.fullmatch(name)] == fits


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("", ErrorCode.INVALID_ARGUMENTS),
        ("a[", ErrorCode.INVALID_ARGUMENTS),
        ("[z-a]", ErrorCode.INVALID_ARGUMENTS),
        ("a{b", ErrorCode.INVALID_ARGUMENTS),
        ("../*", ErrorCode.OUTSIDE_WORKSPACE),
        ("a/../../*", ErrorCode.OUTSIDE_WORKSPACE),
        ("/etc/*", ErrorCode.OUTSIDE_WORKSPACE),
    ],
)
def test_what_is_no_pattern(files: Files, pattern: str, code: ErrorCode) -> None:
    assert files.code("Glob", pattern=pattern) == code
    fill(files, "a.txt")
    assert files.code("Grep", pattern="needle", glob=pattern) == code


def test_paths_come_newest_first_without_hidden_ignored_and_special_ones(files: Files) -> None:
    fill(files, "old.txt", "d/new.txt", ".hidden/x.txt", "ignored/i.txt", "d/skip.txt", "d/newest.txt")
    files.put(".gitignore", "ignored/\nskip.txt\n")
    os.mkfifo(files.root / "pipe.txt")
    (files.root / "link.txt").symlink_to("old.txt")
    assert files.text("Glob", pattern="**/*.txt").split("\n") == ["d/newest.txt", "d/new.txt", "old.txt"]
    assert files.text("Glob", pattern="*.txt", path="d").split("\n") == ["d/newest.txt", "d/new.txt"]
    assert files.text("Glob", pattern=".hidden/**") == ".hidden/x.txt"
    assert files.text("Glob", pattern="*.md") == (
        "No file matches *.md in . (files that git ignores are not looked at)"
    )
    assert files.text("Glob", pattern="*.md", path="d") == "No file matches *.md in d"
    assert files.code("Glob", pattern="*", path="old.txt") == ErrorCode.REFUSED
    assert files.code("Glob", pattern="*", path="nowhere") == ErrorCode.NOT_FOUND


def test_at_most_100_paths_and_the_number_of_the_others(files: Files) -> None:
    fill(files, *[f"many/f{i}.txt" for i in range(350)])
    lines = files.text("Glob", pattern="**/*").split("\n")
    assert lines[:2] == ["many/f349.txt", "many/f348.txt"]
    assert lines[100:] == ["(The 100 newest of 350 files; 250 are left out. Use a narrower pattern or path.)"]


def test_k27_link_cycles_and_links_to_outside_are_not_followed(files: Files) -> None:
    fill(files, "a/plain.txt")
    far = files.root.parent / "far"
    far.mkdir()
    (far / "secret.txt").write_text("needle\n")
    for name, target in (("a/up", ".."), ("slash", "/"), ("x", "y"), ("y", "x"), ("far", str(far))):
        (files.root / name).symlink_to(target)
    assert files.text("Glob", pattern="**/*") == "a/plain.txt"
    assert files.text("Grep", pattern="needle") == "a/plain.txt"
    for tool in ("Glob", "Grep"):
        for path in ("slash", "far", "..", "/"):
            assert files.code(tool, pattern="needle", path=path) == ErrorCode.OUTSIDE_WORKSPACE


def test_k25_special_files_are_skipped_and_refused_by_name(files: Files) -> None:
    fill(files, "a.txt")
    os.mkfifo(files.root / "pipe")
    assert files.text("Grep", pattern="needle") == "a.txt"
    assert files.code("Grep", pattern="needle", path="pipe") == ErrorCode.REFUSED


def test_what_is_hidden_or_ignored_is_reached_by_a_path_or_a_pattern_that_names_it(files: Files) -> None:
    fill(files, "out/a.log", "out/b.txt", ".hidden/c.txt", "d.txt")
    files.put(".gitignore", "out/\n*.log\n")
    assert files.text("Grep", pattern="needle") == "d.txt"
    assert files.text("Grep", pattern="needle", path="out") == "out/b.txt"
    assert files.text("Grep", pattern="needle", path="out/a.log") == "out/a.log"
    assert files.text("Grep", pattern="needle", path=".hidden") == ".hidden/c.txt"
    assert files.text("Grep", pattern="needle", glob=".hidden/*") == ".hidden/c.txt"
    assert files.text("Glob", pattern="*", path="out") == "out/b.txt"
    assert files.text("Glob", pattern=".hidden/*") == ".hidden/c.txt"


def test_a_directory_that_path_names_is_searched_for_ignored_files_when_there_are_no_others(files: Files) -> None:
    fill(files, "build/a.txt", "build/.git/b.txt", "dist/d/c.txt", "logs/e.log", "src/f.txt", "src/g.log")
    files.put(".gitignore", "build/*\n/dist/**\n*.log\n")
    for path, name in (("build", "build/a.txt"), ("dist", "dist/d/c.txt"), ("dist/d", "dist/d/c.txt")):
        assert files.text("Grep", pattern="needle", path=path) == f"{name}\n{LOOKED_AT}"
        assert files.text("Glob", pattern="*", path=path) == f"{name}\n{LOOKED_AT}"
    assert files.text("Glob", pattern="*.log", path="logs") == f"logs/e.log\n{LOOKED_AT}"
    assert files.text("Grep", pattern="é|needle", path="logs", output_mode="count") == (
        f"logs/e.log:1\n(In total 1, in files: 1.)\n{LOOKED_AT}"
    )
    assert files.text("Grep", pattern="needle", path="src") == "src/f.txt"
    assert files.text("Grep", pattern="nowhere", path="build") == "No match for nowhere."
    assert files.text("Grep", pattern="nowhere", path="build/a.txt") == "No match for nowhere."
    assert files.text("Grep", pattern="needle", path="build", glob=".*") == "No match for needle."
    assert files.text("Grep", pattern="needle", path="build/.git") == "build/.git/b.txt"
    assert files.text("Grep", pattern="needle", glob="*.log") == f"No match for needle {NOT_LOOKED_AT}."


def test_what_git_ignores_in_a_further_root_is_not_searched_there(tmp_path: Path, engine: Search) -> None:
    for name in ("work", "more"):
        (tmp_path / name).mkdir()
    files = Files(tmp_path / "work", search=engine, extra_roots=[tmp_path / "more"])
    for name, content in (("a.log", "needle\n"), (".gitignore", "*.log\n")):
        (tmp_path / "more" / name).write_text(content)
    more = str(tmp_path / "more")
    assert files.text("Grep", pattern="needle", path=more) == f"No match for needle {NOT_LOOKED_AT}."
    assert files.text("Glob", pattern="*", path=more) == f"No file matches * in {more} {NOT_LOOKED_AT}"


@pytest.mark.parametrize("repository", [False, True])
def test_a_glob_of_grep_never_brings_ignored_files_back(files: Files, repository: bool) -> None:
    if repository:
        subprocess.run(["git", "init", "-q"], cwd=files.root, check=True)
    fill(files, "a.py", "src/b.py", "src/b.txt", "src/gen.py", ".cfg/c.py", "out/d.py")
    files.put(".gitignore", "gen.py\nout/\n")
    found = {
        glob: files.text("Grep", pattern="needle", glob=glob).split("\n")
        for glob in ("*.py", "src/**/*.py", "**", ".cfg/*", "*.{txt,md}", "src/")
    }
    assert found == {
        "*.py": ["a.py", "src/b.py"],
        "src/**/*.py": ["src/b.py"],
        "**": ["a.py", "src/b.py", "src/b.txt"],
        ".cfg/*": [".cfg/c.py"],
        "*.{txt,md}": ["src/b.txt"],
        "src/": ["src/b.py", "src/b.txt"],
    }


def test_a_byte_order_mark_and_line_ends_of_windows_are_no_part_of_a_rule(files: Files) -> None:
    fill(files, "a.txt", "b.txt", "c.txt", "x\x0cb.txt")
    files.put(".gitignore", "a.txt\r\nx\x0cb.txt\r\n".encode("utf-8-sig"))
    assert files.text("Grep", pattern="needle") == "b.txt\nc.txt"


@pytest.mark.parametrize(
    "settings",
    [
        {"HOME/.config/git/ignore": "*.log\n/d/a.txt\n"},
        {"XDG/git/ignore": "*.log\n/d/a.txt\n"},
        {"HOME/.gitconfig": "[core]\n\texcludesFile = ~/mine\n", "HOME/mine": "*.log\n/d/a.txt\n"},
        {"XDG/git/config": '[core]\nexcludesfile="/mine"\n', "XDG/git/ignore": "a.txt\n"},
    ],
)
def test_the_rules_of_the_user_count_but_less_than_all_others(
    files: Files, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = files.root.parent
    for name, content in settings.items():
        path = outside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.replace("/mine", str(outside / "mine")) if "XDG" in name else content)
    (outside / "mine").write_text("*.log\n/d/a.txt\n")
    monkeypatch.setenv("HOME", str(outside / "HOME"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if any(name.startswith("XDG") for name in settings):
        monkeypatch.setenv("XDG_CONFIG_HOME", str(outside / "XDG"))
    fill(files, "a.txt", "a.log", "d/a.txt", "d/a.log", "d/b.log", "d/d/a.txt")
    files.put("d/.ignore", "!b.log\n")
    assert files.text("Grep", pattern="needle") == "a.txt\nd/b.log\nd/d/a.txt"


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("a:*.txt", ["a:b.txt"]),
        ("?.txt", ["a.txt", "é.txt"]),
        ("[!b].txt", ["a.txt", "é.txt"]),
        ("a{,b}.txt", ["a.txt", "ab.txt"]),
        ("d/{e,f/{g,h}}", ["d/e", "d/f/g"]),
        ("{a,b}}", ["a}"]),
        ("{a,ab}.txt", ["a.txt", "ab.txt"]),
        ("a,b", ["a,b"]),
        ("\\a.txt", ["a.txt"]),
    ],
)
def test_a_glob_of_grep_means_what_it_means_to_glob(files: Files, glob: str, names: list[str]) -> None:
    fill(files, "a.txt", "ab.txt", "é.txt", "a:b.txt", "d/e", "d/f/g", "a}", "a,b")
    assert files.text("Grep", pattern="needle", glob=glob).split("\n") == names
    assert sorted(files.text("Glob", pattern=glob).split("\n")) == names


def test_the_three_forms_of_a_result(files: Files) -> None:
    files.put("a.txt", "one\nNeedle two needle\nthree\nfour\nfive needle\n")
    files.put("b.txt", "no\r\nneedle\r\n")
    assert files.text("Grep", pattern="needle") == "a.txt\nb.txt"
    assert files.text("Grep", pattern="needle", output_mode="count", **{"-i": True}) == (
        "a.txt:3\nb.txt:1\n(In total 4, in files: 2.)"
    )
    assert files.text("Grep", pattern="needle", output_mode="content") == (
        "a.txt:2:Needle two needle\na.txt:5:five needle\nb.txt:2:needle"
    )
    assert files.text("Grep", pattern="^needle", path="b.txt", output_mode="content", **{"-n": False}) == (
        "b.txt:needle"
    )
    assert files.text("Grep", pattern="needle", path="a.txt", output_mode="content", **{"-B": 1}) == (
        "a.txt-1-one\na.txt:2:Needle two needle\n--\na.txt-4-four\na.txt:5:five needle"
    )
    assert files.text("Grep", pattern="two.*four", output_mode="content", multiline=True) == (
        "a.txt:2:Needle two needle\na.txt:3:three\na.txt:4:four"
    )
    assert files.text("Grep", pattern="needle", output_mode="content", head_limit=1) == (
        "a.txt:2:Needle two needle\n(2 of 3 matches are left out.)"
    )
    assert files.text("Grep", pattern="nowhere") == f"No match for nowhere {NOT_LOOKED_AT}."


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "gbk"])
def test_text_is_found_and_shown_in_the_encoding_of_its_file(files: Files, codec: str) -> None:
    files.put("f.txt", "// 第一行是中文的注释\nx = 1 // 变量\n".encode(codec))
    shown = "f.txt:2:x = 1 // 变量"
    assert files.text("Grep", pattern="x = 1", output_mode="content") == shown
    assert files.text("Grep", pattern="变量", path="f.txt", output_mode="content") == shown
    assert files.text("Grep", pattern="变量") == "f.txt"
    assert files.text("Grep", pattern="变量", output_mode="content") == shown


@pytest.mark.parametrize("codec", ["shift_jis", "euc_jp", "euc_kr", "big5", "koi8-r", "cp1251", "iso8859-7"])
def test_a_word_is_found_in_a_named_file_in_the_encoding_that_it_declares(files: Files, codec: str) -> None:
    words = {"euc_kr": "변수", "koi8-r": "слово", "cp1251": "слово", "iso8859-7": "λόγος"}.get(codec, "日本")
    files.put("f.py", f"# -*- coding: {codec} -*-\nx = 1  # {words}\n".encode(codec))
    assert files.text("Grep", pattern=words, path="f.py", output_mode="content") == f"f.py:2:x = 1  # {words}"
    assert files.text("Read", file_path="f.py", offset=2).startswith(f"     2\tx = 1  # {words}\n")


def test_a_word_is_found_in_every_encoding_of_a_tree_and_counted_once(files: Files) -> None:
    chinese, western = "// 第一行是中文的注释\nfoo = 1 // 变量\n", "// größe\n// für die Größe\nfoo = groß\n"
    for codec in ("utf-8", "gbk", "gb18030", "utf-16"):
        files.put(f"zh/{codec}.txt", chinese.encode(codec))
    for codec in ("utf-8", "latin-1", "cp1252"):
        files.put(f"de/{codec}.txt", western.encode(codec))
    files.put("de/skipped.md", western.encode("latin-1"))
    files.put("de/unsure.txt", b"gr\xf6\xdfe \x80\x81\x9d\xa1 \xf0\xf1\xf2\n")
    files.put("plain.txt", "foo\n")
    both = files.text("Grep", pattern="变量|foo", output_mode="content", path="zh").split("\n")
    assert both == [f"zh/{codec}.txt:2:foo = 1 // 变量" for codec in ("gb18030", "gbk", "utf-16", "utf-8")]
    assert files.text("Grep", pattern="größe|foo|变量", output_mode="count", glob="*.txt", **{"-i": True}) == (
        "de/cp1252.txt:3\nde/latin-1.txt:3\nde/unsure.txt:1\nde/utf-8.txt:3\nplain.txt:1\n"
        "zh/gb18030.txt:2\nzh/gbk.txt:2\nzh/utf-16.txt:2\nzh/utf-8.txt:2\n(In total 19, in files: 9.)"
    )
    assert files.text("Grep", pattern="gr.ß", path="de", glob="*.txt").split("\n") == [
        f"de/{name}.txt" for name in ("cp1252", "latin-1", "unsure", "utf-8")
    ]
    assert files.code("Grep", pattern="(größe") == ErrorCode.INVALID_ARGUMENTS


@pytest.mark.parametrize("pattern", [r"printf\(.*\);", r'printf\("[^"]*', r"printf\(\S+ .*;$", r"printf\(\D+;"])
def test_an_ascii_pattern_runs_over_the_letters_of_other_encodings(files: Files, pattern: str) -> None:
    western, chinese = 'int größe;\nprintf("déjà vu");\n', '// 第一行是中文的注释\nprintf("变量 的");\n'
    for codec in ("latin-1", "utf-8"):
        files.put(f"{codec}.c", western.encode(codec))
    files.put("gbk.c", chinese.encode("gbk"))
    shown = ['gbk.c:2:printf("变量 的");', *[f'{codec}.c:2:printf("déjà vu");' for codec in ("latin-1", "utf-8")]]
    assert files.text("Grep", pattern=pattern, output_mode="content").split("\n") == shown


@pytest.mark.parametrize("codec", ["latin-1", "gbk", "utf-16-le", "utf-16-be", "utf-16"])
def test_a_named_file_is_searched_in_its_encoding(files: Files, codec: str) -> None:
    text = "// 第一行是中文的注释\nint 变量; // needle\n" if codec == "gbk" else "char größe;\nint été; // needle\n"
    files.put("f.c", text.encode(codec))
    line = text.split("\n")[1]
    for pattern in (r"^int \w+;", r"int .{2,3}; // needle", "needle$"):
        assert files.text("Grep", pattern=pattern, path="f.c", output_mode="content") == f"f.c:2:{line}"


@pytest.mark.parametrize("multiline", [False, True])
def test_a_carriage_return_before_a_line_break_is_no_part_of_its_line(files: Files, multiline: bool) -> None:
    files.put("f.sh", "if x\r\nfi\r\n\r\nxfi fi\n" + "y" * 600 + "fi\r\n")

    def found(pattern: str, mode: str = "content") -> list[str]:
        return files.text("Grep", pattern=pattern, output_mode=mode, multiline=multiline).split("\n")

    long = "f.sh:5:[column 601 of 602; cut] …" + "y" * 200 + "fi"
    assert found("fi$") == ["f.sh:2:fi", "f.sh:4:xfi fi", long]
    assert found("^fi$") == ["f.sh:2:fi"]
    assert found("^$") == ["f.sh:3:"]
    assert found("fi$", "count") == ["f.sh:3", "(In total 3, in files: 1.)"]
    assert [line[:8] for line in found("\\r$")] == ["f.sh:1:i", "f.sh:2:f", "f.sh:3:", "f.sh:5:["]


def test_the_bound_is_one_of_bytes_and_the_rest_is_counted(files: Files) -> None:
    files.put("many.txt", "".join(f"{i:04d} " + "x" * 94 + "\n" for i in range(1, 3001)))
    result = files.text("Grep", pattern="x", output_mode="content")
    assert len(result.encode()) < 31_000
    lines = result.split("\n")
    assert lines[-1] == f"({3001 - len(lines):,} of 3,000 matches are left out.)"
    assert lines[0].startswith("many.txt:1:0001 xx") and len(lines) == 273


def test_k26_a_match_in_a_huge_line_is_shown_in_a_window_with_its_column(files: Files) -> None:
    files.put("min.js", "é" * 1_000_000 + "needle-中" + "y" * 1_000_000 + "needle-end")
    assert files.text("Grep", pattern="needle-end", output_mode="content") == (
        "min.js:1:[column 2,000,009 of 2,000,018; cut] …" + "y" * 200 + "needle-end"
    )
    both = files.text("Grep", pattern="needle", output_mode="content")
    assert both == (
        "min.js:1:[column 1,000,001 of 2,000,018, 2 matches; cut] …" + "é" * 200 + "needle-中" + "y" * 192 + "…"
    )
    assert files.text("Grep", pattern="needle", output_mode="count") == "min.js:2\n(In total 2, in files: 1.)"


def test_a_pattern_or_a_name_that_looks_like_an_option_is_none(files: Files) -> None:
    fill(files, "--pre=touch P", "-n", content="--pre=touch P\n")
    assert files.text("Grep", pattern="--pre=touch P") == "--pre=touch P\n-n"
    assert files.text("Grep", pattern="--pre", path="-n") == "-n"
    assert files.text("Glob", pattern="-*") == "-n\n--pre=touch P"
    assert files.text("Grep", pattern="-needle", output_mode="content") == f"No match for -needle {NOT_LOOKED_AT}."
    assert not (files.root / "P").exists()


def test_a_settings_file_of_ripgrep_is_not_read(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(files, "a.txt")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(files.put("rc", "--invert-match\n")))
    assert files.text("Grep", pattern="needle") == "a.txt"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("(unclosed", "unclosed group|missing \\)"), ("a\nb", "multiline"), ("*", "repetition operator|to repeat")],
)
def test_a_bad_pattern_is_answered_in_words(files: Files, pattern: str, words: str) -> None:
    fill(files, "a.txt")
    code, message = files.refusal("Grep", pattern=pattern)
    assert code == ErrorCode.INVALID_ARGUMENTS
    assert message.startswith("The pattern cannot be used as a regular expression: ") and re.search(words, message)
    assert "\n" not in message


def test_a_class_within_a_class_is_searched_or_refused_in_words(files: Files, engine: Search) -> None:
    files.put("a.txt", "x1\n")
    for pattern in ("[[:digit:]]+", "[a-z&&[^b]]"):
        if engine is ripgrep:
            assert files.text("Grep", pattern=pattern) == "a.txt"
        else:
            assert "need ripgrep, which is not installed" in files.refusal("Grep", pattern=pattern)[1]


def test_k05_odd_names_and_bytes_are_text_in_every_form(files: Files) -> None:
    for name in (b"bad\xff.txt", b"two\nlines.txt"):
        (files.root / os.fsdecode(name)).write_bytes(b"needle \xff\0\n" if b"bad" in name else b"needle\n")
    names = ["$'bad\\xff.txt'", "$'two\\nlines.txt'"]
    assert files.text("Grep", pattern="needle", glob="*lines*") == names[1]
    assert files.text("Grep", pattern="needle", path=names[0], output_mode="content") == f"{names[0]}:1:needle \ufffd␀"
    assert files.text("Grep", pattern="needle", path=names[1], output_mode="count") == (
        f"{names[1]}:1\n(In total 1, in files: 1.)"
    )


def test_what_is_found_under_an_odd_name_can_be_read_by_it(files: Files) -> None:
    for name in (b"bad\xff.txt", b"two\nlines.txt", b"$'x'"):
        (files.root / os.fsdecode(name)).write_bytes(b"needle\n")
    for found in (files.text("Grep", pattern="needle"), files.text("Glob", pattern="*")):
        assert [files.text("Read", file_path=name) for name in found.split("\n")] == ["     1\tneedle"] * 3


def test_k27_a_large_tree_is_searched_and_its_ignored_part_is_not(files: Files) -> None:
    count = int(os.environ.get("MYCODEAGENT_TEST_TREE_FILES", "2000"))
    for number in range(count):
        path = files.root / f"node_modules/p{number // 500}/f{number}.js"
        if number % 500 == 0:
            path.parent.mkdir(parents=True)
        path.write_text("needle\n")
    fill(files, "src/a.js")
    files.put(".gitignore", "node_modules/\n")
    assert files.text("Grep", pattern="needle") == "src/a.js"
    assert files.text("Glob", pattern="**/*") == "src/a.js"
    lines = files.text("Grep", pattern="needle", path="node_modules", head_limit=10).split("\n")
    assert (len(lines), lines[-1]) == (11, f"({count - 10:,} of {count:,} files are left out.)")
    lines = files.text("Glob", pattern="*", path="node_modules").split("\n")
    assert (len(lines), lines[-1].split(";")[0]) == (101, f"(The 100 newest of {count:,} files")


RULES = st.sampled_from(
    [
        "a",
        "/a",
        "b/",
        "!a",
        "a/b",
        "**/b",
        "a/**",
        "*.x",
        "!*.x",
        "[ab].x",
        "?",
        "\\!c",
        "# c",
        "c ",
        "a/*",
        "!a/b",
        "**/a/c",
    ]
)
TREE = st.sets(
    st.lists(st.sampled_from(["a", "b", "c", "a.x", "!c", ".h"]), min_size=1, max_size=3).map("/".join), max_size=12
)


@settings(max_examples=30)
@given(paths=TREE, rules=st.dictionaries(st.sampled_from([".", "a", "b"]), st.lists(RULES, max_size=4), max_size=3))
def test_both_engines_leave_out_the_same(paths: set[str], rules: dict[str, list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path in sorted(paths):
            with contextlib.suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text("needle\n")
        for where, lines in rules.items():
            if (root / where).is_dir():
                (root / where / ".gitignore").write_text("\n".join(lines))
        found = []
        for engine in ENGINES:
            files = Files(root, search=engine)
            queries = [files.text("Grep", pattern="needle"), files.text("Grep", pattern="needle", glob=".*")]
            found.append((queries, set(files.text("Glob", pattern="*").split("\n"))))
    assert found[0] == found[1]


PATTERNS = [
    "a",
    "a.b",
    "^a",
    "b$",
    "a+",
    "é",
    "[ab]\\n",
    "a|b",
    "\\bb",
    "A",
    "a\\s+b",
    "^b$",
    "a$|^b",
    "[^a]b",
    "a[^b]",
]
PATTERNS += ["a\\r", "a\\r$", "[^\\r]b", "b.*$", "\\s", "^", "^$"]


@settings(max_examples=60)
@given(
    text=st.text(st.sampled_from("ab\n\r é"), max_size=40).filter(lambda text: not text.endswith("\r")),
    pattern=st.sampled_from(PATTERNS),
    multiline=st.booleans(),
    around=st.integers(0, 2),
    mode=st.sampled_from(["content", "count", "files_with_matches"]),
)
def test_both_engines_find_the_same(text: str, pattern: str, multiline: bool, around: int, mode: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "f").write_bytes(text.encode())
        arguments: dict[str, Json] = {"-C": around, "-i": pattern == "A", "multiline": multiline, "output_mode": mode}
        one, other = (
            Files(Path(folder), search=engine).call("Grep", pattern=pattern, **arguments) for engine in ENGINES
        )
    if isinstance(one, CallRefused):
        assert isinstance(other, CallRefused | ToolResult)
    else:
        assert one == other


def test_places_that_cannot_be_read_are_counted(engine: Search) -> None:
    with open_folder() as root:
        files = Files(root, search=engine)
        fill(files, "a.txt", "closed/b.txt")
        (root / "closed").chmod(0o700)
        with as_another_user():
            told = [files.text(tool, pattern=pattern) for tool, pattern in (("Grep", "needle"), ("Glob", "*"))]
    assert told == ["a.txt\n(Places that could not be read: 1.)"] * 2


@pytest.mark.parametrize("mode", [0o700, 0o711, 0o744])
def test_a_closed_directory_that_path_names_is_a_place_that_could_not_be_read(engine: Search, mode: int) -> None:
    with open_folder() as root:
        files = Files(root, search=engine)
        fill(files, "closed/b.txt")
        (root / "closed").chmod(mode)
        with as_another_user():
            told = [files.text(tool, pattern="needle", path="closed") for tool in ("Grep", "Glob")]
    note = "(Places that could not be read: 1.)"
    assert told[0] == f"No match for needle.\n{note}"
    assert told[1].split("\n")[1:] == [note]


def test_files_in_a_directory_that_may_only_be_listed_are_places_that_could_not_be_read(engine: Search) -> None:
    with open_folder() as root:
        files = Files(root, search=engine)
        fill(files, "listed/a.txt", "listed/b.txt")
        (root / "listed").chmod(0o744)
        with as_another_user():
            told = files.text("Grep", pattern="needle")
    assert told == f"No match for needle {NOT_LOOKED_AT}.\n(Places that could not be read: 2.)"


@pytest.mark.parametrize("path", ["d", "d/a.txt"])
def test_what_vanishes_before_it_is_searched_is_a_place_that_could_not_be_read(files: Files, path: str) -> None:
    fill(files, "d/a.txt")
    found = files.call_late(lambda: shutil.rmtree(files.root / "d"), "Grep", pattern="needle", path=path)
    assert isinstance(found, ToolResult)
    assert found.text == "No match for needle.\n(Places that could not be read: 1.)"


def test_a_directory_that_vanishes_before_its_names_are_listed_is_a_place_that_could_not_be_read(files: Files) -> None:
    fill(files, "d/a.txt")
    found = files.call_late(lambda: shutil.rmtree(files.root / "d"), "Glob", pattern="*", path="d")
    assert isinstance(found, ToolResult)
    assert found.text.split("\n")[1:] == ["(Places that could not be read: 1.)"]


# -- searches that do not come to their end: ripgrep waits at a FIFO that nobody writes to

ENDLESS = Query(Form.FILES, name="pipe", pattern="needle")


def test_a_search_ends_at_its_time_limit(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    end = asyncio.run(ripgrep(ENDLESS, tmp_path, bytearray().extend, asyncio.Event(), seconds_max=0.1))
    assert end.notes() == ["(Stopped after 0.1 seconds: the result is not complete. Search in a narrower path.)"]
    assert children() == ""


def test_a_search_ends_when_it_is_interrupted(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    async def interrupted() -> SearchEnd:
        stop = asyncio.Event()
        stop.set()
        return await ripgrep(ENDLESS, tmp_path, bytearray().extend, stop)

    end = asyncio.run(interrupted())
    assert end.notes() == ["(The search was interrupted: the result is not complete. Search in a narrower path.)"]
    assert children() == ""


def test_a_search_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    async def cancelled() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await ripgrep(ENDLESS, tmp_path, bytearray().extend, asyncio.Event())

    asyncio.run(cancelled())
    assert children() == ""


def test_a_search_ends_at_its_bound_of_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("needle\n" * 100_000)
    got, query = bytearray(), Query(Form.LINES, pattern="needle")
    end = asyncio.run(ripgrep(query, tmp_path, got.extend, asyncio.Event(), bytes_max=200_000))
    assert end.cut == "Stopped after 200,000 bytes of matches"
    assert 0 < len(got) <= 200_000


def children() -> str:
    """The ids of the processes that this one has started and not yet collected."""
    listing = Path(f"/proc/self/task/{os.getpid()}/children")
    return listing.read_text() if listing.exists() else ""


def test_a_pattern_with_a_nul_byte_is_an_invalid_argument(files: Files) -> None:
    assert files.code("Grep", pattern="a\0b") == ErrorCode.INVALID_ARGUMENTS


def test_a_pattern_without_a_slash_means_any_depth_and_one_that_begins_here_does_not() -> None:
    forms = [normal_form(pattern, HERE) for pattern in ("*.py", "./*.py", "./", "a/*.py")]
    assert forms == ["**/*.py", "*.py", "**", "a/*.py"]


def test_a_whole_path_below_where_the_search_begins_is_a_pattern_there(files: Files) -> None:
    fill(files, "a.py", "d/b.py", "d/e/c.py")
    for pattern, path, names in (
        ("*.py", ".", ["a.py"]),
        ("**/*.py", ".", ["a.py", "d/b.py", "d/e/c.py"]),
        ("d/*.py", "d", ["d/b.py"]),
        ("d/", "d", ["d/b.py", "d/e/c.py"]),
    ):
        whole = f"{files.root}/{pattern}"
        assert sorted(files.text("Glob", pattern=whole, path=path).split("\n")) == names
        assert files.text("Grep", pattern="needle", glob=whole, path=path).split("\n") == names
    assert files.code("Glob", pattern=f"{files.root}/*.py", path="d") == ErrorCode.OUTSIDE_WORKSPACE
    assert normal_form("/a/*.py", Path("/")) == "a/*.py"
