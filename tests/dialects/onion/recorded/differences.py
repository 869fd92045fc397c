"""What our server says otherwise than the original's, and why: everything else has to be the same.

Each difference makes of a recorded conversation the one that ours has to have, exactly; so one that is no longer true
fails as much as one that was never named.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from . import session_differences as sessions
from . import shape_differences as shapes
from . import trust_differences as trust
from . import turn_differences as turns
from .canonical import canonical
from .recording import Entry, load

Rule = Callable[[str, list[Entry]], list[Entry]]
"""From a scenario's name and its conversation, in canonical form, the conversation as it is to be."""


@dataclass(frozen=True)
class Difference:
    """One of them. ``cites`` is where it is decided: a section of the seed or the spec, or the number of a defect."""

    name: str
    cites: str
    rule: Rule


DIFFERENCES: tuple[Difference, ...] = (
    Difference("the whole session is not told after each event", "tolerance session_sync", shapes.without_syncs),
    Difference("plugins of the original's agent say nothing", "spec 6: optional plugins", shapes.without_plugins),
    Difference("a session has no fields of theirs", "seed: OUTPUT; spec 7", shapes.without_plugin_fields),
    Difference("a trace does not repeat its session", "spec 7: opaque", shapes.trace_without_sessions),
    Difference("arguments are the model's", "spec 15 #37", shapes.own_arguments),
    Difference("a failed call says why, and no more", "spec 6: tool_result", shapes.plain_errors),
    Difference("calls stand as they were made", "spec 7: session object", shapes.calls_as_they_come),
    Difference("a conversation is told whole", "seed: Data Ownership; spec 15 #4", shapes.whole_conversations),
    Difference("who changed a mode is said", "spec 6: mode_changed", shapes.who_changed_the_mode),
    Difference("an interjection is not framed", "seed: INPUT; spec 6: run semantics", shapes.plain_interjections),
    Difference("prompts are told as they were typed", "spec 15 #30; spec 7: chat_items", turns.typed),
    Difference("everybody hears of a failed turn", "spec 15 #2", turns.error_for_all),
    Difference("a failed model call ends", "spec 6: llm_result, which pairs its llm_call", turns.failed_calls_end),
    Difference("a session goes on after an error", "spec 15 #1, #39", turns.goes_on),
    Difference("one copy for each socket", "spec 15 #34", turns.one_forwarder),
    Difference("only its answer answers a question", "spec 9; spec 15 #35", turns.only_its_answer),
    Difference("a mode holds at once, and stays", "spec 15 #5; spec 9", turns.mode_at_once),
    Difference("a permission lasts for the session", "spec 9; spec 15 #5", turns.permitted_for_the_session),
    Difference("INTERRUPT stops what runs", "spec 14.10", turns.stopped),
    Difference("unsigned callers are let in when open", "seed: Trust Level", trust.unsigned_are_let_in),
    Difference("unsigned callers meet the gate when careful", "seed: Trust Gate", trust.unsigned_meet_the_gate),
    Difference("three canonical forms", "spec 4; spec 15 #15", trust.every_form_counts),
    Difference("a CONNECT is for whom it names", "seed: payload.to; spec 4", trust.for_another),
    Difference("only ways in that can be gone", "spec 15 #20", trust.ways_that_lead_somewhere),
    Difference("a claim is no payment", "spec 15 #8, #9", trust.claims_do_not_pay),
    Difference("who is blocked is told so", "spec 5; spec 15 #10", trust.blocked_stay_out),
    Difference("nobody is let in for another", "spec 15 #36", trust.nobody_for_another),
    Difference("a signed prompt runs as signed", "spec 15 #14", trust.signed_prompts),
    Difference("every frame is answered", "spec 15 #17", trust.answers_to_all),
    Difference("unknown messages are answered", "spec 15 #16", trust.unknown_types),
    Difference("a session is there since CONNECT", "seed: Session Lifecycle; spec 2.2", sessions.there_since_connect),
    Difference("a later turn wins", "spec 15 #4", sessions.later_turns_win),
    Difference("turns that a client brings count", "seed: Session Not Found; spec 7: Merge", sessions.turns_that_were),
    Difference("what runs is told by its events", "seed: CONNECTED; spec 7", sessions.told_by_its_events),
    Difference("halves that arrived are not said again", "spec 7: Replay", sessions.second_halves),
    Difference("a session is its owner's", "spec 15 #6", sessions.of_another),
    Difference("files are measured decoded", "seed: File Upload Protocol; spec 15 #39", sessions.limits_of_what_comes),
    Difference("what is no file is refused", "spec 8", sessions.files_that_are_none),
    Difference("every file has a name", "spec 8", sessions.names_of_files),
    Difference("files of interjections are kept", "spec 15 #3; spec 6", sessions.files_of_interjections),
    Difference("unsigned requests, too", "seed: Trust Level; spec 14.11", sessions.unsigned_requests),
    Difference("no socket, not found", "spec 3: refused before it is accepted", sessions.other_paths),
    Difference("a session says its mode", "spec 7; spec 14.2", shapes.with_mode),
    Difference("HTTP as it is here", "invariant 11", sessions.http_as_it_is_here),
)


@functools.cache
def steps(name: str) -> tuple[tuple[Entry, ...], ...]:
    """The conversation as recorded, and as it is to be after each of the differences."""
    entries = canonical(load(name).entries)
    made = [tuple(entries)]
    for difference in DIFFERENCES:
        entries = difference.rule(name, entries)
        made.append(tuple(entries))
    return tuple(made)


def expected(name: str) -> list[Entry]:
    """The conversation that our server has to have."""
    return canonical(steps(name)[-1])
