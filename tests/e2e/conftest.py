"""A model server for the whole run, and real agents behind real servers. Skipped where the agents cannot be had."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from . import clis
from .driven import ModelServer
from .harness import Coop, Run, coop
from .homes import make_home

Start = Callable[..., AbstractAsyncContextManager[Coop]]


@pytest.fixture(scope="session")
def model() -> Iterator[ModelServer]:
    """The scripted model server."""
    server = ModelServer()
    yield server
    server.close()


@pytest.fixture
def start(model: ModelServer, tmp_path: Path) -> Iterator[Start]:
    """``async with start("claude") as client``: an agent in a fresh HOME, and a Coop client on it.

    ``answered=False`` leaves its start-up dialogs, ``args`` are for the agent, ``flags`` for ``dragoman run``.
    """
    # Not under /tmp: Codex says at its start that it does not like that.
    homes = clis.cache().parent / "homes"
    homes.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=homes))
    runs = 0

    @contextlib.asynccontextmanager
    async def begin(
        agent: str, *, answered: bool = True, args: tuple[str, ...] = (), flags: tuple[str, ...] = ()
    ) -> AsyncIterator[Coop]:
        nonlocal runs
        runs += 1
        try:
            home = make_home(
                agent, folder / f"home-{runs}", tmp_path / "project", model.port, answered=answered, args=args
            )
        except clis.Unavailable as missing:
            pytest.skip(str(missing))
        # Gemini takes no settings from below a folder that others may write to.
        run = Run(home, folder / f"server-{runs}", *flags)
        try:
            async with coop(run) as client:
                yield client
        finally:
            run.close()

    yield begin
    shutil.rmtree(folder, ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "e2e: drives real agents, hundreds of megabytes of them; `make e2e` runs it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Real agents only when they are asked for by the mark."""
    if "e2e" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("e2e")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
