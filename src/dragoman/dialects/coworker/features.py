"""What a link may ask for beyond the seed: coming back, and hearing that a prompt is over."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from . import messages as wire

RESUME, VOID = "resume", "void"


class Features(msgspec.Struct, frozen=True):
    """``resume``: messages carry cursors, the session outlives its link for a while, repeated prompts are known.

    ``void``: ``prompt_void`` is sent. ``joined``: the link joined a session that was there.
    """

    resume: bool = False
    void: bool = False
    joined: bool = False

    @classmethod
    def of(cls, names: Iterable[str], *, joined: bool = False) -> Features:
        """Those that are known by name; others are asked for in vain."""
        wanted = {name.strip() for name in names}
        return cls(resume=RESUME in wanted, void=VOID in wanted, joined=joined)

    @property
    def names(self) -> tuple[str, ...]:
        """Those that the link has."""
        return tuple(name for name, has in ((RESUME, self.resume), (VOID, self.void)) if has)

    @property
    def knows_repeats(self) -> bool:
        """Whether a prompt with a client message id that was used before is no new one."""
        return self.resume or self.joined

    def wants(self, message: wire.ServerMessage) -> bool:
        """Whether the link is told this."""
        return self.void or not isinstance(message, wire.PromptVoid)

    def also(self, names: Iterable[str]) -> Features:
        """These and the named ones."""
        more = Features.of(names)
        return Features(self.resume or more.resume, self.void or more.void, self.joined)
