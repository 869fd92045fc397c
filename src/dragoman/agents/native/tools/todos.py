"""``todoWrite``: the agent's list of tasks."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from dragoman.hub.events import TodosChanged
from dragoman.hub.events.workspace import Todo

from .tool import Result, ToolContext, ToolInput


class TodoItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One task."""

    content: Annotated[str, Meta(min_length=1, description="What is to be done: Run the tests")]
    status: Annotated[Literal["pending", "in_progress", "completed"], Meta(description="How far it is")]
    active_form: Annotated[str, Meta(min_length=1, description="The same while it is being done: Running the tests")]


class TodoWriteInput(ToolInput, frozen=True):
    """Input of ``todoWrite``."""

    todos: Annotated[
        tuple[TodoItem, ...], Meta(max_length=500, description="The whole list; what is not in it is dropped")
    ]


class TodoWrite:
    """See the module."""

    name: ClassVar[str] = "todoWrite"
    description: ClassVar[str] = (
        "Replace your list of tasks, which people see. Use it for work of several steps: write the list when you "
        "begin, keep one task in_progress, and mark each completed as soon as it is. Always give the whole list."
    )
    input: ClassVar[type[ToolInput]] = TodoWriteInput

    async def run(self, given: TodoWriteInput, context: ToolContext) -> Result:
        """Records ``TodosChanged``; gives the list as text."""
        todos = tuple(Todo(item.content, item.status, item.active_form) for item in given.todos)
        context.record(TodosChanged(todos=todos, turn=context.turn))
        return Result("\n".join(["Todo list updated:", *(f"[{todo.status}] {todo.content}" for todo in todos)]))
