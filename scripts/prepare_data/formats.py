"""Records into what is trained on: a conversation, a prompt with its completion, or a text (docs/prepare.md)."""

import json
from dataclasses import dataclass, field
from typing import Any, Callable, Union

from .errors import InputError
from .inputs import Record, parse_json

ROLES = ("system", "developer", "user", "assistant", "tool", "function", "ipython")
SHAREGPT_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "model": "assistant",
                  "system": "system", "observation": "tool", "tool": "tool", "function_call": "assistant"}


@dataclass
class Conversation:
    messages: list[dict[str, Any]]  # as the template gets them
    trained: list[bool]  # one for each message; true only for the assistant's
    tools: Union[list, None] = None


@dataclass
class Completion:
    prompt: str
    completion: str


@dataclass
class Text:
    text: str


Document = Union[Conversation, Completion, Text]


@dataclass
class Format:
    name: str
    needs: tuple[str, ...]  # keys by which a record is known
    keys: tuple[str, ...]  # all that are used
    read: Callable[[dict[str, Any], str], Document] = field(repr=False)


def _text(record: dict[str, Any], key: str, place: str, default: Union[str, None] = None) -> str:
    value = record.get(key, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise InputError(f'{place}: "{key}" is {shown(value)}; a text would be right')
    return value


def shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _content(value: Any, place: str) -> Any:
    """Templates of language models take text; parts of OpenAI's kind are joined where all of them are text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        for part in value:
            if part.get("type") != "text" or not isinstance(part.get("text"), str):
                raise InputError(f'{place}: a part of type {shown(part.get("type"))} in "content"; only "text" can be trained on')
        return "".join(part["text"] for part in value)
    raise InputError(f'{place}: "content" is {shown(value)}; a text, null or a list of text parts would be right')


def _tool_calls(value: Any, place: str) -> Any:
    """OpenAI writes a call's arguments as a text that holds JSON; templates take the object."""
    if not isinstance(value, list) or not all(isinstance(call, dict) for call in value):
        raise InputError(f'{place}: "tool_calls" is {shown(value)}; a list of objects would be right')
    calls = []
    for call in value:
        holder = call = dict(call)
        if isinstance(call.get("function"), dict):
            holder = call["function"] = dict(call["function"])
        if isinstance(holder.get("arguments"), str):
            holder["arguments"] = parse_json(holder["arguments"], f"{place}: arguments of a tool call")
        calls.append(call)
    return calls


def _is_trained(message: dict[str, Any], place: str) -> bool:
    weight = message.get("weight")
    if weight is not None and (isinstance(weight, (bool, str)) or weight not in (0, 1)):
        raise InputError(f'{place}: "weight" is {shown(weight)}; 0 or 1 would be right')
    if weight and message["role"] != "assistant":
        raise InputError(f'{place}: weight 1 on the role {message["role"]}; only the assistant\'s turns are trained on')
    return message["role"] == "assistant" and weight != 0


def _with_thought(message: dict[str, Any]) -> dict[str, Any]:
    """What was thought has three names; templates read one of the first two, and get both, as from transformers."""
    thought = next((message[key] for key in ("reasoning_content", "thinking", "reasoning") if key in message), None)
    return message if thought is None else {"thinking": thought, **message, "reasoning_content": thought}


def _message(value: Any, place: str) -> tuple[dict[str, Any], bool]:
    if not isinstance(value, dict):
        raise InputError(f"{place}: is {shown(value)}; an object with role and content would be right")
    message = {key: part for key, part in value.items() if part is not None or key == "content"}
    role = message.get("role")
    if role not in ROLES:
        raise InputError(f'{place}: the role {shown(role)} is not known; there are {", ".join(ROLES)}')
    if message.get("content") is None and not message.get("tool_calls"):
        raise InputError(f'{place}: has neither "content" nor "tool_calls"')
    trained = _is_trained(message, place)
    message.pop("weight", None)
    if "content" in message:
        message["content"] = _content(message["content"], place)
    if "tool_calls" in message:
        message["tool_calls"] = _tool_calls(message["tool_calls"], place)
    return _with_thought(message), trained


def _messages(values: Any, place: str, name: str = "messages") -> tuple[list[dict[str, Any]], list[bool]]:
    if not isinstance(values, list) or not values:
        raise InputError(f'{place}: "{name}" is {shown(values)}; a list of messages would be right')
    pairs = [_message(value, f"{place}, message {number + 1}") for number, value in enumerate(values)]
    return [message for message, _ in pairs], [trained for _, trained in pairs]


def _tools(record: dict[str, Any], place: str) -> Union[list, None]:
    tools = record.get("tools")
    if isinstance(tools, str) and tools.strip():
        tools = parse_json(tools, f"{place}: tools")
    if not tools:
        return None
    if not isinstance(tools, list):
        raise InputError(f'{place}: "tools" is {shown(tools)}; a list would be right')
    return tools


def _read_messages(record: dict[str, Any], place: str) -> Document:
    messages, trained = _messages(record["messages"], place)
    return Conversation(messages, trained, _tools(record, place))


def _read_completion(record: dict[str, Any], place: str) -> Document:
    prompt, completion = record["prompt"], record["completion"]
    if isinstance(prompt, str) and isinstance(completion, str):
        if record.get("tools"):
            raise InputError(f'{place}: "tools" beside a prompt that is a text: nothing says how they are to be written')
        return Completion(prompt, completion)
    if not isinstance(prompt, list) or not isinstance(completion, list):
        raise InputError(f'{place}: "prompt" and "completion" are both texts or both lists of messages')
    before, _ = _messages(prompt, place, "prompt")
    messages, trained = _messages(completion, place, "completion")
    return Conversation(before + messages, [False] * len(before) + trained, _tools(record, place))


def _read_alpaca(record: dict[str, Any], place: str) -> Document:
    turns: list[tuple[str, str]] = []
    if system := _text(record, "system", place, ""):
        turns.append(("system", system))
    history = record.get("history") or []
    if not isinstance(history, list):
        raise InputError(f'{place}: "history" is {shown(history)}; a list of pairs would be right')
    for pair in history:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise InputError(f'{place}: "history" has {shown(pair)}; pairs of texts would be right')
        turns += [("user", pair[0]), ("assistant", pair[1])]
    question = _text(record, "instruction", place)
    if more := _text(record, "input", place, ""):
        question += "\n" + more
    turns += [("user", question), ("assistant", _text(record, "output", place))]
    return Conversation([{"role": role, "content": text} for role, text in turns],
                        [role == "assistant" for role, _ in turns])


def _sharegpt_message(value: Any, place: str) -> dict[str, Any]:
    if isinstance(value, dict) and "role" in value and "content" in value:
        return value
    if not isinstance(value, dict) or not isinstance(value.get("value"), str):
        raise InputError(f'{place}: is {shown(value)}; an object with "from" and "value" would be right')
    sender, text = value.get("from"), value["value"]
    if sender not in SHAREGPT_ROLES:
        raise InputError(f'{place}: the role {shown(sender)} is not known; there are {", ".join(SHAREGPT_ROLES)}')
    message: dict[str, Any] = {"role": SHAREGPT_ROLES[sender], "content": text, "weight": value.get("weight")}
    if sender == "function_call":
        calls = parse_json(text, place)
        message["content"] = None
        calls = calls if isinstance(calls, list) else [calls]
        message["tool_calls"] = [{"type": "function", "function": call} for call in calls]
    return message


def _read_sharegpt(record: dict[str, Any], place: str) -> Document:
    turns = record["conversations"]
    if not isinstance(turns, list) or not turns:
        raise InputError(f'{place}: "conversations" is {shown(turns)}; a list of turns would be right')
    values = [_sharegpt_message(turn, f"{place}, message {number + 1}") for number, turn in enumerate(turns)]
    if system := _text(record, "system", place, ""):
        values.insert(0, {"role": "system", "content": system})
    messages, trained = _messages(values, place, "conversations")
    return Conversation(messages, trained, _tools(record, place))


def _read_text(record: dict[str, Any], place: str) -> Document:
    return Text(_text(record, "text", place))


FORMATS = {
    each.name: each
    for each in (
        Format("messages", ("messages",), ("messages", "tools"), _read_messages),
        Format("sharegpt", ("conversations",), ("conversations", "system", "tools"), _read_sharegpt),
        Format("completion", ("prompt", "completion"), ("prompt", "completion", "tools"), _read_completion),
        Format("alpaca", ("instruction", "output"), ("instruction", "input", "output", "system", "history"), _read_alpaca),
        Format("text", ("text",), ("text",), _read_text),
    )
}


def told_format(record: Record) -> Format:
    """The one whose keys the record has; the first record decides for its file."""
    if not isinstance(record.value, dict):
        raise InputError(f"{record.place}: is {shown(record.value)}; an object would be right")
    found = [each for each in FORMATS.values() if all(key in record.value for key in each.needs)]
    if len(found) == 1:
        return found[0]
    keys = ", ".join(record.value) or "none"
    if found:
        raise InputError(f'{record.place}: has the keys of {" and of ".join(each.name for each in found)}; say --format')
    raise InputError(f"{record.place}: has the keys {keys}; known are "
                     + ", ".join("+".join(each.needs) for each in FORMATS.values()))


def read_document(record: Record, how: Format) -> Document:
    if not isinstance(record.value, dict):
        raise InputError(f"{record.place}: is {shown(record.value)}; an object would be right")
    for key in how.needs:
        if key not in record.value:
            raise InputError(f'{record.place}: has no "{key}", which records of the format {how.name} have')
    return how.read(record.value, record.place)
