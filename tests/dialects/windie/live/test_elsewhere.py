"""Sessions that were made in another dialect, by their ids."""

from __future__ import annotations

from tests.dialects.windie.live.test_decisions import hub

from .rig import House


async def test_a_session_of_another_kind_is_told_what_the_person_wrote(house: House) -> None:
    async with hub(house) as other, house.link() as link:
        made = await other.ask("create", kind="scripted", cwd=str(house.folder / "work"))
        session = made["session"]
        written = "say a < b & <c> [[script:hello]]"
        turn = await link.ask(written, session)
        told = await link.over(turn)
        assert (told.outcome, told.answer) == ("completed", written.removeprefix("say "))
        await other.ask("follow", session=session, after=0)
        await other.until(lambda: "turn.ended" in other.facts(session), "its turn")
        (prompt,) = [event["fact"] for event in other.events(session) if event["fact"]["type"] == "prompt.submitted"]
        assert (prompt["text"], prompt.get("content")) == (written, None)
    link.judge()
