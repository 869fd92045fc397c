"""Checkpoints are true images: whatever a workspace holds, going back gives just that (seed: session backups).

More examples than usual: ``IMAGES=2000 pytest tests/services/checkpoints/test_images.py``.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .checker import without_times
from .rig import Home, Session
from .trees import Hand, edits, make_repositories, pools

EXAMPLES = int(os.environ.get("IMAGES", "20"))

Play = tuple[list[Any], list[Any]]


def plays(pool: list[bytes]) -> st.SearchStrategy[Play]:
    """How a workspace of these names begins, and what happens then."""
    some = st.lists(edits(pool), min_size=2, max_size=8)
    steps: st.SearchStrategy[tuple[Any, ...]] = st.one_of(
        *[st.tuples(st.just("edit"), some)] * 2,
        *[st.just(("take",))] * 2,
        st.tuples(st.just("restore"), st.integers(0, 20)),
        st.tuples(st.just("delete"), st.integers(0, 20)),
        st.just(("restart",)),
    )
    return st.tuples(st.lists(edits(pool), min_size=8, max_size=20), st.lists(steps, min_size=4, max_size=12))


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    return make_repositories(tmp_path_factory.mktemp("repositories"))


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(play=pools.flatmap(plays))
def test_whatever_is_done_to_a_workspace_every_checkpoint_brings_back_its_instant(
    tmp_path: Path, repositories: dict[bool, Path], play: Play
) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        home = Home(Path(folder))
        hand = Hand(home.work, repositories)
        begin, steps = play
        for edit in begin:
            hand.do(edit)
        asyncio.run(_play(home, hand, steps))


async def _play(home: Home, hand: Hand, play: list[Any]) -> None:
    session = Session(home)
    lives: list[list[Any]] = [[]]
    for step in play:
        if step[0] == "restart":
            lives.append([])
        else:
            lives[-1].append(step)
    for number, life in enumerate(lives):
        async with home.store() as store:
            if number == 0:
                await session.take(store)
            for step in life:
                await _step(session, store, hand, *step)
    async with home.store() as store:
        await session.check(store)


async def _step(session: Session, store: Any, hand: Hand, what: str, *more: Any) -> None:
    kept = list(session.images)
    if what == "edit":
        for edit in more[0]:
            hand.do(edit)
    elif what == "take":
        saved = await session.take(store)
        newest = session.images[f"cp-{session.count - 1:04}"]
        assert session.first is not None
        assert saved.changed == (without_times(newest) != without_times(session.images[session.first]))
    elif what == "restore":
        await session.restore(store, kept[more[0] % len(kept)])
    elif len(kept) > 1:
        await session.delete(store, kept[1 + more[0] % (len(kept) - 1)])
