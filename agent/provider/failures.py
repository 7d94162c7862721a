"""Say in one sentence what went wrong with a request, and what to change.

Pure functions over what came back: a status with a body, an error object within a stream, or a broken transport. All
of them make a `ModelFailure`; `openai_chat` is the only caller, at one place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime

from agent.errors import FailureKind, ModelFailure

__all__ = ["FailureKind", "ModelFailure", "Service", "asks_for_wait_s", "failure_of_error", "web_page"]

DETAIL_CHARACTERS_MAX = 300  # a service's own words: enough for its sentence, not for its stack trace

# Nobody agrees on a code, so the words that services use are read as well: the test of this module quotes them.
_CONTEXT_TOO_LONG = re.compile(
    r"context[ _](length|window|size)[^.]{0,60}(exceed|limit|too (long|small))"
    r"|exceed_context_size"
    r"|maximum (context|model|prompt|input) (length|size)"
    r"|(exceed|longer than|larger than|greater than|beyond|fit in)[^.]{0,60}"
    r"(context (length|window|size)|token limit|length limit|number of tokens)"
    r"|(prompt|input|messages?)\b[^.]{0,40}\btoo (long|large|many tokens)"
    r"|too (large for model|many (input )?tokens)"
    r"|input token(s| count)[^.]{0,60}exceed"
    r"|reduce the length of the messages",
    re.IGNORECASE,
)
_MODEL_NOT_FOUND = re.compile(
    r"model_not_found|\bmodel\b[^.]{0,120}(not (be )?found|not exist|not a valid|unknown|not supported|not available)"
    r"|(unknown|invalid|no such) model|not a valid model",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(r"insufficient_quota|insufficient (balance|credit|funds)|billing|credit balance", re.IGNORECASE)
_WRONG_KEY = re.compile(r"invalid_api_key|authentication_error|incorrect api key|invalid api key", re.IGNORECASE)
_RATE_LIMIT = re.compile(r"rate[ _]limit|too many requests", re.IGNORECASE)
_OVERLOAD = re.compile(r"overloaded|server_error|internal (server )?error|unavailable|no capacity", re.IGNORECASE)

_CONTEXT_STATUSES = frozenset({400, 413, 422, 500, None})  # llama.cpp once said 500


@dataclass(frozen=True)
class Service:
    """Who was asked, with what: the facts that a sentence names."""

    address: str
    model: str
    api_key: str | None = field(repr=False)

    def quote(self, words: str) -> str:
        """A service's own words made fit for a sentence: one line, bounded, no control characters, no key."""
        if self.api_key:
            words = words.replace(self.api_key, "[key]")
        words = "".join(c if c.isprintable() else " " for c in words)
        words = " ".join(words.split())
        if len(words) > DETAIL_CHARACTERS_MAX:
            words = words[:DETAIL_CHARACTERS_MAX] + "…"
        return words.rstrip(". ")


def failure_of_error(
    service: Service, status: int | None, error: object, retry_after_s: float | None = None
) -> ModelFailure:
    """Name the failure that a service reported.

    `status` is the HTTP status, None for an error within a stream that began well. `error` is the body, or the value
    of its `error` key: a mapping, a text, or nothing.
    """
    code, detail = _code_and_words(error)
    in_stream = status is None
    status = status if status is not None else _status_in(code)
    kind, sentence, retryable = _judge(service, status, code, detail, in_stream)
    said = service.quote(detail)
    message = f"{sentence} (it says: {said})" if said else sentence
    return ModelFailure(
        kind, f"{message}.", retryable=retryable, retry_after_s=retry_after_s if retryable else None, status=status
    )


def _judge(
    service: Service, status: int | None, code: str, detail: str, in_stream: bool
) -> tuple[FailureKind, str, bool]:
    """Kind, sentence without full stop, and whether to try again."""
    words = f"{code} {detail}"
    at = service.address
    if status in _CONTEXT_STATUSES and (status == 413 or _CONTEXT_TOO_LONG.search(words)):
        return FailureKind.CONTEXT_TOO_LONG, f"The conversation is too long for {service.model}", False
    if status in {401, 403} or (status in {400, None} and _WRONG_KEY.search(words)):
        if service.api_key is None:
            return FailureKind.AUTHENTICATION, f"{at} wants a key: set OPENAI_API_KEY", False
        return FailureKind.AUTHENTICATION, f"{at} refuses the key: check OPENAI_API_KEY and what it may use", False
    if status in {400, 404, 422} and _MODEL_NOT_FOUND.search(words):
        sentence = f"{at} has no model {service.model!r}: set MYCODEAGENT_MODEL or --model"
        return FailureKind.MODEL_NOT_FOUND, sentence, False
    if status is not None and (300 <= status < 400 or status in {404, 405, 410}):
        return FailureKind.ADDRESS, f"{_no_model_service(at)} (status {status})", False
    if status == 402 or _NO_CREDIT.search(words):
        return FailureKind.RATE_LIMITED, f"{at} says that the account behind OPENAI_API_KEY has no credit left", False
    if status == 429 or (status is None and _RATE_LIMIT.search(words)):
        return FailureKind.RATE_LIMITED, f"{at} limits how often it may be asked: wait, then try again", True
    if status in {408, 504}:
        return FailureKind.TIMEOUT, f"{at} took too long (status {status}): try again", True
    if (status is not None and status >= 500) or (status is None and _OVERLOAD.search(words)):
        shown = f" (status {status})" if status is not None else ""
        return FailureKind.OVERLOADED, f"{at} is overloaded or out of order{shown}: try again later", True
    if in_stream:
        return FailureKind.STREAM_BROKEN, f"{at} broke off its answer", True
    return FailureKind.BAD_REQUEST, f"{at} refused the request (status {status})", False


def web_page(service: Service) -> ModelFailure:
    """Something answered with success, but it is no model service: a portal, a start page, another API."""
    return ModelFailure(FailureKind.ADDRESS, f"{_no_model_service(service.address)}.", status=200)


def _no_model_service(address: str) -> str:
    return (
        f"{address} answers, but not as a model service: check OPENAI_BASE_URL or --base-url, which usually ends in /v1"
    )


def asks_for_wait_s(headers: Mapping[str, str]) -> float | None:
    """The wait in seconds that the answer's headers ask for.

    A date is read against the answer's own `date` header, so that our clock does not matter.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    wanted = headers.get("retry-after")
    seconds = _number(wanted)
    if seconds is not None:
        return seconds
    until, now = _date(wanted), _date(headers.get("date"))
    if until is None or now is None:
        return None
    return max(0.0, (until - now).total_seconds())


def _number(value: str | None) -> float | None:
    if value is None or not re.fullmatch(r"\d{1,9}(\.\d+)?", value.strip()):
        return None
    return float(value)


def _date(value: str | None) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(value or "")
    except ValueError:
        return None
    return parsed if parsed.tzinfo else None


def _code_and_words(error: object) -> tuple[str, str]:
    """The machine-readable codes and the words of an error, which services put in many places."""
    if isinstance(error, Mapping):
        inner = error.get("error")
        if isinstance(inner, Mapping | str) and inner:
            return _code_and_words(inner)
        codes = [str(error[name]) for name in ("code", "type", "status") if error.get(name) is not None]
        words = error.get("message") or error.get("detail") or error.get("msg") or ""
        return " ".join(codes), words if isinstance(words, str) else str(words)
    return "", error if isinstance(error, str) else ""


def _status_in(code: str) -> int | None:
    """The HTTP status that some services send as an error's code."""
    found = re.search(r"\b[45]\d\d\b", code)
    return int(found[0]) if found else None
