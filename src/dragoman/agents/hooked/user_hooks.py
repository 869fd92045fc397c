"""Where the hooks post that ``dragoman hooks install`` has put into the person's agents: one unix socket, 0600.

A hook sends one line: its post as JSON (see ``post_script``). It is sent empty lines while it waits, and one line at
the end, which is what it is to print; then the link is closed. Only a permission's hook waits for an answer, and it is
given up as soon as its hook is gone, so a link must be kept open for it both ways.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dragoman.agents.common.hook_links import POST_LIMIT, HookLinks, answer, rest_of_post, short_path
from dragoman.agents.common.hooks import hook_kind
from dragoman.agents.common.lenient_json import decode_lenient
from dragoman.hub.errors import NOT_JSON, HubError
from dragoman.hub.events import Json
from dragoman.hub.hook_payload import check_hook_payload
from dragoman.hub.limits import HubLimits
from dragoman.hub.ports import HookIntake, HookPost

from .settings import HookedSettings

log = logging.getLogger("dragoman.hooked")

BEAT = 2.0
"""Seconds between two signs of life to a hook that waits."""

CHECK_EVENT = "DragomanCheck"
"""The ``hook_event_name`` of a payload that ``dragoman hooks doctor`` sends through an installed hook."""

CLOSE_BUDGET = 0.3
"""Seconds for posts that are being taken when the server stops."""

_WAITS = "permissionrequest"


class Posted(msgspec.Struct, frozen=True):
    """One line, as the script sends it. ``pid`` is its own: it tells whether we see the same processes."""

    agent: str | None = None
    event: str | None = None
    at: int | None = None
    session: str | None = None
    secret: str | None = None
    pid: int | None = None
    parents: tuple[tuple[int, int], ...] = ()
    data: Json = None


_decoder = msgspec.json.Decoder(Posted)


class SocketTaken(OSError):
    """Another server listens there."""


class UserHooks:
    """See the module. ``limits.hook_bytes`` and ``hook_values`` bound a post, ``settings.links`` how many are heard at
    once. Open it once the intake is open, close it before that is closed."""

    def __init__(self, intake: HookIntake, path: Path, limits: HubLimits, settings: HookedSettings) -> None:
        """``path`` is the socket's (``HookedSettings.socket_path``)."""
        self._intake = intake
        self._path = path.absolute()
        self._limits = limits
        self._links = HookLinks(self._serve, links=settings.links, log=log)
        self._asks = max(1, settings.links // 2)
        self._asking = 0
        self._made: tuple[int, int] | None = None

    @property
    def listening(self) -> bool:
        """Whether hooks find us."""
        return self._made is not None

    async def open(self) -> None:
        """Listen. Where that cannot be it is logged, and the server goes on without: agents elsewhere go unseen."""
        try:
            self._listen()
        except SocketTaken as taken:
            log.error("installed hooks go to another server: %s", taken)  # noqa: TRY400  nothing of ours failed
        except OSError as problem:
            why = problem.strerror or problem
            log.error("installed hooks are not heard: %s cannot be listened at: %s", self._path, why)  # noqa: TRY400

    async def close(self) -> None:
        """Leave every hook to itself: it prints nothing. The socket is removed unless it is another server's by now."""
        if self._made is not None:
            with contextlib.suppress(OSError):
                if _identity(os.lstat(self._path)) == self._made:
                    self._path.unlink()
            self._made = None
        await self._links.close(CLOSE_BUDGET)

    def _listen(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone_in(self._path.parent) as folder:
            _clear(self._path, short := short_path(self._path, folder))
            self._links.listen(short)
            self._made = _identity(os.lstat(self._path))

    async def _serve(self, link: socket.socket) -> None:
        peer = _peer(link)
        if peer is not None and peer[1] != os.geteuid():
            self._links.said.warn("peer", "a hook of another user came to the socket and is not heard")
            return
        try:
            async with asyncio.timeout(POST_LIMIT):
                line = await rest_of_post(link, b"", self._limits)
            if line:  # one that says nothing has only looked whether somebody is here
                check_hook_payload(line, self._limits)
                await self._answer(link, decode_lenient(line, _decoder), peer)
        except (*NOT_JSON, TimeoutError, OSError) as problem:
            self._links.said.warn("unreadable", f"a hook's post cannot be read: {problem}")
        except HubError as problem:
            self._links.said.warn(problem.code, f"a hook is not taken: {problem}")
        except Exception:
            log.exception("a hook is not taken")

    async def _answer(self, link: socket.socket, posted: Posted, peer: tuple[int, int] | None) -> None:
        payload = posted.data
        if not isinstance(payload, dict):
            self._links.said.warn("unreadable", "a hook's post cannot be read: its payload is no JSON object")
            return
        if payload.get("hook_event_name") == CHECK_EVENT:
            await answer(link, f"{CHECK_EVENT} {payload.get('check')}\n".encode("utf-8", "replace"))
            return
        post = _post(posted, payload, same_processes=peer is None or peer[0] == posted.pid)
        said = ""
        if _waits(post) and self._asking < self._asks:
            said = await self._ask(link, post)
        else:
            await self._intake.take(post)
        await answer(link, " ".join(said.splitlines()).encode("utf-8", "replace") + b"\n")

    async def _ask(self, link: socket.socket, post: HookPost) -> str:
        """What its hook is to print. Given up when the hook goes."""
        loop = asyncio.get_running_loop()
        asked = loop.create_task(self._intake.ask(post), name="hooks:ask")
        gone = loop.create_task(_gone(link), name="hooks:gone")
        self._asking += 1
        try:
            while not asked.done() and not gone.done():
                await answer(link, b"\n")
                await asyncio.wait((asked, gone), timeout=BEAT, return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else ""
        finally:
            self._asking -= 1
            asked.cancel()
            gone.cancel()
            await asyncio.gather(asked, gone, return_exceptions=True)


async def _gone(link: socket.socket) -> None:
    """Returns when its other end is closed, whatever it says until then."""
    with contextlib.suppress(OSError):
        while await asyncio.get_running_loop().sock_recv(link, 4096):
            continue


def _waits(post: HookPost) -> bool:
    named = post.payload.get("hook_event_name")
    return hook_kind(post.event or (named if isinstance(named, str) else "")) == _WAITS


def _post(posted: Posted, payload: dict[str, Json], *, same_processes: bool) -> HookPost:
    session = (posted.session or "").partition("/")[0]  # what a session runs may have a number of its own behind it
    return HookPost(
        payload=payload,
        channel="socket",
        agent=posted.agent or None,
        event=posted.event or None,
        at=posted.at,
        session=session or None,
        secret=posted.secret or None,
        parents=posted.parents if same_processes else (),
    )


def _peer(link: socket.socket) -> tuple[int, int] | None:
    """Pid and user of who connected, by the system's word; None where it does not say."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    pid, uid, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return pid, uid


@contextlib.contextmanager
def _alone_in(path: Path) -> Iterator[int]:
    """The folder's descriptor, while no other server looks whether the socket in it is free. Raises ``OSError``."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SocketTaken(errno.EADDRINUSE, f"one begins in {path} at this moment") from None
        yield folder
    finally:
        os.close(folder)


def _clear(path: Path, short: str) -> None:
    """Remove the socket of a server that is no more. Raises ``SocketTaken``; ``OSError`` for what is none of ours."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise OSError(errno.EEXIST, "something else than a socket lies there")
    if found.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "it is another user's")
    with socket.socket(socket.AF_UNIX) as link:
        link.setblocking(False)
        try:
            link.connect(short)
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass  # nobody is let in at this moment: somebody is there
    raise SocketTaken(errno.EADDRINUSE, f"{path} is another server's (hooked.socket names another place)")


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
