"""What a model is offered, kept once for all sessions that offer theirs the same."""

from __future__ import annotations

from dragoman.agents.native.offered import Offers
from dragoman.agents.native.providers.conversation import ToolSpec


def spec(name: str) -> ToolSpec:
    return ToolSpec(name, f"does {name}", {"type": "object", "properties": {}})


def test_the_same_tools_are_one_offer_whoever_offers_them() -> None:
    offers = Offers()
    first = offers.of((spec("read"), spec("bash")))
    assert offers.of((spec("read"), spec("bash"))) is first
    assert first.schemas == [
        {"name": name, "description": f"does {name}", "schema": {"type": "object", "properties": {}}}
        for name in ("read", "bash")
    ]


def test_other_tools_are_another_offer_and_only_the_newest_are_kept() -> None:
    offers = Offers(2)
    first = offers.of((spec("a"),))
    assert offers.of((spec("b"),)) is not first
    offers.of((spec("c"),))
    again = offers.of((spec("a"),))
    assert again is not first
    assert again == first
