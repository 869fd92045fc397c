"""``dragoman`` with a web of its own: every public host is the server at a port of this machine.

    python -m tests.faults.loopback_web PORT serve …

Only the two functions that ``UrlGuard`` reaches the network by are others; what it lets by it judges as ever.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Sequence
from functools import partial

from dragoman.agents.native.public_addresses import IPAddress
from dragoman.agents.native.tools import web_fetch
from dragoman.agents.native.url_guard import Streams, UrlGuard
from dragoman.cli.main import main

PUBLIC = "93.184.215.14"


async def _resolve(_host: str, _port: int) -> Sequence[str]:
    return [PUBLIC]


async def _dial(at: int, _address: IPAddress, _port: int, tls: ssl.SSLContext | None, name: str | None) -> Streams:
    return await asyncio.open_connection("127.0.0.1", at, ssl=tls, server_hostname=name)


if __name__ == "__main__":
    port = int(sys.argv.pop(1))
    web_fetch.UrlGuard = partial(UrlGuard, resolver=_resolve, dial=partial(_dial, port))  # type: ignore[misc,assignment]
    main()
