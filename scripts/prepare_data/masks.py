"""Which characters of a rendered conversation are trained on (docs/prepare.md).

An assistant's turn is what the conversation up to it has beyond its prompt: the conversation before it, rendered with
the generation prompt. Where prompt or turn are no beginning of the whole conversation (templates that show a turn
otherwise once it is not the last), each turn becomes a text of its own; where a prompt is no beginning of its own turn,
that turn is refused: nothing says where it begins.
"""

from typing import NamedTuple, Union

from .formats import Conversation
from .template import ChatTemplate, TemplateError


class Span(NamedTuple):
    begin: int  # characters
    end: int


class MaskedText(NamedTuple):
    text: str
    trained: list[Span]


class Masked(NamedTuple):
    texts: list[MaskedText]
    is_split: bool
    refused_turns: int  # whose prompt is no beginning of them


def mask(conversation: Conversation, template: ChatTemplate) -> Masked:
    """What stands behind the last turn that is trained on is left out, since no loss depends on it. Raises TemplateError."""
    turns = [i for i, trained in enumerate(conversation.trained) if trained]
    if not turns:
        return Masked([], False, 0)
    renders = [(count, with_prompt) for turn in turns for count, with_prompt in ((turn, True), (turn + 1, False))]
    texts = _rendered(conversation, template, renders)
    pairs = list(zip(texts[::2], texts[1::2]))  # prompt, conversation with the turn
    whole = pairs[-1][1]
    if all(prompt is not None and turn.startswith(prompt) and whole.startswith(turn) for prompt, turn in pairs):
        return Masked([MaskedText(whole, [Span(len(prompt), len(turn)) for prompt, turn in pairs])], False, 0)
    rows = [MaskedText(turn, [Span(len(prompt), len(turn))])
            for prompt, turn in pairs if prompt is not None and turn.startswith(prompt)]
    return Masked(rows, len(pairs) > 1 and bool(rows), len(pairs) - len(rows))


def _rendered(conversation: Conversation, template: ChatTemplate, renders: list) -> list[Union[str, None]]:
    """None: the prompt of a turn that nothing precedes, which many templates cannot render."""
    try:
        return template.render(conversation.messages, conversation.tools, renders)
    except TemplateError as error:
        if renders[error.render] != (0, True):
            raise
    return [None] + template.render(conversation.messages, conversation.tools, renders[1:])
