"""What services report, and what the user reads. The sentences are quotes or close to them."""

from __future__ import annotations

import pytest

from agent.errors import FailureKind
from agent.provider.failures import Service, asks_for_wait_s, failure_of_error

SERVICE = Service("http://model.test/v1", "gpt-x", "sk-secret-0123456789")
K = FailureKind


def error(message: str, **more: object) -> dict[str, object]:
    return {"error": {"message": message, **more}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (401, error("Incorrect API key provided", code="invalid_api_key"), K.AUTHENTICATION, False),
        (403, error("Country not supported"), K.AUTHENTICATION, False),
        (400, error("API key not valid", code="invalid_api_key"), K.AUTHENTICATION, False),
        (404, error("The model `gpt-x` does not exist", code="model_not_found"), K.MODEL_NOT_FOUND, False),
        (404, error("model 'gpt-x' not found, try pulling it first"), K.MODEL_NOT_FOUND, False),
        (400, error("gpt-x is not a valid model ID", code=400), K.MODEL_NOT_FOUND, False),
        (404, {"detail": "Not Found"}, K.ADDRESS, False),
        (404, None, K.ADDRESS, False),
        (405, None, K.ADDRESS, False),
        (308, None, K.ADDRESS, False),
        (402, error("Insufficient Balance"), K.RATE_LIMITED, False),
        (429, error("You exceeded your current quota", code="insufficient_quota"), K.RATE_LIMITED, False),
        (429, error("Rate limit reached", code="rate_limit_exceeded"), K.RATE_LIMITED, True),
        (408, None, K.TIMEOUT, True),
        (504, None, K.TIMEOUT, True),
        (500, error("The server had an error"), K.OVERLOADED, True),
        (503, None, K.OVERLOADED, True),
        (529, error("Overloaded", type="overloaded_error"), K.OVERLOADED, True),
        (400, error("messages[3] has no tool_call_id"), K.BAD_REQUEST, False),
        (422, {"detail": [{"loc": ["body", "tools"], "msg": "value is not a valid list"}]}, K.BAD_REQUEST, False),
        (413, None, K.CONTEXT_TOO_LONG, False),
        (None, error("Overloaded", type="overloaded_error"), K.OVERLOADED, True),
        (None, error("Rate limit reached", code="rate_limit_exceeded"), K.RATE_LIMITED, True),
        (None, error("slow down", code=429), K.RATE_LIMITED, True),
        (None, error("Upstream error", code=502), K.OVERLOADED, True),
        (None, {"error": "boom"}, K.STREAM_BROKEN, True),
        (None, {"message": "boom"}, K.STREAM_BROKEN, True),
        (None, error("Wrong", code="invalid_api_key"), K.AUTHENTICATION, False),
    ],
)
def test_a_report_has_a_kind(status: int | None, body: object, kind: FailureKind, retryable: bool) -> None:
    failure = failure_of_error(SERVICE, status, body)
    assert (failure.kind, failure.retryable, failure.exit_code) == (kind, retryable, 1)
    assert failure.message.endswith(".")


@pytest.mark.parametrize("status", [400, 422, 500, None])
@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "prompt is too long: 213462 tokens > 200000 maximum",
        "Input is too long for requested model.",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "the request exceeds the available context size, try increasing it",
        "context length exceeded",
        "input length exceeds context length",
        "Please reduce the length of the messages or completion.",
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "Prompt contains 43109 tokens, too large for model with 32768 maximum context length",
        "invalid params, context window exceeds limit (2013)",
        "Your request exceeded model token limit: 262144 (requested: 291351)",
        "Input tokens exceed the configured limit of 272000 tokens.",
        "too many tokens",
    ],
)
def test_a_conversation_that_is_too_long_is_known_by_any_services_words(status: int | None, words: str) -> None:
    assert failure_of_error(SERVICE, status, error(words)).kind is K.CONTEXT_TOO_LONG


@pytest.mark.parametrize("code", ["context_length_exceeded", "exceed_context_size_error"])
def test_a_conversation_that_is_too_long_is_known_by_its_code(code: str) -> None:
    assert failure_of_error(SERVICE, 400, error("no", code=code)).kind is K.CONTEXT_TOO_LONG
    assert failure_of_error(SERVICE, 400, error("no", type=code)).kind is K.CONTEXT_TOO_LONG


@pytest.mark.parametrize(
    "words", ["Rate limit: too many tokens per minute", "Request too large: 12000 tokens per min. Wait."]
)
def test_a_limit_per_minute_is_no_limit_of_the_context(words: str) -> None:
    assert failure_of_error(SERVICE, 429, error(words)).kind is K.RATE_LIMITED


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (
            401,
            error("Incorrect API key provided: sk-secret-0123456789."),
            "http://model.test/v1 refuses the key: check OPENAI_API_KEY and what it may use "
            "(it says: Incorrect API key provided: [key]).",
        ),
        (
            404,
            error("The model `gpt-x` does not exist"),
            "http://model.test/v1 has no model 'gpt-x': set MYCODEAGENT_MODEL or --model "
            "(it says: The model `gpt-x` does not exist).",
        ),
        (
            404,
            None,
            "http://model.test/v1 answers, but not as a model service: check OPENAI_BASE_URL or --base-url, "
            "which usually ends in /v1 (status 404).",
        ),
        (503, None, "http://model.test/v1 is overloaded or out of order (status 503): try again later."),
    ],
)
def test_the_sentence_says_what_to_change(status: int, body: object, message: str) -> None:
    assert failure_of_error(SERVICE, status, body).message == message


def test_without_a_key_the_sentence_asks_for_one() -> None:
    service = Service("http://model.test/v1", "gpt-x", None)
    assert failure_of_error(service, 401, None).message == "http://model.test/v1 wants a key: set OPENAI_API_KEY."


def test_a_services_words_become_one_short_line_without_control_characters() -> None:
    words = "\x1b[31mred\r\n\tand sk-secret-0123456789 " + "long " * 200
    quoted = SERVICE.quote(words)
    assert quoted.startswith("[31mred and [key] long long")
    assert quoted.isprintable()
    assert len(quoted) < 310


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "2"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:28:30 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"retry-after": "soon", "date": "now"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_the_wait_that_a_service_asks_for_is_in_seconds(headers: dict[str, str], wait_s: float | None) -> None:
    assert asks_for_wait_s(headers) == wait_s
