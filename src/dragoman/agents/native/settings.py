"""Settings of native agents (``[native]``): limits of turns and tools, and where models are."""

from __future__ import annotations

import msgspec

from dragoman.agents.common.ending import KillSchedule

from .mcp.settings import McpSettings


class TurnLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far one turn may go. Times are seconds."""

    steps: int = 100
    """Model calls in one turn; then it ends as it stands, and says so."""

    subagent_steps: int = 50
    """Model calls of one sub-agent."""

    parallel_calls: int = 16
    """Tools that run at once in one step; further ones wait."""

    retries: int = 2
    """Further tries of a model call that failed in a way that may pass."""

    retry_first: float = 2.0
    """Before the first of them; each next one waits twice as long, or what the provider asks for."""

    retry_longest: float = 60.0
    """The longest wait that a provider may ask for; one that asks for more fails the turn."""

    output_tokens: int = 32_000
    """Tokens that one model call may give, where the provider must be told a limit."""

    answer_chars: int = 8 * 1024 * 1024
    """Characters of text, thoughts and calls that are taken from one model call; one that gives more has failed."""

    answer_parts: int = 2000
    """Parts, calls and sources that are taken from one model call; one that gives more has failed."""


class ContextLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a conversation is shortened, and by how much."""

    window: int = 128_000
    """Tokens that a model takes, where neither catalogue nor provider says so."""

    compact_at: float = 0.8
    """Share of the window from which the older part is summed up before the next model call; 0 never does."""

    keep: float = 0.25
    """Share of the window that the newest messages, kept word for word, may take."""

    pictures: int = 20
    """Pictures of a conversation that a model call shows, the newest; others are named."""

    picture_bytes: int = 20 * 1024 * 1024
    """Bytes that those take together."""


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What tools may read, give and take. Times are seconds, sizes characters unless they say otherwise."""

    command_seconds: float = 120.0
    """Time-out of a command that names none."""

    command_longest: float = 600.0
    """The longest time-out that a command may name."""

    command_buffer: int = 10 * 1024 * 1024
    """Bytes of a command's output that are read; what is beyond ends it."""

    command_drain: float = 0.25
    """Once a command's shell has ended: wait for others that still hold its output open, before they are ended."""

    command_progress: float = 0.5
    """Shortest time between two looks that are given of a running command's output."""

    command_ending: KillSchedule = KillSchedule()
    """When to become ruder to a command that is to end."""

    client_seconds: float = 300.0
    """Wait for the result of a tool that a client runs."""

    fetch_seconds: float = 15.0
    """For each hop of ``webFetch``."""

    fetch_bytes: int = 5 * 1024 * 1024
    """Body that ``webFetch`` takes, unpacked."""

    page_seconds: float = 10.0
    """For making a page readable; one that takes longer is given as plain text."""

    read_bytes: int = 16 * 1024 * 1024
    """Size of a file that ``read``, ``edit`` and ``notebookEdit`` take."""

    search_seconds: float = 30.0
    """For one ``glob`` or ``grep``."""


class DelegateSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Programs that run whole turns with tools of their own (``[native.delegates]``). Times are seconds."""

    claude: str = "claude"
    """Claude Code, which is the provider ``claude-code``: a name along the PATH, or a full path."""

    codex: str = "codex"
    """Codex, which is the provider ``codex-cli``: a name along the PATH, or a full path."""

    pass_environment: tuple[str, ...] = ()
    """Variables of the server's environment that these programs get beside those they need: ``AWS_PROFILE``."""

    trust_folders: bool = False
    """Whether a folder's own settings for these programs count though nobody trusted the folder in the program itself.
    They run programs unasked (hooks, servers), and whoever wrote the folder wrote them."""

    start_seconds: float = 60.0
    """For a program to say its first word; one that does not has failed."""

    silence_seconds: float = 1800.0
    """A round in which a program says nothing for so long, and waits for nobody's answer, has failed. Its tools may
    take long, and it need not tell of them."""

    end_seconds: float = 5.0
    """For a program to end by itself once it was told that nothing more comes; then it is ended."""

    sign_in_seconds: float = 300.0
    """For a person to sign in at a program, once that was begun here."""

    probe_seconds: float = 20.0
    """For a program to say whether it is signed in."""

    line_bytes: int = 16 * 1024 * 1024
    """Length of one line that a program says; a longer one is left out."""

    transcript_chars: int = 60_000
    """Characters of the earlier conversation that a program is told of, where it did not have that itself."""

    result_chars: int = 100_000
    """Characters of what one of its tools gave that are kept."""

    ending: KillSchedule = KillSchedule()
    """When to become ruder to a program that is to end."""


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One provider beside, or in place of, a built-in one (``[native.providers.NAME]``)."""

    api: str = ""
    """Which API it speaks: ``openai-chat``, ``openai-responses``, ``anthropic``, ``google``; ``scripted`` is no model,
    and says what the prompt tells it to. Empty: as the built-in one of this name, else ``openai-chat``."""

    base_url: str = ""
    """Where: ``http://127.0.0.1:8000/v1``. Empty: the provider's own."""

    name: str = ""
    """What people call it."""

    models: tuple[str, ...] = ()
    """Model ids, the default first. Empty: asked of the server where it can say so."""

    key_env: str = ""
    """Environment variable that may hold its key."""

    context_window: int = 0
    """Tokens its models take; 0 is not known."""


class NativeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Native agents: who answers, where models are looked for, and how long they may be silent."""

    provider: str = ""
    """Provider of sessions that name none. Empty: the first that has a key, then a local server that runs, then the
    offline demonstration."""

    model: str = ""
    """Model of sessions that name none; empty is the provider's default."""

    mode: str = "ask"
    """Permission mode of sessions that name none: ``ask``, ``accept_edits``, ``plan`` or ``all``."""

    connect_seconds: float = 10.0
    """For reaching a provider."""

    silence_seconds: float = 300.0
    """A model call in which nothing comes for so long has failed."""

    local_servers: tuple[str, ...] = (
        "http://127.0.0.1:11434/v1",
        "http://127.0.0.1:1234/v1",
        "http://127.0.0.1:8000/v1",
        "http://127.0.0.1:8080/v1",
    )
    """Where to look for model servers on this machine (Ollama, LM Studio, vLLM, llama.cpp); empty looks nowhere."""

    local_seconds: float = 1.0
    """For each of them to answer; one that does not is not there."""

    local_cache_seconds: float = 5.0
    """What was found there holds for so long."""

    verify_seconds: float = 10.0
    """For a provider to say whether it takes a key, or which models it has."""

    turn: TurnLimits = TurnLimits()
    context: ContextLimits = ContextLimits()
    tools: ToolLimits = ToolLimits()
    mcp: McpSettings = McpSettings()
    delegates: DelegateSettings = DelegateSettings()
    providers: dict[str, ProviderSettings] = {}
    """Providers by name; see below."""
    """Providers beside the built-in ones, or what is different about one of those, by name."""
