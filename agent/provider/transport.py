"""Two ways to send a request and get the raw response: httpx by itself, or the `openai` SDK above it.

Both are made heavy by what they import: the SDK costs three times as much as all else until the first request, and
nothing of what it adds is used here. So it is there for who wants its ways with proxies and gateways, by a setting.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import httpx
    import openai

CONNECT_S = 10.0  # a service that is there answers much sooner


class Transport(Protocol):
    """Sends bodies that are ready as they are, and tries nothing twice."""

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """The response to a request, whatever its status; its body is not read yet, unless it is a refusal.

        Raises:
            httpx.HTTPError, httpx.InvalidURL, UnicodeError: there is none.
        """

    async def close(self) -> None:
        """Give back connections."""


class HttpxTransport:
    """httpx by itself. `idle_s` limits the time without any byte. Raises ImportError, OSError, ValueError."""

    def __init__(self, address: str, idle_s: float) -> None:
        import httpx

        self._address = address
        self._client = httpx.AsyncClient(timeout=httpx.Timeout(idle_s, connect=CONNECT_S), follow_redirects=True)

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        request = self._client.build_request("POST", self._address + path, content=body, headers=dict(headers))
        return await self._client.send(request, stream=True)

    async def close(self) -> None:
        await self._client.aclose()


class SdkTransport:
    """The SDK's low-level `post`. Parameters and errors are those of `HttpxTransport`.

    `chat.completions.create` would import half a second of types, walk the whole history in Python at every request,
    and read the stream with a parser that fails on keep-alive events (K30).
    """

    def __init__(self, address: str, idle_s: float) -> None:
        import httpx
        import openai

        self._client = openai.AsyncOpenAI(
            base_url=address,
            api_key="unused",  # the SDK insists; what is sent is in the headers of each request
            max_retries=0,  # ours are visible, recorded and can be interrupted
            timeout=httpx.Timeout(idle_s, connect=CONNECT_S),
        )

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        import httpx
        import openai

        streamed: bool = True  # not a literal: that overload of the SDK demands one of its own stream classes
        try:
            return await self._client.post(
                path,
                cast_to=httpx.Response,
                content=body,
                options={"headers": {**_without_ambient(), **headers}},
                stream=streamed,
            )
        except openai.APIStatusError as error:
            return error.response
        except openai.APIConnectionError as error:
            cause = error.__cause__
            if isinstance(cause, httpx.HTTPError | httpx.InvalidURL | UnicodeError):
                raise cause from cause.__cause__  # not from the SDK's error, which has it as its own cause
            raise httpx.TransportError(str(error)) from error

    async def close(self) -> None:
        await self._client.close()


def _without_ambient() -> dict[str, str | openai.Omit]:
    """Take out what the SDK would add from the environment, whatever the address is."""
    from openai import Omit

    ambient = os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines()
    names = [line.partition(":")[0].strip() for line in ambient if ":" in line]
    return {name: Omit() for name in (*names, "Authorization", "OpenAI-Organization", "OpenAI-Project")}
