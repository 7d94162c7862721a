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
    b"%PDF-": "a PDF document",
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
    """The media type of an image of the kinds that models are shown; None for all else."""
    kind = kind_of(head)
    return next((media_type for name, media_type in _SHOWN.items() if kind.startswith(name)), None)


def kind_of(head: bytes) -> str:
    """What a file is, an image with its size in pixels; empty for what is not known."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "a WebP image"
    kind = next((kind for magic, kind in _KINDS.items() if head.startswith(magic)), "")
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
