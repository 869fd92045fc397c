"""What our server says otherwise than the original ones, and why: everything else has to be the same.

Each difference makes of a recorded conversation the one that ours has to have, exactly; so one that is no longer true
fails as much as one that was never named.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass

from . import answer_differences as answers
from . import event_differences as events
from . import link_differences as links
from . import origin_differences as origins
from .canonical import canonical
from .recording import Step, load

Rule = Callable[[str, list[Step]], list[Step]]
"""From a recording's name and its steps, the steps as they are to be."""


@dataclass(frozen=True)
class Difference:
    """One of them. ``cites`` is where it is decided: a section of the seed or the spec, or the number of a defect."""

    name: str
    cites: str
    rule: Rule


DIFFERENCES: tuple[Difference, ...] = (
    Difference("nothing is left of an earlier run", "recorded on servers that had run before", origins.fresh),
    Difference("of two HTTP interfaces cin's is ours", "spec 3.7", origins.one_api),
    Difference(
        "an origin that may not is refused before there is a socket", "design 5: invariant 11", links.refused_before
    ),
    Difference("who names no origin is of this machine", "spec 0: missing Origin header", links.native_clients),
    Difference("both names for what is said", "seed: Backward Compatibility; spec 10.0", links.both_keys),
    Difference("extensions have a namespace, and a twin", "seed: Extension Points; spec 2.5", links.twins),
    Difference("a ping has its pong", "seed: pong; spec 11 #2", links.pongs),
    Difference("what is no message is answered", "spec 1.3; design 5: invariant 8", links.mistakes_are_told),
    Difference("half an event is made whole", "spec 8; 11 #6", events.half_events),
    Difference("a rollout's session has the id in it", "spec 9.2; 11 #9", events.codex_by_its_id),
    Difference("an end says what ended", "spec 9.2: remember call_id", events.ends_tell_of_their_begin),
    Difference(
        "a rollout has the words of Codex' hooks", "spec 9.2: recommended mapping", events.codex_in_its_hooks_words
    ),
    Difference("a rollout that is found is a start", "spec 9.2: session_start is lost", events.rollouts_begin),
    Difference("calls have a duration", "spec 4: Duration (cin only)", events.calls_have_a_duration),
    Difference("what a hook says is told", "spec 4: recommended mapping", events.tell_all),
    Difference("the agent's own names stay", "spec 2.1, 2.2", events.own_names_stay),
    Difference("an event has all its fields", "seed: AgentEvent; spec 11 #6", events.whole_events),
    Difference("a context that shrinks is told of", "spec 4: PreCompact", events.shortening_is_told),
    Difference("what names no session makes none", "spec 3.1; 11 #11", events.sessions_have_names),
    Difference("pages of other origins post nothing", "spec 11 #15", events.strangers_post_nothing),
    Difference("an agent is known by its id", "spec 4: linking; 11 #7", events.by_their_ids),
    Difference("what comes twice is one event", "spec 11 #5", events.once_each),
    Difference("every call has one result", "design 5: invariant 6", events.calls_end),
    Difference(
        "dialogs of programs are told, and their outcome",
        "spec 6: no permission_resolved on that path; 11 #1",
        links.dialogs_are_told,
    ),
    Difference("one answer counts", "design 5: invariant 4", links.answered_once),
    Difference("tokens are those that agents report", "spec 11 #18", links.own_tokens),
    Difference("history is what was asked for", "seed: get_history; spec 11 #3", links.history_as_asked),
    Difference("both names of an agent's session", "spec 2.1", links.session_fields),
    Difference("unknown paths are told in JSON", "spec 13; 3", answers.json_for_all),
    Difference("what the dashboard calls is there", "spec 3.2; 10; 11 #1", answers.routes_of_the_dashboard),
    Difference("other origins are served nothing", "spec 11 #15", answers.other_origins),
    Difference("statuses that are true", "spec 3.2: 500 for every failure", answers.real_statuses),
    Difference("what is deleted has no figures", "spec 3.5", answers.figures_of_what_is),
    Difference("this server's own words", "spec 3.5, 3.6", answers.own_words),
    Difference("only known folders are shown", "spec 11 #15", answers.known_projects_only),
    Difference("sessions are told of as they change", "seed: session:*; spec 1.2, 5; 11 #4, #22", links.by_events),
)


@functools.cache
def steps(name: str) -> list[list[Step]]:
    """A recording as it was, and after each of the differences. Not to be changed."""
    made = [load(name)]
    for difference in DIFFERENCES:
        made.append(difference.rule(name, copy.deepcopy(made[-1])))
    return made


@functools.cache
def expected(name: str) -> list[Step]:
    """What our server has to say in that conversation, in canonical form."""
    return canonical(steps(name)[-1])
