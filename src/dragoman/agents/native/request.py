"""What one model call is made of: one way for a step that runs, and for whoever wants to see it beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from dragoman.hub.events import Json
from dragoman.hub.tool_offers import ToolOffer

from .briefing import Briefing
from .prompt import system_prompt
from .providers.conversation import Message, ModelRequest, ToolSpec
from .tools.found import FoundTool
from .tools.present_plan import PresentPlan
from .tools.schema import tool_spec
from .tools.tool import Tool
from .tools.web_search import WebSearch


class Offer(msgspec.Struct, frozen=True):
    """The tools of one model call, and which of them clients run."""

    specs: tuple[ToolSpec, ...]
    client_tools: tuple[str, ...]


class Target(msgspec.Struct, frozen=True):
    """Who is asked: the model, whether its provider searches the web by itself, how long an answer may be."""

    model: str
    searches: bool
    output_tokens: int | None


def is_offered(settings: Mapping[str, Json], tool: str) -> bool:
    """Whether a session with these settings offers its models this tool of the server's own.

    ``enabled_tools`` are all that it may offer, where that is given; ``disabled_tools`` are taken away from them.
    """
    enabled, disabled = settings.get("enabled_tools"), settings.get("disabled_tools")
    if isinstance(enabled, list) and tool not in enabled:
        return False
    return not isinstance(disabled, list) or tool not in disabled


def offer(
    settings: Mapping[str, Json],
    own: Iterable[Tool | FoundTool],
    clients: Iterable[ToolOffer],
    *,
    mode: str,
    searches: bool,
) -> Offer:
    """What is offered of the server's own tools and of those that clients run. An own one goes before a client's."""
    plans = mode == "plan"
    shown = [tool for tool in own if is_offered(settings, tool.name) and (plans or tool.name != PresentPlan.name)]
    specs = [tool_spec(tool) for tool in shown if not (searches and tool.name == WebSearch.name)]
    taken = {spec.name for spec in specs}
    theirs = [ToolSpec(each.name, each.description, each.parameters) for each in clients if each.name not in taken]
    return Offer((*specs, *theirs), tuple(spec.name for spec in theirs))


def model_request(
    settings: Mapping[str, Json],
    target: Target,
    briefing: Briefing,
    messages: Sequence[Message],
    specs: tuple[ToolSpec, ...],
    *,
    mode: str,
) -> ModelRequest:
    """The call itself."""
    return ModelRequest(
        model=target.model,
        system=system_text(settings, briefing, specs, mode=mode),
        messages=tuple(messages),
        tools=specs,
        max_output_tokens=target.output_tokens,
        web_search=target.searches and is_offered(settings, WebSearch.name),
    )


def system_text(settings: Mapping[str, Json], briefing: Briefing, specs: Sequence[ToolSpec], *, mode: str) -> str:
    """The system prompt: our own, or ``system_prompt`` in its place; and behind either, ``instructions``."""
    replaced, extra = settings.get("system_prompt"), settings.get("instructions")
    own = replaced if isinstance(replaced, str) and replaced.strip() else system_prompt(briefing, specs, mode=mode)
    return f"{own}\n\n{extra}" if isinstance(extra, str) and extra else own
