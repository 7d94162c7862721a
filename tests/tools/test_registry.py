"""The registry: definitions for the model, and wrong calls answered with one sentence that says how to call right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tools.files_kit import Files
from tools.base import CallRefused, ErrorCode, ToolParams
from tools.edit import EditParams
from tools.grep import GrepParams
from tools.read import ReadParams
from tools.registry import ToolRegistry
from tools.todo import TodoWrite

SIGNATURE = "Call it as Read(file_path: string, offset?: integer, limit?: integer)."


@pytest.fixture
def registry(tmp_path: Path) -> ToolRegistry:
    files = Files(tmp_path)
    return ToolRegistry([*files.tools, TodoWrite()], files.cache)


def test_names_and_lookups(registry: ToolRegistry) -> None:
    assert registry.names == ["Read", "Edit", "Write", "Glob", "Grep", "TodoWrite"]
    assert (registry.get("read"), registry.get("")) == (None, None)


def test_a_definition_is_compact(registry: ToolRegistry) -> None:
    text = json.dumps(registry.definitions(registry.names))
    definitions = {d["function"]["name"]: d["function"]["parameters"] for d in json.loads(text)}
    assert definitions["Edit"] == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "file_path": {"type": "string", "description": "File to change, relative to the workspace."},
            "old_string": {
                "type": "string",
                "description": "Text to replace, exactly as in the file; empty to create a new file.",
            },
            "new_string": {"type": "string", "description": "Text to put in its place."},
            "replace_all": {
                "type": "boolean",
                "default": False,
                "description": "Replace every occurrence instead of the only one.",
            },
        },
        "required": ["file_path", "old_string", "new_string"],
    }
    assert definitions["TodoWrite"]["properties"]["todos"]["items"]["properties"]["status"] == {
        "enum": ["pending", "in_progress", "completed"],
        "type": "string",
    }
    grep = definitions["Grep"]["properties"]
    assert list(grep) == [
        "pattern",
        "path",
        "glob",
        "output_mode",
        "-i",
        "-n",
        "-A",
        "-B",
        "-C",
        "head_limit",
        "multiline",
    ]
    assert grep["head_limit"] == {
        "type": "integer",
        "minimum": 1,
        "description": "Only the first so many lines or paths.",
    }
    assert "$ref" not in text and '"title"' not in text and "anyOf" not in text
    assert all("description" in shape for tool in definitions.values() for shape in tool["properties"].values())


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("Read", '{"file_path": "a", "offset": "5", "limit": 7.0}', ReadParams(file_path="a", offset=5, limit=7)),
        (
            "Edit",
            '{"file_path": "a", "old_string": "b", "new_string": "c", "replace_all": "true"}',
            EditParams(file_path="a", old_string="b", new_string="c", replace_all=True),
        ),
        (
            "Grep",
            '{"pattern": "x", "-i": true, "-A": "3", "glob": null, "-n": null, "path": null}',
            GrepParams.model_validate({"pattern": "x", "ignore_case": True, "after": 3}),
        ),
    ],
)
def test_right_calls(registry: ToolRegistry, name: str, arguments: str, expected: ToolParams) -> None:
    assert registry.parse(name, arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ("{}", "File_path is missing."),
        ('{"path": "a"}', "File_path is missing; there is no parameter path."),
        (
            '{"file_path": "a", "offset": "x"}',
            "Offset: Input should be a valid integer, unable to parse string as an integer.",
        ),
        ('{"file_path": "a", "offset": 0}', "Offset: Input should be greater than or equal to 1."),
        ('{"file_path": "\\ud83d"}', None),
        ("", None),
        ("null", "The arguments are not one JSON object (got NoneType)."),
        ("[1]", "The arguments are not one JSON object (got list)."),
        ('{"a":1}{"b":2}', None),
        ('{"file_path": NaN}', "The arguments are not one JSON object (NaN is no JSON)."),
        ('{"file_path": "a", "file_path": "b"}', "The arguments are not one JSON object (a name stands there twice)."),
        ('{"file_path": "a\nb"}', None),
        ('{"file_path": "cut', None),
        ('{"file_path": ' + "[" * 100_000, None),
        ('{"offset": ' + "9" * 5_000 + "}", None),
    ],
)
def test_k28_wrong_calls_are_told_what_is_wrong_and_how_to_call_right(
    registry: ToolRegistry, arguments: str, wrong: str | None
) -> None:
    with pytest.raises(CallRefused) as refused:
        registry.parse("Read", arguments)
    assert refused.value.code == ErrorCode.INVALID_ARGUMENTS
    if wrong is not None:
        assert refused.value.message == f"{wrong} {SIGNATURE}"
    assert refused.value.message.endswith(SIGNATURE)
    assert len(refused.value.message) < 400


@pytest.mark.parametrize("name", ["unknown", "read", "", "x" * 1000])
def test_k33_an_unknown_tool_is_answered_with_the_names(registry: ToolRegistry, name: str) -> None:
    with pytest.raises(CallRefused) as refused:
        registry.parse(name, "{}")
    assert refused.value.code == ErrorCode.UNKNOWN_TOOL
    assert refused.value.message.endswith("The tools are Read, Edit, Write, Glob, Grep, TodoWrite.")
    assert len(refused.value.message) < 300


def test_the_read_cache_goes_out_and_comes_back(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.put("a.txt", "one\n")
    files.put("b.txt", "one\n")
    files.text("Read", file_path="a.txt")
    files.text("Read", file_path="b.txt")
    (tmp_path / "b.txt").write_text("two\n")
    later = Files(tmp_path)
    assert later.registry.import_read_cache(files.registry.export_read_cache()) == [str(tmp_path / "b.txt")]
    assert later.registry.export_read_cache() == files.registry.export_read_cache()
