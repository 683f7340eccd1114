"""A chat template, rendered in a process of its own (template_worker.py)."""

import json
import os
import select
import subprocess
import sys
import time
from typing import Any, Union

from .errors import InputError

SECONDS = 20.0  # for all that is asked of one conversation
_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "template_worker.py")


class TemplateError(Exception):
    """One conversation cannot be rendered. `render`: which of those that were asked for, -1 if the process was lost;
    `raised`: by the template's own raise_exception."""

    def __init__(self, text: str, render: int, raised: bool):
        super().__init__(text)
        self.render, self.raised = render, raised


class ChatTemplate:
    """`place`: where the source is from, for messages. `arguments`: special tokens and what else the template is given.
    Raises InputError if the source does not parse."""

    def __init__(self, source: str, place: str, arguments: dict[str, Any], date: str, seconds: float = SECONDS):
        self.place, self.arguments, self.seconds = place, arguments, seconds
        self.asked_for_date = False
        self._worker = subprocess.Popen([sys.executable, "-I", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env={})
        try:
            answer = self._ask({"source": source, "date": date})
        except TemplateError as error:
            raise InputError(f"{place}: {error}") from None
        if "error" in answer:
            self.close()
            raise InputError(f'{place}, line {answer["line"]}: the chat template cannot be used: {answer["error"]}')
        # Neither is reached by another name, so that a template which does not name it passes over it.
        self.shows_tools = "tools" in answer["variables"]
        self.shows_tool_calls = "tool_calls" in source

    def render(self, messages: list[dict[str, Any]], tools: Union[list, None],
               renders: list[tuple[int, bool]]) -> list[str]:
        """The first n messages, with the generation prompt or without, for each of `renders`. Raises TemplateError."""
        answer = self._ask({"messages": messages, "tools": tools, "arguments": self.arguments, "renders": renders})
        if "error" in answer:
            line = f', line {answer["line"]}' if answer["line"] else ""
            raise TemplateError(f'{self.place}{line}: {answer["error"]}', answer["render"], answer["raised"])
        self.asked_for_date |= answer["asked_for_date"]
        return answer["texts"]

    def close(self) -> None:
        self._worker.kill()
        self._worker.wait()
        try:
            self._worker.stdin.close()
        except BrokenPipeError:
            pass
        self._worker.stdout.close()

    def _ask(self, message: Any) -> Any:
        deadline = time.monotonic() + self.seconds
        data = json.dumps(message).encode()
        try:
            # Whole before the answer begins: the worker reads a message to its end before it renders.
            self._worker.stdin.write(len(data).to_bytes(8, "little") + data)
            self._worker.stdin.flush()
            size = int.from_bytes(self._read(8, deadline), "little")
            return json.loads(self._read(size, deadline))
        except (BrokenPipeError, EOFError):
            self.close()
            raise TemplateError("its process ended, as it does when it needs too much memory", -1, False) from None

    def _read(self, size: int, deadline: float) -> bytes:
        parts, left = [], size
        while left > 0:
            ready, _, _ = select.select([self._worker.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.close()
                raise TemplateError(f"the chat template took more than {self.seconds:g} s and was stopped", -1, False)
            part = os.read(self._worker.stdout.fileno(), min(left, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
