"""A thousand dialogs that three answer at once.

Whatever comes first, a dialog has one effect, and what the server tells of the decision is what happened.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.fake_agent.races import Raced, check, race_all, report

Json = dict[str, Any]

AGENTS, DIALOGS = 10, 100


@pytest.mark.slow
async def test_every_dialog_has_one_effect_and_it_is_the_one_that_was_told(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    began = time.monotonic()
    all_raced = await race_all(tmp_path_factory.mktemp("races"), AGENTS, DIALOGS)
    print(report(all_raced), f"{time.monotonic() - began:.0f} s")
    wrong = [f"agent {number}: {problem}" for number, raced in enumerate(all_raced) for problem in check(raced)]
    assert not wrong, "\n".join([f"{len(wrong)} problems", report(all_raced), *wrong[:60]])
    drawn = [entry for raced in all_raced for entry in raced.record if entry.get("state") == "prompt"]
    assert len(drawn) == AGENTS * DIALOGS
    assert any(answer["delivered"] for raced in all_raced for _, answer in raced.told)


# the checker of it


def made(result: str, row: int, *resolved: Json, told: tuple[tuple[bool, bool], ...] = ()) -> Raced:
    """One dialog with this effect and these outcomes; ``told`` are (accept, delivered) of the answers."""
    given = {"command": "touch race-0"}
    record: list[Json] = [
        {"at": 1, "state": "prompt", "input": given},
        {"at": 2, "effect": "permission", "result": result, "row": row, "by": "1", "input": given},
    ]
    facts: list[Json] = [{"type": "decision.opened", "decision": "d", "text": "touch race-0", "input": given}]
    facts += [{"type": "decision.resolved", "decision": "d", **outcome} for outcome in resolved]
    return Raced(record, facts, [(0, {"accept": accept, "delivered": delivered}) for accept, delivered in told])


ALLOWED = {"outcome": "answered", "answer": {"accept": True}}
TYPED = {"outcome": "answered", "via": "terminal"}
REFUSED = {"outcome": "answered", "answer": {"option": 4}}


@pytest.mark.parametrize(
    "raced",
    [
        made("allowed", 1, ALLOWED, told=((True, True), (False, False))),
        made("denied", 4, REFUSED, told=((True, False), (False, True))),
        made("allowed", 3, {"outcome": "cancelled"}, told=((True, False), (False, False))),
        made("allowed", 3, TYPED, told=((True, False), (False, False))),
    ],
)
def test_what_happened_may_be_told(raced: Raced) -> None:
    assert check(raced) == []


@pytest.mark.parametrize(
    "raced",
    [
        made("denied", 4, ALLOWED),
        made("allowed", 2, REFUSED),
        made("allowed", 1),
        made("allowed", 2, ALLOWED, told=((True, True),)),
        made("allowed", 1, TYPED, told=((True, True),)),
        made("allowed", 1, {"outcome": "answered"}),
        made("allowed", 1, ALLOWED, ALLOWED),
        made("allowed", 1, ALLOWED, told=((True, True), (False, True))),
        made("allowed", 1, {"outcome": "cancelled"}, told=((True, True),)),
        made("denied", 4, {"outcome": "cancelled"}, told=((True, True),)),
        Raced(made("allowed", 1, ALLOWED).record, []),
        Raced(made("allowed", 1, ALLOWED).record[:1], made("allowed", 1, ALLOWED).facts),
        Raced([], made("allowed", 1, ALLOWED).facts),
    ],
)
def test_what_did_not_happen_is_found(raced: Raced) -> None:
    assert check(raced) != []
