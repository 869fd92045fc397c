"""JSON that a client could send: any at all, and such as resembles what is asked for."""

from __future__ import annotations

from hypothesis import strategies as st

KEYS = (
    "id",
    "type",
    "payload",
    "text",
    "conversation_ref",
    "agent_definition",
    "tools",
    "client_manifest",
    "name",
    "description",
    "schema",
    "properties",
    "$defs",
    "default",
    "items",
    "execution_target",
    "version",
    "user_id",
    "data",
    "output",
    "success",
    "request_id",
    "messages",
    "role",
    "content",
    "provider_api_keys",
    "api_key",
    "skills",
    "priority",
    "plugins",
    "runtime",
    "coordinate_methods",
    "mode",
    "system_prompt",
)
WORDS = ("query", "tool-result", "update-settings", "rehydrate-conversation", "handshake", "object", "client_only", "a")

texts = st.sampled_from(WORDS) | st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=8)
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
json = st.recursive(
    scalars | texts,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | texts, below, max_size=5),
    max_leaves=25,
)
