"""Renders a chat template: foreign code, in a process of its own that can open nothing, write nothing, and is stopped when
it takes too long (by template.py, which talks to it), too much memory, or makes too much text.

The environment is the one of transformers: Jinja's immutable sandbox with loop controls, `raise_exception`,
`strftime_now`, `tojson` without HTML escapes, and the tag `generation`, which here only says what it has inside.

Messages are JSON behind their length in 8 bytes. First the template: {"source", "date"}; answered by its variables. Then
conversations: {"messages", "tools", "arguments", "renders": [[how many messages, with generation prompt], ...]};
answered by {"texts", "asked_for_date"} or {"error", "line", "render", "raised"}.
"""

import datetime
import encodings.unicode_escape  # these and others that are not used here: Jinja would import them when no file opens any more
import html
import json
import pprint
import resource
import sys
import textwrap

import jinja2
import jinja2.constants
import jinja2.debug
import jinja2.meta
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

MOST_BYTES_OF_MEMORY = 1 << 30
MOST_CHARACTERS = 16 << 20
NAME = "<template>"  # what Jinja calls a template that has no file


class Raised(jinja2.TemplateError):
    """The template itself refuses the conversation."""


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller):
        return caller()


class Renderer:
    def __init__(self, source, date):
        self.asked_for_date = False
        self.date = datetime.datetime.fromisoformat(date)
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
        environment.filters["tojson"] = self._tojson
        environment.globals["raise_exception"] = self._raise
        environment.globals["strftime_now"] = self._strftime
        self.variables = sorted(jinja2.meta.find_undeclared_variables(environment.parse(source)))
        self.template = environment.from_string(source)

    @staticmethod
    def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    @staticmethod
    def _raise(message):
        raise Raised(message)

    def _strftime(self, form):
        self.asked_for_date = True
        return self.date.strftime(form)

    def render(self, asked, count, with_prompt):
        parts, size = [], 0
        for part in self.template.generate(messages=asked["messages"][:count], tools=asked["tools"], documents=None,
                                           add_generation_prompt=with_prompt, **asked["arguments"]):
            size += len(part)
            if size > MOST_CHARACTERS:
                raise MemoryError
            parts.append(part)
        return "".join(parts)

    def answer(self, asked):
        self.asked_for_date = False
        texts = []
        for number, (count, with_prompt) in enumerate(asked["renders"]):
            try:
                texts.append(self.render(asked, count, with_prompt))
            except MemoryError:
                return {"error": f"makes more than {MOST_CHARACTERS} characters, or needs more than {MOST_BYTES_OF_MEMORY} bytes of memory",
                        "line": None, "render": number, "raised": False}
            except Exception as error:  # of foreign code: anything
                return {"error": text_of(error), "line": line_of(error), "render": number,
                        "raised": isinstance(error, Raised)}
        return {"texts": texts, "asked_for_date": self.asked_for_date}


def text_of(error):
    """Without the place, which Jinja adds on lines of their own where it knows one."""
    text = error.message if isinstance(error, jinja2.TemplateError) else str(error)
    return (text or "")[:2000] or type(error).__name__


def line_of(error):
    """Of the template, as Jinja's tracebacks have it."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return error.lineno
    line, at = None, error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == NAME:
            line = at.tb_lineno
        at = at.tb_next
    return line


def receive():
    size = sys.stdin.buffer.read(8)
    return json.loads(sys.stdin.buffer.read(int.from_bytes(size, "little"))) if len(size) == 8 else None


def send(message):
    data = json.dumps(message).encode()
    sys.stdout.buffer.write(len(data).to_bytes(8, "little") + data)
    sys.stdout.buffer.flush()


def main():
    first = receive()
    for what, most in ((resource.RLIMIT_AS, MOST_BYTES_OF_MEMORY), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, 3),
                       (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))
    try:
        renderer = Renderer(first["source"], first["date"])
    except Exception as error:
        return send({"error": text_of(error), "line": line_of(error)})
    send({"variables": renderer.variables})
    while (asked := receive()) is not None:
        send(renderer.answer(asked))


if __name__ == "__main__":
    main()
