"""What a link's messages do, one by one (spec §5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from dragoman.hub.errors import HubError

from . import client_messages as client
from . import preferences
from .compacting import compact
from .host import Host
from .link_tools import LinkTools
from .queries import log_refusal, query
from .rehydrating import rehydrate
from .stopping import stop_query
from .tool_results import tool_bundle_result, tool_result

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
        self._tools = LinkTools(link, max(host.settings.followed, host.settings.tasks + 1))
        self._taking: set[str] = set()
        """The calls and bundles whose results are being taken."""

    @staticmethod
    def is_exempt(message: client.ClientMessage) -> bool:
        """Whether it is taken however much is being worked on: a turn may wait for it."""
        return isinstance(message.payload, _EXEMPT)

    async def handle(self, message: client.ClientMessage) -> None:
        """Do what it says. Raises ``HubError``."""
        ref = getattr(message.payload, "conversation_ref", None)
        if ref is not None:
            name = self._host.conversations.name(self._user.caller, ref)
            if name != ref:
                payload = msgspec.structs.replace(message.payload, conversation_ref=name)
                message = msgspec.structs.replace(message, payload=payload)
        await _HANDLERS[type(message.payload)](self, message)

    def lost(self) -> None:
        """The link is gone: so are its tools, and the queries that have not begun."""
        for place in self._user.lanes.waiting():
            if place.link is self._link:
                place.give_up()
        self._tools.retract()

    # By type

    async def _query(self, message: client.ClientMessage) -> None:
        try:
            await query(self._link, self._user, self._host, message, self._tools)
        except HubError as problem:
            log_refusal(message, problem)
            raise

    async def _stop_query(self, message: client.ClientMessage) -> None:
        await stop_query(self._link, self._user, self._host, message)

    async def _rehydrate(self, message: client.ClientMessage) -> None:
        await rehydrate(self._link, self._user, self._host, message)

    async def _compact(self, message: client.ClientMessage) -> None:
        await compact(self._link, self._user, self._host, message)

    async def _load_settings(self, message: client.ClientMessage) -> None:
        await preferences.load_settings(self._link, self._host, message)

    async def _update_settings(self, message: client.ClientMessage) -> None:
        await preferences.update_settings(self._link, self._host, message)

    async def _list_models(self, message: client.ClientMessage) -> None:
        await preferences.list_models(self._link, self._host, message)

    async def _wakeword_detected(self, message: client.ClientMessage) -> None:
        await preferences.wakeword_detected(self._link, self._host, message)

    async def _tool_result(self, message: client.ClientMessage) -> None:
        await tool_result(self._link, self._user, self._host, message, self._taking)

    async def _tool_bundle_result(self, message: client.ClientMessage) -> None:
        await tool_bundle_result(self._link, self._user, self._host, message, self._taking)


_HANDLERS: dict[type[client.Payload], Callable[[Commands, client.ClientMessage], Awaitable[None]]] = {
    client.Query: Commands._query,
    client.StopQuery: Commands._stop_query,
    client.RehydrateConversation: Commands._rehydrate,
    client.CompactHistory: Commands._compact,
    client.LoadSettings: Commands._load_settings,
    client.UpdateSettings: Commands._update_settings,
    client.ListModels: Commands._list_models,
    client.WakewordDetected: Commands._wakeword_detected,
    client.ToolResult: Commands._tool_result,
    client.ToolBundleResult: Commands._tool_bundle_result,
}
