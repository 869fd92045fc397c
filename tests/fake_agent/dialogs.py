"""The dialogs: how each is drawn and which keys it takes. No I/O.

A dialog is given keys until one of them takes effect. Rows that begin with "No" refuse, other rows allow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tests.fake_agent.keys import Key

Json = dict[str, Any]
CHEVRON = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
MARK = f"\x1b[38;5;153m{CHEVRON}\x1b[39m"
RULE = "─"


class Dialog(ABC):
    """One dialog. ``serial`` counts the dialogs of a process."""

    kind = "permission"
    subtype: str | None = None

    def __init__(self, tool: str | None = None, tool_input: Json | None = None) -> None:
        self.tool, self.input = tool, tool_input or {}
        self.marked = 0
        self.serial = 0

    @abstractmethod
    def lines(self, cols: int) -> list[str]:
        """What is drawn in place of the input box."""

    @abstractmethod
    def key(self, key: Key) -> Json | None:
        """Take a key (of text one character); the effect if it had one: ``effect``, ``result``, what was chosen."""

    @property
    @abstractmethod
    def options(self) -> list[str]:
        """The rows that can be chosen now."""

    @property
    def message(self) -> str | None:
        """What the program's status says of it."""
        about = self.input.get("command") or self.input.get("file_path")
        return f"{self.tool}: {about}" if about else None

    def describe(self) -> Json:
        """What the record says of it."""
        about = {"kind": self.kind, "subtype": self.subtype, "tool": self.tool, "input": self.input}
        return {**about, "options": self.options, "dialog": self.serial}

    def _move(self, key: Key, rows: int) -> bool:
        if key.name not in ("up", "down"):
            return False
        self.marked = (self.marked + (1 if key.name == "down" else -1)) % rows
        return True


def digit(key: Key) -> int | None:
    """The row that a digit names, counted from 0."""
    return int(key.text[0]) - 1 if key.name == "text" and key.text[:1].isdecimal() and key.text[0] != "0" else None


def rows(options: list[str], marked: int, *, numbered: bool = True, indent: str = " ") -> list[str]:
    """The rows of a list, the marked one with its marker."""
    drawn = []
    for number, option in enumerate(options):
        label = f"{number + 1}. {option}" if numbered else option
        drawn.append(f"{indent}{MARK if number == marked else ' '} {label}")
    return drawn


class Choice(Dialog):
    """A list of rows, one of which allows or refuses."""

    def __init__(
        self,
        tool: str | None,
        tool_input: Json,
        options: list[str],
        *,
        head: list[str],
        foot: str,
        numbered: bool = True,
        marked: int = 0,
    ) -> None:
        super().__init__(tool, tool_input)
        self._options, self._head, self._foot, self._numbered = options, head, foot, numbered
        self.marked = marked

    @property
    def options(self) -> list[str]:
        return self._options

    def lines(self, cols: int) -> list[str]:
        chosen = rows(self._options, self.marked, numbered=self._numbered)
        return [RULE * cols, *self._head, *chosen, "", f"\x1b[2m {self._foot}\x1b[22m"]

    def key(self, key: Key) -> Json | None:
        if self._move(key, len(self._options)):
            return None
        row = digit(key)
        if row is not None and self._numbered and row < len(self._options):
            return self.choose(row, key.text[0])
        if key.name == "enter":
            return self.choose(self.marked, "enter")
        return self.refuse("esc") if key.name == "esc" else None

    def choose(self, row: int, by: str) -> Json:
        """The effect of a row."""
        label = self._options[row]
        result = "denied" if label.split(",")[0].split()[0] == "No" else "allowed"
        return {"effect": "permission", "result": result, "row": row + 1, "option": label, "by": by}

    def refuse(self, by: str) -> Json:
        """The effect of Escape."""
        return {"effect": "permission", "result": "denied", "row": None, "option": None, "by": by}


BASH_OPTIONS = [
    "Yes",
    "Yes, and always allow this command in this project",
    "Yes, and switch to auto mode for this session",
    "No",
]


def bash(command: str, note: str = "Run a command", options: list[str] | None = None, **how: Any) -> Choice:
    """May this command run?"""
    head = [" Bash command", "", f"   {command}", f"   \x1b[2m{note}\x1b[22m", "", " Do you want to proceed?"]
    foot = "Esc to cancel · Tab to amend · ctrl+e to explain"
    given = {"command": command, "description": note}
    return Choice("Bash", given, options or BASH_OPTIONS, head=head, foot=foot, **how)


def write(path: str, content: str, options: list[str] | None = None) -> Choice:
    """May this file be made?"""
    name = path.rpartition("/")[2]
    numbered = [f"  {number} {line}" for number, line in enumerate(content.splitlines(), 1)]
    head = [" Create file", f" {path}", *numbered, f" Do you want to create {name}?"]
    known = ["Yes", "Yes, and switch to accept edits for this session (shift+tab)", "No"]
    given = {"file_path": path, "content": content}
    return Choice("Write", given, options or known, head=head, foot="Esc to cancel · Tab to amend")


def needs_approval(command: str) -> Choice:
    """The variant without numbers, whose default refuses."""
    head = [" Bash command", "", f"   {command}", "", " This command needs your approval", ""]
    given = {"command": command, "description": "Run a command"}
    foot = "Enter to confirm · Esc to cancel"
    return Choice("Bash", given, ["No", "Yes"], head=head, foot=foot, numbered=False)


class Trust(Choice):
    """Whether this folder is trusted, before anything else. ``numbered`` is how version 2.1.197 asked."""

    subtype = "trust"

    def __init__(self, cwd: str, *, numbered: bool) -> None:
        head = [
            " Accessing workspace:",
            "",
            f" {cwd}",
            "",
            " Quick safety check: Is this a project you created or one you trust? If not, take a moment to review",
            " what is in this folder first. Claude Code will be able to read, edit, and execute files here.",
            "",
        ]
        options = ["No, exit", "Yes, I trust this folder"]
        if numbered:
            options.reverse()
        foot = "Enter to confirm · Esc to cancel"
        super().__init__(None, {}, options, head=head, foot=foot, numbered=numbered)

    def choose(self, row: int, by: str) -> Json:
        return {**super().choose(row, by), "effect": "trust"}

    def refuse(self, by: str) -> Json:
        return {**super().refuse(by), "effect": "trust"}


class Plan(Dialog):
    """A plan to approve. The third row is a text field."""

    kind = "plan"
    message = "approve plan"

    def __init__(self, plan: str, path: str) -> None:
        super().__init__("ExitPlanMode", {"plan": plan, "planFilePath": path})
        self._plan = plan
        self._text = ""

    @property
    def options(self) -> list[str]:
        return ["Yes, and use auto mode", "Yes, manually approve edits", self._text or "Tell Claude what to change"]

    def lines(self, cols: int) -> list[str]:
        dashes = "╌" * cols
        plan = [f" {line}" for line in self._plan.splitlines()]
        return [
            RULE * cols,
            " Ready to code?",
            "",
            " Here is Claude's plan:",
            dashes,
            *plan,
            dashes,
            "",
            " Would you like to proceed?",
            "",
            *rows(self.options, self.marked),
            "",
            "\x1b[2m shift+tab to approve with this feedback · Esc to cancel\x1b[22m",
        ]

    def key(self, key: Key) -> Json | None:
        if self._move(key, 3):
            return None
        if key.name == "esc":
            return {"effect": "plan", "result": "rejected", "option": None, "by": "esc"}
        if self.marked == 2:
            return self._typed(key)
        row = digit(key)
        if row == 2:
            self.marked = 2
        elif row is not None and row < 2:
            return self._approve(row, key.text[0])
        elif key.name == "enter":
            return self._approve(self.marked, "enter")
        return None

    def _typed(self, key: Key) -> Json | None:
        if key.name in ("text", "paste"):
            self._text += key.text
        elif key.name == "backspace":
            self._text = self._text[:-1]
        elif key.name == "enter" and self._text:
            return {"effect": "plan", "result": "rejected", "option": 3, "text": self._text, "by": "enter"}
        elif key.name == "backtab":
            return {"effect": "plan", "result": "approved", "option": 3, "text": self._text, "by": "backtab"}
        return None

    def _approve(self, row: int, by: str) -> Json:
        return {"effect": "plan", "result": "approved", "row": row + 1, "option": self.options[row], "by": by}


TYPE_SOMETHING, CHAT = "Type something.", "Chat about this"
REVIEW = ["Submit answers", "Cancel"]


class Question(Dialog):
    """One or several questions, each a page. Several have a tab bar and a last page to look them over."""

    kind = "question"

    def __init__(self, questions: list[Json]) -> None:
        super().__init__("AskUserQuestion", {"questions": questions})
        self._questions = questions
        self._answers: dict[int, str] = {}
        self._page = 0
        self._text = ""

    @property
    def message(self) -> str:
        return "\n".join([self._questions[0]["question"], *self._labels]) if not self._reviewing else "Submit?"

    @property
    def _reviewing(self) -> bool:
        return self._page == len(self._questions)

    @property
    def _labels(self) -> list[str]:
        return [option["label"] for option in self._questions[self._page]["options"]]

    @property
    def options(self) -> list[str]:
        return REVIEW if self._reviewing else [*self._labels, TYPE_SOMETHING, CHAT]

    def lines(self, cols: int) -> list[str]:
        page = self._review() if self._reviewing else self._question(cols)
        return [RULE * cols, self._tabs(), "", *page]

    def _tabs(self) -> str:
        if len(self._questions) == 1:
            return f" ☐ {self._questions[0]['header']}"
        tabs = []
        for number, question in enumerate(self._questions):
            name = f" {'☒' if number in self._answers else '☐'} {question['header']} "
            tabs.append(f"\x1b[7m{name}\x1b[27m" if number == self._page else name)
        submit = "\x1b[7m ✔ Submit \x1b[27m" if self._reviewing else " ✔ Submit "
        return f"← {''.join(tabs)}{submit} →"

    def _question(self, cols: int) -> list[str]:
        question = self._questions[self._page]
        labels = self._labels
        drawn = [question["question"], ""]
        options = [*labels, self._text or TYPE_SOMETHING, CHAT]
        for number, line in enumerate(rows(options, self.marked, indent="")):
            if number == len(labels) + 1:
                drawn.append(RULE * cols)
            drawn.append(line)
            if number < len(labels) and (note := question["options"][number].get("description")):
                drawn.append(f"     \x1b[2m{note}\x1b[22m")
        many = "Tab/Arrow keys to navigate" if len(self._questions) > 1 else "↑/↓ to navigate"
        return [*drawn, "", f"\x1b[2mEnter to select · {many} · Esc to cancel\x1b[22m"]

    def _review(self) -> list[str]:
        drawn = ["Review your answers", ""]
        for number, question in enumerate(self._questions):
            if number in self._answers:
                drawn += [f" ● {question['question']}", f"   → {self._answers[number]}"]
        return [*drawn, "", "Ready to submit your answers?", "", *rows(REVIEW, self.marked, indent="")]

    def key(self, key: Key) -> Json | None:
        if key.name == "esc":
            return self._over("rejected", "esc")
        if self._move(key, len(self.options)) or self._turned(key):
            return None
        if self._reviewing:
            return self._submit(key)
        field = len(self._labels)
        if self.marked == field and key.name in ("text", "paste", "backspace"):
            self._text = self._text[:-1] if key.name == "backspace" else self._text + key.text
            return None
        row = digit(key)
        if row is not None and row <= field + 1:
            self.marked = row
            return None if row == field else self._picked(row, key.text[0])
        return self._picked(self.marked, "enter") if key.name == "enter" else None

    def _turned(self, key: Key) -> bool:
        if len(self._questions) == 1 or key.name not in ("left", "right", "tab", "backtab"):
            return False
        step = 1 if key.name in ("right", "tab") else -1
        self._show(min(max(self._page + step, 0), len(self._questions)))
        return True

    def _show(self, page: int) -> None:
        self._page, self.marked, self._text = page, 0, ""

    def _submit(self, key: Key) -> Json | None:
        row = digit(key)
        if row is not None and row < 2:
            self.marked = row
        if key.name != "enter":
            return None
        if len(self._answers) < len(self._questions) and self.marked == 0:
            return None
        return self._over("rejected" if self.marked else "answered", "enter")

    def _picked(self, row: int, by: str) -> Json | None:
        if row == len(self._labels) + 1:
            return self._over("chat", by)
        if row == len(self._labels) and not self._text:
            return None
        self._answers[self._page] = self._text if row == len(self._labels) else self._labels[row]
        if len(self._questions) == 1:
            return self._over("answered", by)
        self._show(self._page + 1)
        return None

    def _over(self, result: str, by: str) -> Json:
        answers = {self._questions[number]["question"]: label for number, label in sorted(self._answers.items())}
        return {"effect": "question", "result": result, "answers": answers, "by": by}
