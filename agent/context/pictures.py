"""Images that tools returned, as the messages that show them to the model.

Chat Completions takes images in user messages alone, and a call's result must stand right behind it: so the images of
an exchange follow its last result, in one message.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

from agent.provider.base import ChatMessage
from memory.events import ImageRef

IMAGE_TOKENS = 1_600  # about what services count for a picture of full size
VIEW_BYTES_MAX = 20 * 1024 * 1024  # of base64 in one request: services refuse bodies of more than 30 MB or so

_HEAD = "[Images of the results above, in their order:"


class Pictures:
    """Keeps places in a conversation, and fills them when it is sent. `load` gives the bytes of a blob, if it can."""

    def __init__(self, load: Callable[[str], bytes | None]) -> None:
        self._load = load
        self._places: list[tuple[int, Sequence[ImageRef]]] = []
        self._built: dict[int, ChatMessage] = {}

    def clear(self) -> None:
        """The conversation begins anew."""
        self._places, self._built = [], {}

    def reserve(self, place: int, images: Sequence[ImageRef]) -> ChatMessage:
        """What stands at this index of the conversation until it is filled."""
        self._places.append((place, images))
        return _left_out(images)

    def fill(self, conversation: list[ChatMessage]) -> None:
        """Put in the newest that one request has room for; of the others the names stay."""
        room = VIEW_BYTES_MAX
        for place, images in reversed(self._places):
            room -= sum(image.bytes * 4 // 3 for image in images)
            if room < 0:
                self._built.pop(place, None)
                continue
            if place not in self._built:
                self._built[place] = self._shown(images)
            conversation[place] = self._built[place]

    def _shown(self, images: Sequence[ImageRef]) -> ChatMessage:
        parts: list[dict[str, object]] = [{"type": "text", "text": f"{_HEAD} {_names(images)}]"}]
        for image in images:
            data = self._load(image.blob)
            if data is None:
                parts.append({"type": "text", "text": f"[The stored image {image.name} is missing.]"})
                continue
            url = f"data:{image.media_type};base64,{base64.b64encode(data).decode()}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        return ChatMessage(role="user", content=parts)


def _left_out(images: Sequence[ImageRef]) -> ChatMessage:
    return ChatMessage(role="user", content=f"{_HEAD} {_names(images)}; left out of this request]")


def _names(images: Sequence[ImageRef]) -> str:
    return ", ".join(image.name for image in images)
