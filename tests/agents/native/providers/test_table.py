"""The adapters that the catalogue's providers get: each can be made, with its key hidden, before anything is asked."""

from __future__ import annotations

from importlib.util import find_spec
from typing import get_args

import pytest

from dragoman.agents.native.providers import table
from dragoman.agents.native.providers.catalogue import PROGRAM, Api
from dragoman.agents.native.settings import NativeSettings

SECRET = "sk-very-secret-0123456789"


def test_every_api_has_an_adapter() -> None:
    assert set(table.ADAPTERS) == set(get_args(Api)) - {PROGRAM}


@pytest.mark.parametrize("api", table.ADAPTERS)
async def test_each_can_be_made_and_closed_unused(api: Api) -> None:
    adapter = table.ADAPTERS[api]
    if adapter.needs and find_spec(f"{table.__package__}.pydantic") is None:
        pytest.skip("this one is not part of this copy")
    assert adapter.problem is None
    made = adapter.load()(name="somebody", base_url="http://127.0.0.1:1/v1", key=SECRET, settings=NativeSettings())
    assert made.name == (api if api in ("demonstration", "scripted") else "somebody")
    assert SECRET not in repr(made)
    assert made.searches is (api in ("openai-responses", "anthropic", "google"))
    await made.close()


def test_what_is_not_installed_is_said_without_importing_it() -> None:
    assert table.Adapter(lambda: None, needs=("json", "no_such.module")).problem == (  # type: ignore[arg-type]
        "a library is missing: pip install 'dragoman[models]'"
    )
