"""What a model's folder says about its tokens: config.json, tokenizer.json, tokenizer_config.json, chat template."""

import os
from typing import Any, Union

import xxhash

from .errors import InputError
from .formats import Conversation
from .inputs import decoded, open_regular, read_json_file
from .template import ChatTemplate
from .tokens import Tokenizer

_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def _read(path: str) -> bytes:
    with open_regular(path) as file:
        return file.read()


class ModelFolder:
    def __init__(self, folder: str):
        if not os.path.isdir(folder):
            raise InputError(f"--model {folder}: is no folder; a model's has config.json and tokenizer.json")
        self.folder = folder
        self.name = os.path.basename(os.path.realpath(folder))
        self.vocabulary, self.positions = self._limits()
        self.settings = self._optional_json("tokenizer_config.json")
        self.special = self._special_tokens()
        path = os.path.join(folder, "tokenizer.json")
        source = _read(path)
        self.tokenizer_hash = xxhash.xxh3_64_intdigest(source)
        self.tokenizer = Tokenizer(decoded(source, path), path, self.special.get("eos_token"))
        if self.tokenizer.ids > self.vocabulary:
            raise InputError(f"{path}: has ids up to {self.tokenizer.ids - 1}, the model's vocabulary (config.json) has "
                             f"{self.vocabulary}: it is another model's tokenizer")

    def files(self, template: Union[str, None]) -> list[str]:
        """What is read of the folder and beside it, there or not."""
        return [os.path.join(self.folder, name) for name in _FILES] + ([template] if template else [])

    def _optional_json(self, name: str) -> dict[str, Any]:
        path = os.path.join(self.folder, name)
        value = read_json_file(path) if os.path.lexists(path) else {}
        if not isinstance(value, dict):
            raise InputError(f"{path}: an object would be right")
        return value

    def _limits(self) -> tuple[int, Union[int, None]]:
        path = os.path.join(self.folder, "config.json")
        config = read_json_file(path)
        if isinstance(config, dict) and "vocab_size" not in config and isinstance(config.get("text_config"), dict):
            config = config["text_config"]
        vocabulary = config.get("vocab_size") if isinstance(config, dict) else None
        if type(vocabulary) is not int or not 1 <= vocabulary <= 1 << 31:
            raise InputError(f'{path}: "vocab_size" is {vocabulary}; the number of the model\'s token ids would be right')
        positions = config.get("max_position_embeddings")
        if positions is not None and (type(positions) is not int or positions < 1):
            raise InputError(f'{path}: "max_position_embeddings" is {positions}; a number of tokens would be right')
        return vocabulary, positions

    def _special_tokens(self) -> dict[str, Any]:
        found = {}
        for name, value in {**self._optional_json("special_tokens_map.json"), **self.settings}.items():
            if isinstance(value, dict):
                value = value.get("content")
            if name in _SPECIAL and isinstance(value, str):
                found[name] = value
        return found

    def templates(self, file: Union[str, None], name: Union[str, None], arguments: dict[str, Any],
                  date: str) -> "Templates":
        return Templates(self._template_sources(file, name), {**self.special, **arguments}, date)

    def _template_sources(self, file: Union[str, None], name: Union[str, None]) -> dict[str, tuple[str, str]]:
        """(place, source) by name; as transformers has it, a file goes before tokenizer_config.json."""
        own = os.path.join(self.folder, "chat_template.jinja")
        path = file or (own if os.path.lexists(own) else None)
        if path is not None:
            if name:
                raise InputError(f"--template-name {name}: {path} has one template, without a name")
            return {"default": (path, decoded(_read(path), path))}
        place = os.path.join(self.folder, "tokenizer_config.json")
        value = self.settings.get("chat_template")
        if value is None:
            return {}
        if isinstance(value, str):
            value = [{"name": "default", "template": value}]
        if not isinstance(value, list) or not all(
                isinstance(each, dict) and isinstance(each.get("name"), str) and isinstance(each.get("template"), str)
                for each in value):
            raise InputError(f'{place}: "chat_template" is neither a text nor a list of names and templates')
        sources = {each["name"]: (f'{place}, chat_template "{each["name"]}"', each["template"]) for each in value}
        if name and name not in sources:
            raise InputError(f'--template-name {name}: {place} has {", ".join(sources)}')
        return {"default": sources[name]} if name else sources


class Templates:
    """Started when a conversation first needs one."""

    def __init__(self, sources: dict[str, tuple[str, str]], arguments: dict[str, Any], date: str):
        self._sources, self._arguments, self._date = sources, arguments, date
        self.started: dict[str, ChatTemplate] = {}

    def of(self, conversation: Conversation, place: str) -> ChatTemplate:
        """As transformers chooses: "tool_use" for conversations with tools where there is one, else "default"."""
        name = "tool_use" if conversation.tools and "tool_use" in self._sources else "default"
        if name not in self._sources:
            known = f'; there are {", ".join(self._sources)}: say --template-name' if self._sources else ""
            raise InputError(f'{place}: is a conversation, and the model\'s folder has no {"default " if known else ""}chat '
                             f"template{known or '; name one with --chat-template FILE'}")
        if name not in self.started:
            where, source = self._sources[name]
            self.started[name] = ChatTemplate(source, where, self._arguments, self._date)
        template = self.started[name]
        has_calls = any(message.get("tool_calls") for message in conversation.messages)
        for key, ignored in (("tools", conversation.tools and not template.shows_tools),
                             ("tool_calls", has_calls and not template.shows_tool_calls)):
            if ignored:
                raise InputError(f'{place}: has "{key}", of which {template.place} makes no use: they would be ignored')
        return template

    def close(self) -> None:
        for template in self.started.values():
            template.close()
