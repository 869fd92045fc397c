"""What a link's messages do, one by one (spec §5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import client_messages as client
from .host import Host

if TYPE_CHECKING:
    from .link import WindieLink
    from .users import User

_EXEMPT = (client.ToolResult, client.ToolBundleResult, client.StopQuery)


class Commands:
    """Those of one link, which has said who it is. A message's own refusals are replied to here; what the hub refuses
    is raised."""

    def __init__(self, link: WindieLink, user: User, host: Host) -> None:
        self._link = link
        self._user = user
        self._host = host

    @staticmethod
    def is_exempt(message: client.ClientMessage) -> bool:
        """Whether it is taken however much is being worked on: a turn may wait for it."""
        return isinstance(message.payload, _EXEMPT)

    async def handle(self, message: client.ClientMessage) -> None:
        """Do what it says. Raises ``HubError``."""

    def lost(self) -> None:
        """The link is gone: so are its tools, and the queries that have not begun."""
