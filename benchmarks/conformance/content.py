"""Content of every kind that the fixtures answer with: text, a picture, a sound, an embedded resource."""

from __future__ import annotations

import base64
import io
import struct
import wave
import zlib
from typing import Any

from mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)


def said(*content: str | ContentBlock, **facts: Any) -> CallToolResult:
    """Return an answer with the content, and with the facts as structured content if there are any."""
    blocks = [TextContent(type="text", text=block) if isinstance(block, str) else block for block in content]
    return CallToolResult(content=blocks, structured_content=facts or None)


def image() -> ImageContent:
    """Return a picture as content."""
    return ImageContent(type="image", data=base64.b64encode(png()).decode(), mime_type="image/png")


def audio() -> AudioContent:
    """Return a sound as content."""
    return AudioContent(type="audio", data=base64.b64encode(_wav()).decode(), mime_type="audio/wav")


def resource(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    """Return a resource as content."""
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def png() -> bytes:
    """Return a PNG of one red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _wav() -> bytes:
    """Return a WAV of one silent sample."""
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(8000)
        wav.writeframes(b"\x00\x00")
    return file.getvalue()
