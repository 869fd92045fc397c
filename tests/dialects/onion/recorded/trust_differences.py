"""Differences in who is let in."""

from __future__ import annotations

from collections.abc import Callable

from tests.dialects.leaves import ANYTHING

from .recording import Broken, Entry, Frame, Received, Sent
from .rewriting import Talk, answered_by, connected, each, error, instead, unbroken

UNSIGNED = {"type": "ERROR", "message": "unauthorized: signed request required"}


def unsigned_are_let_in(name: str, entries: list[Entry]) -> list[Entry]:
    """Under open nobody need sign. A key that is named and proves nothing counts for nothing."""
    if name not in ("auth_unsigned_open", "auth_malformed_auth", "client_py121_nokeys"):
        return entries
    made = _let_in(entries, lambda frame: frame == UNSIGNED)
    return answered_by(made, lambda sent: sent.kind == "INPUT", lambda sent, had: _echo(had, sent))


def unsigned_meet_the_gate(name: str, entries: list[Entry]) -> list[Entry]:
    """Under careful who does not sign is a stranger like any other."""
    if name not in ("careful_onboard", "careful_code_onboard"):
        return entries
    gate: Frame = {"type": "ONBOARD_REQUIRED", "identity": None, "methods": ["invite_code"]}
    return answered_by(entries, lambda sent: sent.message == {"type": "CONNECT"}, lambda sent, had: [gate])


def every_form_counts(name: str, entries: list[Entry]) -> list[Entry]:
    """What JavaScript signs is as good as what Python does."""
    if name != "auth_canonical_json":
        return entries
    return _let_in(entries, lambda frame: frame == error("unauthorized: invalid signature"))


def for_another(name: str, entries: list[Entry]) -> list[Entry]:
    """What was signed for another host is nothing here."""
    if name != "auth_recipient":
        return entries
    first = next(at for at, entry in enumerate(entries) if isinstance(entry, Received))
    return [*entries[:first], *instead(entries[first], error("unauthorized: wrong recipient")), *entries[first + 1 :]]


def ways_that_lead_somewhere(name: str, entries: list[Entry]) -> list[Entry]:
    """Nobody checks payments here: so that way in is not offered."""

    def change(frame: Frame) -> None:
        if frame.get("type") == "ONBOARD_REQUIRED":
            frame["methods"] = ["invite_code"]
            frame.pop("payment_amount", None)
            frame.pop("payment_address", None)

    return each(entries, change)


def claims_do_not_pay(name: str, entries: list[Entry]) -> list[Entry]:
    """A payment that is only claimed admits nobody, and breaks nothing."""
    if not name.endswith(("payment", "payment_in_connect")) or not name.startswith("careful"):
        return entries

    def gated(sent: Sent) -> bool:
        return sent.kind == "CONNECT" and isinstance(sent.message, dict) and "payment" in sent.message["payload"]

    def gate(sent: Sent, _: list[Entry]) -> list[Frame]:
        assert isinstance(sent.message, dict)
        return [{"type": "ONBOARD_REQUIRED", "identity": sent.message["from"], "methods": ["invite_code"]}]

    refused = answered_by(entries, lambda sent: sent.kind == "ONBOARD_SUBMIT", lambda sent, had: [error()])
    return [entry for entry in answered_by(refused, gated, gate) if not isinstance(entry, Broken)]


def blocked_stay_out(name: str, entries: list[Entry]) -> list[Entry]:
    """Whoever is blocked is told so, and no way in."""
    if not name.endswith("_admin"):
        return entries
    out = error(f"forbidden: {ANYTHING}")
    return _each_is(entries, out, lambda frame: _gated(frame) or frame == error("forbidden: Denied by fast rules"))


def nobody_for_another(name: str, entries: list[Entry]) -> list[Entry]:
    """Who shows a code is let in, and nobody else on the same socket."""
    if not name.endswith("submit_other_identity"):
        return entries
    refused = answered_by(entries, lambda sent: sent.kind == "ONBOARD_SUBMIT", lambda sent, had: [error()])
    out = error("authenticate first (send CONNECT)")
    return answered_by(refused, lambda sent: sent.kind == "INPUT", lambda sent, had: [out])


def signed_prompts(name: str, entries: list[Entry]) -> list[Entry]:
    """A prompt that is signed runs only as it was signed."""
    if name != "input_signed_prompt_mismatch":
        return entries
    return answered_by(entries, lambda sent: sent.kind == "INPUT", lambda sent, had: [error()])


def answers_to_all(name: str, entries: list[Entry]) -> list[Entry]:
    """What is no message has an answer, and leaves the socket as it was."""
    return unbroken(entries, _why)


def _why(sent: Sent) -> Frame:
    """What is no object comes back, as what is no JSON does."""
    no_object = isinstance(sent.message, str) and not sent.message.startswith("{")
    return {**error(), "received": sent.message} if no_object else error()


def unknown_types(name: str, entries: list[Entry]) -> list[Entry]:
    """So has a message that is unknown, or comes too early."""
    unknown = error("unknown message type: 'SEAL'")
    entries = answered_by(entries, lambda sent: sent.kind == "SEAL", lambda sent, had: [unknown])
    if name == "input_before_connect":
        return answered_by(entries, lambda sent: sent.kind == "ASK_USER_RESPONSE", lambda sent, had: [error()])
    if name in ("malformed_json", "malformed_nonobject"):
        return answered_by(entries, lambda sent: sent.message == "" or isinstance(sent.message, bytes), _nothing)
    return entries


def _nothing(sent: Sent, had: list[Entry]) -> list[Frame]:
    if sent.message != "":
        return [error()]
    return [{**error("Invalid JSON: Expecting value at line 1 col 1 (pos 0)"), "received": ""}]


def _each_is(entries: list[Entry], frame: Frame, wanted: Callable[[Frame], bool]) -> list[Entry]:
    """Another message in the place of each of these."""
    made: list[Entry] = []
    for entry in entries:
        made += instead(entry, frame) if isinstance(entry, Received) and wanted(entry.frame) else [entry]
    return made


def _gated(frame: Frame) -> bool:
    return bool(frame["type"] == "ONBOARD_REQUIRED")


def _let_in(entries: list[Entry], wanted: Callable[[Frame], bool]) -> list[Entry]:
    """Each of these is the answer to a CONNECT that makes a session."""
    made: list[Entry] = []
    for entry in entries:
        good = isinstance(entry, Received) and wanted(entry.frame)
        made += instead(entry, connected(f"<session new {len(made)}>")) if good else [entry]
    return made


def _echo(had: list[Entry], sent: Sent) -> list[Frame]:
    assert isinstance(sent.message, dict)
    return Talk(had, sent.conn).echo(sent.message["prompt"])
