"""What a provider says beside its parts, as its SDK spells it: ``{"openai": {"itemId": …}}``.

What the SDK has no word for is for us and the provider alone, and is shown to nobody.
"""

from __future__ import annotations

from dragoman.hub.events import Json

from .messages import ReasoningKind

_OWNERS = {"codex-cli": "openai", "claude-code": "anthropic"}
"""Whose SDK a provider is reached through, where that is another one's."""

_WORDS = {
    "item": "itemId",
    "encrypted_content": "reasoningEncryptedContent",
    "phase": "phase",
    "signature": "signature",
    "response_id": "responseId",
    "service_tier": "serviceTier",
}
_OTHER_WORDS = {("google", "signature"): "thoughtSignature"}

_SUMMARISING = frozenset({"openai", "codex-cli"})
"""Providers that sum up their thoughts, and do not show them."""

Metadata = dict[str, Json]
"""By the owner's name, what it says."""


def thought_kind(provider: str | None) -> ReasoningKind:
    """How the thoughts of this provider's models are called (spec §4.1)."""
    return "summary" if provider in _SUMMARISING else "reasoning"


def metadata_of(provider: str, *kept: Json) -> Metadata | None:
    """What was kept, spelled; what comes later counts. None where nothing is left to be shown."""
    owner = _OWNERS.get(provider, provider)
    said: dict[str, Json] = {}
    for each in kept:
        if isinstance(each, dict):
            for name, value in each.items():
                word = _OTHER_WORDS.get((owner, name)) or _WORDS.get(name)
                if word is not None:
                    said[word] = value
    return {owner: said} if said else None


def thought_metadata(provider: str, *kept: Json) -> Metadata | None:
    """The same of a thought's start or end: OpenAI's SDK says there, too, that there is no encrypted form."""
    said = metadata_of(provider, *kept)
    if said is not None and "openai" in said:
        said["openai"].setdefault("reasoningEncryptedContent", None)
    return said
