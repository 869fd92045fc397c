"""A query as the model has it, with what the contract says beside it: in a turn, and in a preview of one."""

from __future__ import annotations

import re

from .messages import UserMessageFull, UserMessageMetadata

UNKNOWN_WINDOW = "Unknown"
"""What the contract says where nobody said which window is active."""

_QUERY = "<user_query>"
_WINDOW = re.compile(r"<active_window>([^<]{1,1000})</active_window>")
_MEMORY = re.compile(r"<(episodic|semantic)_memory>\s*(?!None\s*</)(?=\S)")


def user_message_full(
    content: str, *, query: str, first: bool, screenshot: bool = False, window: str | None = None
) -> UserMessageFull:
    """The transparency payload. ``content`` is what the model is given, ``query`` what the person wrote.

    ``first`` is whether the conversation begins with it; ``window`` is the active window where the client said so
    beside the content.
    """
    before, found, _ = content.partition(_QUERY)
    shown = _WINDOW.search(content)
    metadata = UserMessageMetadata(
        original_query=query,
        context_type="initial" if first else "follow_up",
        injected_context=before.strip() if found else "",
        active_window=shown.group(1).strip() if shown else window or UNKNOWN_WINDOW,
        has_screenshot=screenshot,
        has_memory=_MEMORY.search(content) is not None,
    )
    return UserMessageFull(content=content, metadata=metadata)
