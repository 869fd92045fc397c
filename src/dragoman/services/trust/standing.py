"""Where an identity stands: the settings' word first, then the lists (onion, spec §5)."""

from __future__ import annotations

import asyncio
from typing import Literal

from .entries import plain_identity
from .lists import Lists

Level = Literal["blocked", "whitelist", "contact", "stranger"]

_BY_SETTINGS = "The server's settings name this one. Edit them."
_BY_PATTERN = "A pattern in a list names this one. Edit the list."


class Standing:
    """What is known of identities. Reading looks at files, for microseconds; changing writes them, in a thread."""

    def __init__(self, lists: Lists, *, host: str, whitelist: tuple[str, ...], blacklist: tuple[str, ...]) -> None:
        self._lists = lists
        self._host = host
        self.whitelist = frozenset(map(plain_identity, whitelist))
        self.blacklist = frozenset(map(plain_identity, blacklist))

    def is_host(self, identity: str) -> bool:
        """Whether this is the host's own key: the owner's."""
        return plain_identity(identity) == self._host

    def is_admin(self, identity: str) -> bool:
        """Whether this is the owner, or an administrator: no pattern makes one. Raises ``Refused``."""
        return self.is_host(identity) or self._lists.lists("admins", identity)

    def level(self, identity: str) -> Level:
        """The first that holds, of blocked, whitelist, contact, stranger. Raises ``Refused`` (*misconfigured*)."""
        if self.is_blocked(identity):
            return "blocked"
        if self.said(identity) == "whitelist" or self._lists.names("whitelist", identity):
            return "whitelist"
        return "contact" if self._lists.names("contacts", identity) else "stranger"

    def is_blocked(self, identity: str) -> bool:
        """Whether this one is to be let in no more. The owner never is, nor whom the settings let in.

        Raises ``Refused``.
        """
        if (said := self.said(identity)) is not None:
            return said == "blocked"
        return not self.is_host(identity) and self._lists.names("blocklist", identity)

    def said(self, identity: str) -> Level | None:
        """What the settings say; they stand above all lists."""
        plain = plain_identity(identity)
        if plain in self.blacklist:
            return "blocked"
        return "whitelist" if plain in self.whitelist else None

    async def become_contact(self, identity: str) -> Level:
        """A stranger is a contact from now on; whoever is more stays that. The level then. Raises ``Refused``."""
        if self.level(identity) == "stranger":
            await asyncio.to_thread(self._lists.add, "contacts", identity)
        return self.level(identity)

    async def promote(self, identity: str) -> str:
        """One level up; what to say of it. Raises ``Unchanged``, ``Refused``."""
        level = self._changeable(identity)
        if level == "whitelist":
            raise Unchanged("Already at highest level")
        up: Literal["contact", "whitelist"] = "contact" if level == "stranger" else "whitelist"
        await asyncio.to_thread(self._lists.add, "contacts" if up == "contact" else "whitelist", identity)
        return f"promoted to {up}."

    async def demote(self, identity: str) -> str:
        """One level down; what to say of it. Raises ``Unchanged``, ``Refused``."""
        level = self._changeable(identity)
        if level == "stranger":
            raise Unchanged("Already at lowest level")
        down: Level = "contact" if level == "whitelist" else "stranger"
        await asyncio.to_thread(self._demote, identity, down)
        if self.level(identity) == level:
            raise Unchanged(_BY_PATTERN)
        return f"demoted to {down}."

    async def block(self, identity: str) -> None:
        """Let this one in no more. Raises ``Unchanged``, ``Refused``."""
        if self.is_host(identity):
            raise Unchanged("The owner cannot be blocked.")
        if self.said(identity) == "whitelist":
            raise Unchanged(_BY_SETTINGS)
        await asyncio.to_thread(self._lists.add, "blocklist", identity)

    async def unblock(self, identity: str) -> None:
        """Forget that this one was blocked. Raises ``Unchanged``, ``Refused``."""
        await asyncio.to_thread(self._lists.remove, "blocklist", identity)
        if self.level(identity) == "blocked":
            raise Unchanged(_BY_SETTINGS if self.said(identity) else _BY_PATTERN)

    async def add_admin(self, identity: str) -> bool:
        """Make an administrator; False for one who is. Raises ``Refused``."""
        return not self.is_host(identity) and await asyncio.to_thread(self._lists.add, "admins", identity)

    async def remove_admin(self, identity: str) -> bool:
        """Unmake one; False for one who is none. Raises ``Refused``."""
        return await asyncio.to_thread(self._lists.remove, "admins", identity)

    def _changeable(self, identity: str) -> Level:
        level = self.level(identity)
        if self.said(identity) is not None:
            raise Unchanged(_BY_SETTINGS)
        if level == "blocked":
            raise Unchanged("Client is blocked. Unblock first.")
        return level

    def _demote(self, identity: str, down: Level) -> None:
        # First what is less: whoever looks in between finds too little, never too much.
        self._lists.remove("whitelist", identity)
        if down == "contact":
            self._lists.add("contacts", identity)
        else:
            self._lists.remove("contacts", identity)


class Unchanged(Exception):
    """Nothing was to change, or nothing could be. ``str()`` is what an administrator is told."""
