"""From settings to a provider; what is not chosen is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.provider.base import ModelProvider

if TYPE_CHECKING:
    from agent.config import Settings


def make_provider(settings: Settings) -> ModelProvider:
    """Build the provider that the settings name. Cheap: the heavy part waits for `prepare` or the first request."""
    if settings.provider_kind == "demo":
        from agent.provider.demo import DemoProvider

        return DemoProvider()
    from agent.provider.openai_chat import OpenAIChatProvider
    from agent.provider.transport import HttpxTransport, SdkTransport

    transport = SdkTransport if settings.uses_sdk else HttpxTransport
    return OpenAIChatProvider(settings.base_url, settings.api_key, settings.model, transport=transport)
