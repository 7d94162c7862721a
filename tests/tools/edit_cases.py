"""Edits that other agents test, as data in our own words: what stood there, the edit, and what must come of it.

Learnt from the edit tests of Aider (`tests/basic/test_editblock.py`), opencode (`test/tool/edit.test.ts`), Gemini CLI
(`packages/core/src/tools/edit.test.ts`) and Roo Code (`multi-search-replace.test.ts`). Where their answer is a guess
(the first of several places, the most similar text), ours is a refusal: `after` is then its code, and `why` says what
speaks against the guess. These cases are the table of what Edit refuses on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.base import ErrorCode


@dataclass(frozen=True)
class EditCase:
    """`before` None: there is no such file. `why` is set where another agent edits and we refuse."""

    suite: str
    name: str
    before: str | None
    old: str
    new: str
    after: str | ErrorCode
    replace_all: bool = False
    why: str = ""


AIDER = [
    EditCase("aider", "one line of three", "red\ngreen\nblue\n", "green\n", "grey\n", "red\ngrey\nblue\n"),
    EditCase("aider", "a new file", None, "", "created\n", "created\n"),
    EditCase(
        "aider",
        "the whole block lacks its indentation",
        "    alpha\n    beta\n    gamma\n",
        "alpha\nbeta\n",
        "one\ntwo\n",
        "    one\n    two\n    gamma\n",
    ),
    EditCase(
        "aider",
        "the block lacks a part of its indentation",
        "    alpha\n    beta\n    gamma\n",
        " alpha\n beta\n",
        " one\n     two\n",
        "    one\n        two\n    gamma\n",
    ),
    EditCase(
        "aider",
        "indentation that varies within the block is kept",
        "\n  for x in y:\n  if x:\n      go()\n  end\n",
        "if x:\n    go()\n",
        "if not x:\n    stay()\n",
        "\n  for x in y:\n  if not x:\n      stay()\n  end\n",
    ),
    EditCase(
        "aider",
        "a text that stands twice",
        "pick\nleave\npick\nrest\n",
        "pick\n",
        "take\n",
        ErrorCode.NOT_UNIQUE,
        why="they change the first place; which one was meant is not known",
    ),
    EditCase(
        "aider",
        "a text that stands twice, without its indentation",
        "    pick\n    leave\n    pick\n",
        "pick\n",
        "take\n",
        ErrorCode.NOT_UNIQUE,
        why="they change the first place; which one was meant is not known",
    ),
    EditCase(
        "aider",
        "a blank line before the block that the file does not have",
        "    alpha\n    beta\n",
        "\n  alpha\n  beta\n",
        "  one\n  two\n",
        ErrorCode.NO_MATCH,
        why="they drop the blank line; what it was to match is not there",
    ),
    EditCase(
        "aider",
        "a text that is only similar",
        "A sample of text.\nAnother line.\n",
        "A sample of a text.\n",
        "Replaced.\n",
        ErrorCode.NO_MATCH,
        why="likeness is no proof: the words that differ may be what matters",
    ),
]

OPENCODE = [
    EditCase("opencode", "a new file in new directories", None, "", "nested", "nested"),
    EditCase("opencode", "a part of a line", "the old words stay", "old words", "new words", "the new words stay"),
    EditCase("opencode", "every occurrence", "a x a y a", "a", "b", "b x b y b", replace_all=True),
    EditCase("opencode", "more lines than before", "1\n2\n3", "2", "two\nand a half", "1\ntwo\nand a half\n3"),
    EditCase("opencode", "CRLF around the edit", "1\r\nold\r\n3", "old", "new", "1\r\nnew\r\n3"),
    EditCase("opencode", "LF in both texts, CRLF in the file", "a\r\nb\r\nc", "a\nb", "a\nB", "a\r\nB\r\nc"),
    EditCase("opencode", "CRLF in both texts, LF in the file", "a\nb\nc", "a\r\nb", "a\r\nB", "a\nB\nc"),
    EditCase("opencode", "CRLF in both texts and in the file", "a\r\nb\r\nc", "a\r\nb", "a\r\nB", "a\r\nB\r\nc"),
    EditCase(
        "opencode",
        "every CRLF block",
        "a\r\nb\r\nx\r\na\r\nb",
        "a\nb",
        "c\nd",
        "c\r\nd\r\nx\r\nc\r\nd",
        replace_all=True,
    ),
    EditCase(
        "opencode",
        "the first line behind a mark",
        "\ufeffusing A;\nend\n",
        "using A;",
        "using B;",
        "\ufeffusing B;\nend\n",
    ),
    EditCase("opencode", "a file that is not there", None, "old", "new", ErrorCode.NOT_FOUND),
    EditCase("opencode", "both texts the same", "content", "same", "same", ErrorCode.INVALID_ARGUMENTS),
    EditCase("opencode", "both texts empty", "content", "", "", ErrorCode.INVALID_ARGUMENTS),
    EditCase("opencode", "a text that is not there", "what is there", "not in the file", "x", ErrorCode.NO_MATCH),
    EditCase(
        "opencode",
        "an empty old text for a file with content",
        "\ufeffusing A;\n",
        "",
        "using B;\n",
        ErrorCode.REFUSED,
        why="they replace the whole file; that is what Write is for, which says so",
    ),
]

GEMINI = [
    EditCase("gemini", "a dollar sign", "it is $100 now", "is $100", "is $200", "it is $200 now"),
    EditCase("gemini", "dollar and quote", "foo", "foo", "bar$'baz", "bar$'baz"),
    EditCase("gemini", "dollar and ampersand", "hello you", "hello", "$&-bye", "$&-bye you"),
    EditCase("gemini", "dollar and backtick", "a-mid-z", "mid", "new$`text", "a-new$`text-z"),
    EditCase("gemini", "group numbers", "test it", "test", "$1$2 \\1", "$1$2 \\1 it"),
    EditCase("gemini", "two dollar signs", "price now", "now", "$$100", "price $$100"),
    EditCase("gemini", "an expression", "f('^[sv]d[a-z]$')", "'^[sv]d[a-z]$'", "'x$' # y", "f('x$' # y)"),
    EditCase("gemini", "several places at once", "a b a", "a", "t$'e", "t$'e b t$'e", replace_all=True),
    EditCase(
        "gemini",
        "several places",
        "a b a",
        "a",
        "c",
        ErrorCode.NOT_UNIQUE,
    ),
    EditCase(
        "gemini",
        "lines whose indentation differs each in its own way",
        "  hello\n    world\n",
        "hello\nworld",
        "goodbye\nmoon",
        ErrorCode.NO_MATCH,
        why="they put all new lines at the first indentation, which changes the nesting",
    ),
    EditCase(
        "gemini",
        "other spaces within a line",
        "  def  f( a, b ):\n    pass\n",
        "def f(a, b):",
        "def g(a, b):",
        ErrorCode.NO_MATCH,
        why="they skip any white space; within a string or in YAML it means something",
    ),
    EditCase(
        "gemini",
        "a comma that was forgotten",
        "x = {\n  on: true,\n  tries: 3\n};",
        "x = {\n  on: true\n  tries: 3\n};",
        "x = {\n  on: false,\n  tries: 5\n};",
        ErrorCode.NO_MATCH,
        why="likeness is no proof: the words that differ may be what matters",
    ),
    EditCase(
        "gemini",
        "another kind of quotes, in two places",
        'log("hi");\n\nlog("hi");\n',
        "log('hi');",
        'log("bye");',
        ErrorCode.NO_MATCH,
        why="single and double quotes are different code, and there are two places",
    ),
]

ROO = [
    EditCase(
        "roo",
        "a block with blank lines around it",
        "\nf() {\n  1;\n}\n\n",
        "f() {\n  1;\n}",
        "f() {\n  2;\n}",
        "\nf() {\n  2;\n}\n\n",
    ),
    EditCase(
        "roo",
        "the block stands deeper",
        "    f() {\n        true;\n    }\n",
        "f() {\n    true;\n}\n",
        "f() {\n    false;\n}\n",
        "    f() {\n        false;\n    }\n",
    ),
    EditCase(
        "roo",
        "the block stands deeper by a tab, and gets another line",
        "\tf() {\n\t\ttrue;\n\t}",
        "f() {\n\ttrue;\n}",
        "f() {\n\t// why\n\tfalse;\n}",
        "\tf() {\n\t\t// why\n\t\tfalse;\n\t}",
    ),
    EditCase(
        "roo",
        "the block stands less deep",
        "class A {\n    a() {\n        1;\n    }\n}",
        "    class A {\n        a() {\n            1;\n        }\n    }",
        "    class A {\n        a() {\n            1;\n            2;\n        }\n    }",
        "class A {\n    a() {\n        1;\n        2;\n    }\n}",
    ),
    EditCase(
        "roo",
        "tabs and spaces mixed",
        "\tA {\n\t    b\n\t\tc = 0\n\t}",
        "\t    b\n\t\tc = 0",
        "\t    b\n\t\tc = 1",
        "\tA {\n\t    b\n\t\tc = 1\n\t}",
    ),
    EditCase("roo", "CRLF", "f() {\r\n  1;\r\n}\r\n", "f() {\n  1;\n}", "f() {\n  2;\n}", "f() {\r\n  2;\r\n}\r\n"),
    EditCase("roo", "lines are taken out", "a\nb  // once\nc\n", "b  // once\n", "", "a\nc\n"),
    EditCase(
        "roo",
        "more lines at the end of a file without a line end",
        "\ton()",
        "\ton()",
        "\ton()\n\toff() {\n\t}",
        "\ton()\n\toff() {\n\t}",
    ),
    EditCase("roo", "words that are not there", 'say("hello")\n', 'say("wrong")', "x", ErrorCode.NO_MATCH),
    EditCase(
        "roo",
        "one line of the block at an indentation of its own",
        "  a() {\n    if (x) {\n      go();\n    }\n  }\n",
        "  a() {\n    if (x) {\n    go();\n    }\n  }",
        "  a() {\n    if (x) {\n    go();\n    stop();\n    }\n  }",
        ErrorCode.NO_MATCH,
        why="they shift what differs; the block is not the one in the file",
    ),
    EditCase(
        "roo",
        "line numbers in both texts",
        "f() {\n  1;\n}\n",
        "1 | f() {\n2 |   1;\n3 | }",
        "1 | f() {\n2 |   2;\n3 | }",
        ErrorCode.NO_MATCH,
        why="they strip what looks like line numbers; a file may hold just that",
    ),
]

CASES = [*AIDER, *OPENCODE, *GEMINI, *ROO]
