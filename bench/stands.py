"""Servers with one terminal on them, all watched in the same way: ours, the ceilings, the peers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .ours import Dragoman
from .peers.install import Peers
from .processes import Process, module
from .viewers import CoopViewer, HubViewer, TerminadoViewer, Viewer, wait_ready
from .wire import Links


class Stand:
    """A running server and a way to open one more link to its terminal."""

    def __init__(self, name: str, process: Process, open_link: Callable[[bool], Viewer]) -> None:
        """``open_link`` opens one that checks what it gets, or one that only counts."""
        self.name = name
        self.process = process
        self.open = open_link
        self.viewers: list[Viewer] = []
        self.links = Links()

    def watch(self, count: int) -> None:
        """Let exactly ``count`` links watch; the first of them checks what it gets."""
        self.leave()
        self.viewers = [self.open(number == 0) for number in range(count)]
        self.links = Links(viewer.link for viewer in self.viewers)
        self.links.settle(0.1)

    def leave(self) -> None:
        self.links.close()
        self.viewers, self.links = [], Links()


def ours(server: Dragoman, command: list[str], *, dialect: str, model: bool) -> Stand:
    """A new session of our server, watched over ``hub`` or over ``coop``."""
    session = server.terminal(command, model=model)
    first = HubViewer(server.port, session, offset=0)
    links = Links([first.link])
    wait_ready(first, links)
    links.close()
    kind = HubViewer if dialect == "hub" else CoopViewer
    return Stand(f"ours {dialect}", server.process, lambda checks: kind(server.port, session, checks=checks))


def bare(process: Process, name: str) -> Stand:
    """A server whose links read raw frames from ``/ws``; the first of them starts the program."""
    port = process.line()["port"]
    kind = TerminadoViewer if name == "terminado" else Viewer
    first = kind(port, "/ws")
    links = Links([first.link])
    wait_ready(first, links)
    links.close()
    return Stand(name, process, lambda checks: kind(port, "/ws", checks=checks))


def bare_command(how: str, command: list[str]) -> list[str]:
    return module("bare.terminal", how, "--", *command)


def peer_command(peers: Peers, name: str, command: list[str]) -> list[str]:
    script = Path(__file__).parent / "peers" / f"{name}_server.py"
    return [str(peers.python), str(script), *command]
