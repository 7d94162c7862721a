"""One answer of the model: ask, retry while nothing was shown, assemble."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from agent.errors import ModelFailure
from agent.provider.assembly import Reply, ReplyAssembler
from agent.provider.assembly import ToolCall as AssembledCall
from agent.provider.base import ModelProvider, ModelRequest
from memory.text import TextCleaner

ATTEMPTS_MAX = 4
WAIT_FIRST_S = 0.5  # doubled at every further attempt
WAIT_LONGEST_S = 60.0  # a service that asks for more is told to the user instead


@dataclass(frozen=True)
class Retry:
    """The request failed and is sent again after a wait."""

    attempt: int
    wait_s: float
    reason: str


class ModelTurn:
    """Asks one provider. `sleep` and `jitter` (a factor for each wait) are arguments so that tests need not wait."""

    def __init__(
        self,
        provider: ModelProvider,
        cleaner: TextCleaner,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float],
    ) -> None:
        self.provider = provider
        self._cleaner = cleaner
        self._sleep = sleep
        self._jitter = jitter

    async def ask(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_retry: Callable[[Retry], None],
        taken: Callable[[str], bool] = lambda _id: False,
    ) -> Reply:
        """The complete reply, cleaned. `on_text` gets every piece of text before anybody sees it.

        Raises:
            ModelFailure: no complete answer; what `on_text` got by then was shown.
        """
        attempt = 1
        while True:
            shown = False

            def show(text: str) -> None:
                nonlocal shown
                if text:
                    shown = True
                    on_text(text)

            try:
                return await self._attempt(request, show, taken)
            except ModelFailure as failure:
                backoff_s = WAIT_FIRST_S * 2 ** (attempt - 1) * self._jitter()
                wait_s = backoff_s if failure.retry_after_s is None else failure.retry_after_s
                if shown or not failure.retryable or attempt == ATTEMPTS_MAX or wait_s > WAIT_LONGEST_S:
                    raise
                on_retry(Retry(attempt, wait_s, failure.message))
                await self._sleep(wait_s)
                attempt += 1

    async def _attempt(self, request: ModelRequest, show: Callable[[str], None], taken: Callable[[str], bool]) -> Reply:
        assembler = ReplyAssembler(taken=taken)
        stream = self._cleaner.stream()
        async with aclosing(self.provider.stream(request)) as chunks:
            async for chunk in chunks:
                show(stream.feed(assembler.feed(chunk)))
        reply = assembler.finish()
        show(stream.flush())
        clean = self._cleaner.clean
        calls = tuple(AssembledCall(call.id, clean(call.name), clean(call.arguments)) for call in reply.tool_calls)
        return replace(reply, text=clean(reply.text), tool_calls=calls)
