"""``todoWrite``: the list is recorded whole, and said back."""

from dragoman.agents.native.tools.schema import decode
from dragoman.agents.native.tools.todos import TodoWrite
from dragoman.hub.events import TodosChanged
from dragoman.hub.events.workspace import Todo

from .context import FakeTurn


async def written(turn: FakeTurn, arguments: str) -> str:
    return (await TodoWrite().run(decode(TodoWrite(), arguments), turn)).output


async def test_the_list_is_recorded_and_said_back(turn: FakeTurn) -> None:
    output = await written(
        turn,
        '{"todos": [{"content": "Fix bug", "status": "in_progress", "activeForm": "Fixing bug"},'
        '{"content": "Run tests", "status": "pending", "activeForm": "Running tests"}]}',
    )
    assert output == "Todo list updated:\n[in_progress] Fix bug\n[pending] Run tests"
    assert turn.facts == [
        TodosChanged(
            todos=(Todo("Fix bug", "in_progress", "Fixing bug"), Todo("Run tests", "pending", "Running tests")),
            turn="turn",
        )
    ]


async def test_an_empty_list_is_one_too(turn: FakeTurn) -> None:
    assert await written(turn, '{"todos": []}') == "Todo list updated:"
    assert turn.facts == [TodosChanged(todos=(), turn="turn")]


async def test_more_than_one_in_progress_is_only_advice(turn: FakeTurn) -> None:
    task = '{"content": "a", "status": "in_progress", "activeForm": "b"}'
    assert (await written(turn, f'{{"todos": [{task}, {task}]}}')).count("in_progress") == 2
