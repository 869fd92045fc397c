"""What is said of the tools of a whole turn, from the facts that our own agent records."""

from __future__ import annotations

from pathlib import Path

from dragoman.dialects.coworker.tool_talk import ToolTalk
from dragoman.hub.events import ToolCalled, ToolEnded
from tests.agents.native.native_rig import native_hub, script

TURN = r"""
call write {"filePath": "notes/n.txt", "content": "one\ntwo\n"}
---
call edit {"filePath": "notes/n.txt", "oldString": "two", "newString": "three"}
---
call read {"filePath": "notes/n.txt"}
---
call glob {"pattern": "**/*.txt"}
---
call grep {"pattern": "three", "path": "notes/n.txt"}
---
call todoWrite {"todos": [{"content": "Ask", "status": "in_progress", "activeForm": "Asking"}]}
---
call memory {"action": "write", "key": "people/sam", "content": "Sam likes tea"}
---
call memory {"action": "read", "key": "people/sam"}
---
call bash {"command": "echo hi"}
---
call read {"filePath": "nope.txt"}
---
call read {"path": 3}
---
call nosuchtool {"a": 1}
---
call skill {"skillName": "pdf"}
---
call spawnAgent {"agentType": "explore", "task": "#script\ncall glob {\"pattern\": \"*.md\"}\n---\nsay Nothing."}
---
say Done.
"""
TOLD = r"""
tool> write {"filePath":"notes/n.txt","chars":8}
tool< write {"ok":true}
tool> edit {"filePath":"notes/n.txt","replaceAll":false}
tool< edit {"ok":true}
tool> read {"filePath":"notes/n.txt","limit":2000}
tool< read {"chars":13}
tool> glob {"pattern":"**/*.txt"}
tool< glob {"count":1}
tool> grep {"pattern":"three","path":"notes/n.txt","caseSensitive":true}
tool< grep {"chars":7}
tool> todoWrite {"count":1}
tool< todoWrite {"count":1}
tool> memory {"action":"write","key":"people/sam","hasContent":true}
tool< memory {"action":"write","path":"{cwd}/.agent/memory/people/sam.md"}
tool> memory {"action":"read","key":"people/sam","hasContent":false}
tool< memory {"action":"read","path":"{cwd}/.agent/memory/people/sam.md"}
tool> bash {"command":"echo hi","timeout":120000}
tool< bash {"stdout":"hi\n","stderr":"","exitCode":0}
tool> read {"filePath":"nope.txt","limit":2000}
tool> spawnAgent {"agentType":"explore"}
[sub:explore] tool> glob {"pattern":"*.md"}
[sub:explore] tool< glob {"count":0}
tool< spawnAgent {"chars":8}
"""


async def test_a_turn_of_our_own_agent(tmp_path: Path) -> None:
    async with native_hub(tmp_path) as hub:
        session = await hub.session(mode="all")
        facts = await hub.turn(session, script(TURN.strip()))
        talk = ToolTalk()
        lines = [
            talk.called(fact) if isinstance(fact, ToolCalled) else talk.ended(fact)
            for fact in facts
            if isinstance(fact, ToolCalled | ToolEnded)
        ]
    assert [line for line in lines if line] == TOLD.strip().replace("{cwd}", str(session.state.cwd)).split("\n")
