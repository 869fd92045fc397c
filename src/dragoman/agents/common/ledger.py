"""What is known already: several sources tell of the same thing, and it is recorded once.

Tool calls, messages and usage have ids that sources share. Where they do not, words decide. Each source tells a thing
once, so the second that a source says is a second thing, and the first that another source says may be the same.
The conversation is cut into stretches, each begun by a prompt; a source that has come to a stretch no longer means
what lies in those before. So a hook's last words and the log's are one message, and "Done." after each of two prompts
is two.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from dragoman.hub.events import (
    AnyFact,
    Compacted,
    MessageAdded,
    SubagentEnded,
    SubagentStarted,
    ToolCalled,
    ToolEnded,
    UsageReported,
)

from .calls import Calls, source_of

MAX_EXPECTED = 32
"""Prompts of ours that are waited for: older ones were lost on their way."""

MAX_MESSAGES = 256
"""Messages that another source may still tell of."""

MAX_IDS = 4096
"""Ids of messages, usage reports and sub-agents that are remembered."""

V = TypeVar("V")


class _Said:
    """One message, and the sources that have told of it."""

    def __init__(self, role: str, words: str, stretch: int) -> None:
        self.role = role
        self.words = words
        self.stretch = stretch
        self.told_by: set[str] = set()


class Ledger:
    """Of one run of an agent. ``ids`` names messages and calls that came without a name."""

    def __init__(self, ids: Callable[[], str] = lambda: str(uuid.uuid4())) -> None:
        self._ids = ids
        self._expected: deque[str] = deque(maxlen=MAX_EXPECTED)
        self._said: deque[_Said] = deque(maxlen=MAX_MESSAGES)
        self._stretch = 0
        self._stretch_of: dict[str, int] = {}
        self._messages: dict[str, bool] = {}
        self._usage: dict[str, UsageReported] = {}
        self._subagents: dict[str, bool] = {}
        self._compaction: tuple[str, set[tuple[str, str]]] | None = None
        self._calls = Calls(ids)

    def expect_prompt(self, text: str) -> None:
        """This prompt goes to the agent through us and is recorded already: it is no news when it comes back."""
        self._expected.append(_words(text))

    def came_back(self, text: str) -> bool:
        """Whether this prompt, which the agent took, is one of ours that had not come back yet."""
        words = _words(text)
        if not words or words not in self._expected:
            return False
        while self._expected.popleft() != words:
            pass  # it was overtaken: it will not come any more
        self._begin_stretch(words)
        return True

    def admit(self, facts: Iterable[AnyFact]) -> list[AnyFact]:
        """Those that are news, in order, with their names, and with the begin that an end lacks put before it."""
        return [news for fact in facts for news in self._news(fact)]

    def _news(self, fact: AnyFact) -> Iterator[AnyFact]:
        match fact:
            case ToolCalled():
                yield from self._calls.called(fact)
            case ToolEnded():
                yield from self._calls.ended(fact)
            case MessageAdded():
                yield from self._message(fact)
            case UsageReported():
                yield from self._used(fact)
            case SubagentStarted() | SubagentEnded():
                yield from self._subagent(fact)
            case Compacted():
                yield from self._compacted(fact)
            case _:
                yield fact

    # Messages

    def _message(self, fact: MessageAdded) -> Iterator[AnyFact]:
        words = _words(fact.text)
        if not words or fact.message in self._messages:
            return
        source = source_of(fact)
        if fact.message:
            _remember(self._messages, fact.message, True, MAX_IDS)
        if fact.role == "user":
            self.came_back(fact.text)
        # a source's named and unnamed messages are two accounts: of each block as it is shown, and of the last words
        account = f"{source}#" if fact.message else source
        known = self._find(fact.role, words, source, account)
        if known is None:
            user = fact.role == "user"
            known = self._begin_stretch(words) if user else self._say(fact.role, words, source)
            yield fact if fact.message else msgspec.structs.replace(fact, message=self._ids())
        known.told_by.add(account)
        if fact.role == "user":
            self._stretch_of[source] = known.stretch

    def _find(self, role: str, words: str, source: str, account: str) -> _Said | None:
        if role == "reasoning":
            return None  # only one source has it
        # a source that has told of no prompt yet: its first may be any, its other words belong to what goes on now
        since = self._stretch_of.get(source, 0 if role == "user" else self._stretch)
        for said in self._said:
            if said.stretch >= since and (said.role, said.words) == (role, words) and account not in said.told_by:
                return said
        return None

    def _begin_stretch(self, words: str) -> _Said:
        self._stretch += 1
        said = _Said("user", words, self._stretch)
        self._said.append(said)
        return said

    def _say(self, role: str, words: str, source: str) -> _Said:
        said = _Said(role, words, self._stretch_of.get(source, self._stretch))
        self._said.append(said)
        return said

    # The rest

    def _used(self, fact: UsageReported) -> Iterator[AnyFact]:
        """A report that says something else takes the place of the one before."""
        bare = msgspec.structs.replace(fact, origin=None)
        if self._usage.get(fact.message) != bare:
            _remember(self._usage, fact.message, bare, MAX_IDS)
            yield fact

    def _subagent(self, fact: SubagentStarted | SubagentEnded) -> Iterator[AnyFact]:
        """Which run: one that is done may be started again. Of one without a name nobody can say."""
        if not fact.subagent:
            yield msgspec.structs.replace(fact, subagent=self._ids())
            return
        running = self._subagents.get(fact.subagent)
        begins = isinstance(fact, SubagentStarted)
        if running is begins:
            return
        if running is None and not begins:
            yield SubagentStarted(subagent=fact.subagent, turn=fact.turn, origin=fact.origin)
        _remember(self._subagents, fact.subagent, begins, MAX_IDS)
        yield fact

    def _compacted(self, fact: Compacted) -> Iterator[AnyFact]:
        """Begin and end belong together; the log tells the end again."""
        seen = (source_of(fact), fact.phase)
        known = self._compaction
        over = known is not None and any(phase != "started" for _, phase in known[1])
        if known is None or seen in known[1] or (over and fact.phase == "started"):
            known = self._compaction = (fact.compaction or self._ids(), set())
            over = False
        told = over or any(phase == fact.phase for _, phase in known[1])
        known[1].add(seen)
        if not told:
            yield msgspec.structs.replace(fact, compaction=known[0])


def _words(text: str) -> str:
    """What is said, however it is broken into lines."""
    return " ".join(text.split())


def _remember(known: dict[str, V], key: str, value: V, limit: int) -> None:
    known.pop(key, None)
    known[key] = value
    if len(known) > limit:
        del known[next(iter(known))]
