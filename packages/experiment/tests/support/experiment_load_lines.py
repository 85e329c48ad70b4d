"""Requests over lines that stay open: as little work as possible beside a server that is measured.

A general client takes a quarter of a core for 64 participants, which the server would lack.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

LOST = (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError)
"""What it is when no reply came."""


@dataclass(frozen=True)
class Reply:
    """A reply that came whole."""

    status: int
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


class Lines:
    """The lines of one participant to a server: as many as there are requests at a time."""

    def __init__(self, base: str, patience_s: float) -> None:
        parts = urlsplit(base)
        assert parts.hostname == "127.0.0.1" and parts.port is not None
        self._host, self._port, self._patience = parts.hostname, parts.port, patience_s
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def request(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
        """Return the reply; one of LOST is raised if none came, or not all of it."""
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}:{self._port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        sent = "\r\n".join([*lines, "", ""]).encode() + content
        async with asyncio.timeout(self._patience):
            reader, writer = await self._line()
            try:
                writer.write(sent)
                reply = await _read(reader)
            except BaseException:
                writer.close()
                raise
        self._idle.append((reader, writer))
        return reply

    async def _line(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host, self._port)

    def close(self) -> None:
        """Hang up."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()


async def _read(reader: asyncio.StreamReader) -> Reply:
    first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    named = dict(line.lower().split(": ", 1) for line in rest if line)
    content = await reader.readexactly(int(named["content-length"]))
    return Reply(int(first.split(" ", 2)[1]), content)
