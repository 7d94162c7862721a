"""What a file is by its first bytes, in words."""

from __future__ import annotations

import codecs
import struct

_KINDS = {
    b"\x89PNG\r\n\x1a\n": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF87a": "a GIF image",
    b"GIF89a": "a GIF image",
    b"BM": "a BMP image",
    b"II*\x00": "a TIFF image",
    b"MM\x00*": "a TIFF image",
    b"PK\x03\x04": "a ZIP archive (or an office document)",
    b"\x1f\x8b": "gzip data",
    b"\x7fELF": "an ELF program or library",
    b"SQLite format 3\x00": "an SQLite database",
    codecs.BOM_UTF32_LE: "UTF-32 text",
    codecs.BOM_UTF32_BE: "UTF-32 text",
    codecs.BOM_UTF16_LE: "damaged UTF-16 text",
    codecs.BOM_UTF16_BE: "damaged UTF-16 text",
}


_SHOWN = {"a PNG": "image/png", "a JPEG": "image/jpeg", "a GIF": "image/gif", "a WebP": "image/webp"}


def image_type(head: bytes) -> str | None:
    """The media type of an image of the kinds that models are shown; None for all else, also where it has no size."""
    kind = kind_of(head)
    width, height = _pixels(head) or (0, 0)
    shown = (media_type for name, media_type in _SHOWN.items() if kind.startswith(name))
    return next(shown, None) if width and height else None


def is_pdf(head: bytes) -> bool:
    """Whether a PDF begins here; white space may stand before it."""
    return head[:1024].lstrip().startswith(b"%PDF-")


def kind_of(head: bytes) -> str:
    """What a file is, an image with its size in pixels; empty for what is not known."""
    if is_pdf(head):
        return "a PDF document"
    is_webp = head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    kind = "a WebP image" if is_webp else next((kind for magic, kind in _KINDS.items() if head.startswith(magic)), "")
    pixels = _pixels(head)
    return f"{kind} of {pixels[0]} x {pixels[1]} pixels" if pixels else kind


def _pixels(head: bytes) -> tuple[int, int] | None:
    """Width and height, for the kinds that say so at a fixed place, and JPEG."""
    if head.startswith(b"\x89PNG") and head[12:16] == b"IHDR" and len(head) >= 24:
        width, height = struct.unpack(">II", head[16:24])
        return width, height
    if head.startswith(b"GIF8") and len(head) >= 10:
        width, height = struct.unpack("<HH", head[6:10])
        return width, height
    if head.startswith(b"\xff\xd8\xff"):
        return _jpeg_pixels(head)
    return _webp_pixels(head) if head[8:12] == b"WEBP" and len(head) >= 30 else None


def _webp_pixels(head: bytes) -> tuple[int, int] | None:
    """From the first chunk: https://developers.google.com/speed/webp/docs/riff_container"""
    match head[12:16]:
        case b"VP8 ":
            width, height = struct.unpack("<HH", head[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    return None


def _jpeg_pixels(head: bytes) -> tuple[int, int] | None:
    """From the frame header, behind as many other segments as there are."""
    position = 2
    while position + 9 <= len(head) and head[position] == 0xFF:
        marker, length = head[position + 1], int.from_bytes(head[position + 2 : position + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[position + 5 : position + 9])
            return width, height
        position += 2 + length
    return None
