"""What our server says otherwise than the original's, and why: everything else has to be the same.

Each difference makes of a recorded conversation the one that ours has to have, exactly; so one that is no longer true
fails as much as one that was never named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import backup_differences as backups
from . import list_differences as lists
from . import turn_differences as turns
from .recording import Entry

Rule = Callable[[str, list[Entry]], list[Entry]]
"""From a scenario's name and its conversation, in canonical form, the conversation as it is to be."""


@dataclass(frozen=True)
class Difference:
    """One of them. ``cites`` is where it is decided: a section of the seed or the spec, the number of a defect (#), or
    a page of ours. ``replaces`` are the sorts of messages that it may put others in the place of; it loses no other.
    """

    name: str
    cites: str
    rule: Rule
    replaces: frozenset[str] = frozenset()


DIFFERENCES: tuple[Difference, ...] = (
    Difference("the request stays here", "spec 5, #39", turns.without_request),
    Difference("no stack is told", "spec 5; invariant 10", turns.without_stacks),
    Difference("no headers, no usage twice", "invariant 10; the raw part has the usage", turns.without_transport),
    Difference("a provider's failure fails the turn", "seed: Error Reference; #26, #35", turns.failing, turns.FAILED),
    Difference("errors in our words", "spec 4.2, 8.1, 9: texts of another runtime", turns.in_our_words),
    Difference("a file ends with its last line", "spec 6: read", turns.without_phantom_line),
    Difference("general sub-agents work", "#37", turns.with_general_agent, turns.NO_AGENT),
    Difference("cancel ends the command", "#16", turns.command_ended, turns.ENDED),
    Difference("MCP servers are reached together", "docs/mcp.md", turns.servers_together),
    Difference("a late answer is told at once", "spec 3: ask_response", turns.late_answer_first),
    Difference("a restore brings back what was saved", "spec 9.1, #34", backups.restored, backups.FAILED),
    Difference("no checkpoint has another's number", "spec 9.1, #34; docs/checkpoints.md", backups.numbered),
    Difference("checkpoints stay in their place", "docs/checkpoints.md: what is saved", backups.in_place),
    Difference("skills in order, and no templates", "docs/skills.md: differences", lists.skills),
    Difference("what the person configured", "docs/configuration.md: differences", lists.configured),
)


def expected(name: str, recorded: Sequence[Entry]) -> list[Entry]:
    """The conversation that our server has to have."""
    entries = list(recorded)
    for difference in DIFFERENCES:
        entries = difference.rule(name, entries)
    return entries
