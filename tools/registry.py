"""The tools by name: their definitions for the model, and its arguments checked before anything else happens."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tools.base import CallRefused, ErrorCode, Tool, ToolParams
from tools.read_cache import ReadCache
from tools.verdict import Json

AnyTool = Tool[Any, Any]  # each tool fixes its own parameters and plan; a table of them cannot

_ERRORS_NAMED_MAX = 3


class ToolRegistry:
    """The tools of one session, in the order in which the model sees them."""

    def __init__(self, tools: Sequence[AnyTool], read_cache: ReadCache) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._read_cache = read_cache

    @property
    def names(self) -> list[str]:
        return list(self._tools)

    def get(self, name: str) -> AnyTool | None:
        return self._tools.get(name)

    def definitions(self, names: Collection[str]) -> list[Mapping[str, Json]]:
        """The tools of these names, as a Chat Completions request lists them."""
        return [
            {
                "type": "function",
                "function": {"name": name, "description": tool.description, "parameters": _schema(tool.params)},
            }
            for name, tool in self._tools.items()
            if name in names
        ]

    def parse(self, name: str, arguments_json: str) -> ToolParams:
        """Check a call as the model wrote it.

        Raises:
            CallRefused: UNKNOWN_TOOL or INVALID_ARGUMENTS; the message says how to call it right.
        """
        tool = self._tools.get(name)
        if tool is None:
            message = f"There is no tool {name[:100]!r}. The tools are {', '.join(self._tools)}."
            raise CallRefused(ErrorCode.UNKNOWN_TOOL, message)
        try:
            arguments = _without_nulls(_object_from(arguments_json), tool)
            params: ToolParams = tool.params.model_validate(arguments)
        except ValidationError as error:
            raise _wrong_call(tool, _sentence(error)) from error
        except (ValueError, RecursionError) as error:
            raise _wrong_call(tool, f"the arguments are not one JSON object ({error})") from error
        return params

    def export_read_cache(self) -> list[dict[str, Json]]:
        return self._read_cache.export()

    def import_read_cache(self, entries: Iterable[Mapping[str, Json]]) -> list[str]:
        """Take over what the model has read before. Returns the paths of files that changed meanwhile."""
        return self._read_cache.import_entries(entries)


def _object_from(text: str) -> dict[str, Json]:
    value: Json = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    if not isinstance(value, dict):
        raise ValueError(f"got {type(value).__name__}")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("a text holds half a character, a lone surrogate") from error
    return value


def _without_nulls(arguments: dict[str, Json], tool: AnyTool) -> dict[str, Json]:
    """Some models write null for what they leave out."""
    required = {field.alias or name for name, field in tool.params.model_fields.items() if field.is_required()}
    return {name: value for name, value in arguments.items() if value is not None or name in required}


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _sentence(error: ValidationError) -> str:
    """Which parameter is wrong, and how."""
    wrongs = []
    for detail in error.errors(include_url=False, include_context=False, include_input=False)[:_ERRORS_NAMED_MAX]:
        where = ".".join(map(str, detail["loc"]))
        match detail["type"]:
            case "missing":
                wrongs.append(f"{where} is missing")
            case "extra_forbidden":
                wrongs.append(f"there is no parameter {where}")
            case _:
                wrongs.append(f"{where}: {detail['msg']}")
    return "; ".join(wrongs)


def _wrong_call(tool: AnyTool, wrong: str) -> CallRefused:
    return CallRefused(ErrorCode.INVALID_ARGUMENTS, f"{wrong[:1].upper()}{wrong[1:]}. Call it as {_signature(tool)}.")


def _signature(tool: AnyTool) -> str:
    schema = _schema(tool.params)
    properties, required = schema["properties"], schema.get("required", [])
    assert isinstance(properties, dict) and isinstance(required, list)
    parts = [f"{name}{'' if name in required else '?'}: {_type_of(shape)}" for name, shape in properties.items()]
    return f"{tool.name}({', '.join(parts)})"


def _type_of(shape: Json) -> str:
    match shape:
        case {"enum": list(values)}:
            return " | ".join(map(str, values))
        case {"type": "array", "items": {"type": "object", "properties": dict(fields)}}:
            return "[{" + ", ".join(fields) + "}]"
        case {"type": str(name)}:
            return name
    return "value"


def _schema(params: type[ToolParams]) -> dict[str, Json]:
    """The parameters as a JSON schema without references, titles and nulls."""
    schema: dict[str, Json] = params.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})
    assert isinstance(definitions, dict)
    compact = _compact(schema, definitions)
    assert isinstance(compact, dict)
    return compact


def _compact(shape: Json, definitions: Mapping[str, Json]) -> Json:
    if isinstance(shape, list):
        return [_compact(value, definitions) for value in shape]
    if not isinstance(shape, dict):
        return shape
    match shape:
        case {"$ref": str(reference)}:
            return _compact(definitions[reference.rpartition("/")[2]], definitions)
        case {"anyOf": [dict(only), {"type": "null"}]}:
            others = {key: value for key, value in shape.items() if key not in ("anyOf", "default")}
            return _compact({**others, **only}, definitions)  # an optional one is left out, not null
    compact = {key: _compact(value, definitions) for key, value in shape.items() if key not in ("title", "properties")}
    properties = shape.get("properties")
    if isinstance(properties, dict):  # apart, since a parameter may be called "title"
        compact["properties"] = {name: _compact(field, definitions) for name, field in properties.items()}
    return compact
