"""The work: every record of every input into documents of the token file."""

import hashlib
from typing import Iterator, NamedTuple, Union

from .errors import InputError
from .formats import FORMATS, Completion, Conversation, Document, Format, Text, read_document, told_format
from .inputs import Record, is_json_object, read_records
from .masks import Masked, Span, mask
from .model_folder import ModelFolder, Templates
from .report import InputReport, Report, show_row
from .sources import Source
from .template import TemplateError
from .token_file import REFUSE, SPLIT, TRUNCATE, TokenFileWriter
from .tokens import Piece, Tokens, piece_of

_BATCH_CHARACTERS = 1 << 20  # tokenised at once, on all cores


class Settings(NamedTuple):
    row_length: int
    truncate: bool
    format: Union[str, None]  # "plain": whole files are texts; None: told by the first record
    seed: int
    show: int


def _require_text(text: str, place: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{place}: has half of a surrogate pair (\\ud800 to \\udfff), which is no text") from None


class _Waiting(NamedTuple):
    place: str
    piece: Piece
    copies: int
    is_text: bool


class Preparation:
    def __init__(self, model: ModelFolder, templates: Templates, settings: Settings, writer: TokenFileWriter):
        self.model, self.templates, self.settings, self.writer = model, templates, settings, writer
        self.report = Report()
        self._shown = 0

    def take(self, number: int, source: Source) -> None:
        """`number`: of the input, so that two equal ones draw their shares apart."""
        report = InputReport(source.path, source.weight)
        self.report.inputs.append(report)
        waiting: list[_Waiting] = []
        characters = 0
        for each in self._pieces(number, source, report):
            waiting.append(each)
            characters += len(each.piece.text)
            if characters > _BATCH_CHARACTERS:
                self._add(waiting, report)
                waiting, characters = [], 0
        self._add(waiting, report)

    def _records(self, path: str, report: InputReport) -> Iterator[tuple[Record, Format]]:
        plain = self.settings.format == "plain" or (
            self.settings.format is None and not path.endswith((".json", ".jsonl", ".ndjson", ".parquet")))
        how = FORMATS["text"] if plain else FORMATS.get(self.settings.format or "")
        before = report.records
        for record in read_records(path, plain):
            if plain and self.settings.format is None and is_json_object(record.value["text"].partition("\n")[0]):
                raise InputError(f"{path}: is no .jsonl by its name, and its first line is a record; say --format: "
                                 f'{", ".join(FORMATS)}, or plain for one text')
            how = how or told_format(record)
            report.formats.setdefault("plain text" if plain else how.name)
            report.records += 1
            yield record, how
        if report.records == before:
            raise InputError(f"{path}: has no records")

    def _pieces(self, number: int, source: Source, report: InputReport) -> Iterator[_Waiting]:
        for path in source.passed_over:
            self.report.tally("passed over in a folder, for it is hidden, empty, no file or a link to a folder", path)
        for record, how in (each for path in source.files for each in self._records(path, report)):
            document = read_document(record, how)
            report.unused_keys.update(key for key in record.value if key not in how.keys)
            copies = self._copies(number, report.records, source.weight)
            if copies == 0:
                self.report.tally("records left out by their weight", record.place)
                continue
            for piece in self._rendered(document, record.place):
                _require_text(piece.text, record.place)
                yield _Waiting(record.place, piece, copies, isinstance(document, Text))

    def _copies(self, number: int, record: int, weight: float) -> int:
        whole = int(weight)
        # XXH3 would not do: of a few bytes it makes of another seed the same draws in another order.
        draw = hashlib.blake2b(f"{self.settings.seed}:{number}:{record}".encode(), digest_size=8).digest()
        return whole + (1 if int.from_bytes(draw, "little") < (weight - whole) * 2**64 else 0)

    def _rendered(self, document: Document, place: str) -> list[Piece]:
        if isinstance(document, Text):
            return [Piece(document.text, None, False)]
        if isinstance(document, Completion):
            span = Span(len(document.prompt), len(document.prompt) + len(document.completion))
            return [Piece(document.prompt + document.completion, [span], False)]
        return self._conversation(document, place)

    def _conversation(self, conversation: Conversation, place: str) -> list[Piece]:
        if not any(conversation.trained):
            self.report.tally("dropped, no turn of the assistant to train on", place)
            return []
        try:
            masked = mask(conversation, self.templates.of(conversation, place))
        except TemplateError as error:
            raise InputError(f"{place}: the chat template {'refuses it' if error.raised else 'fails'}: {error}") from None
        if masked.refused_turns:
            self.report.tally("dropped turns, whose prompt (with the generation prompt) does not begin them", place,
                              masked.refused_turns)
        if masked.is_split:
            self.report.tally("conversations split by turn, as later turns change how earlier ones are shown", place)
        self._tally_what_is_not_shown(conversation, masked, place)
        return [piece_of(text) for text in masked.texts]

    def _tally_what_is_not_shown(self, conversation: Conversation, masked: Masked, place: str) -> None:
        """A template may pass over a role, or write content otherwise: said, because nothing else shows it."""
        last = max(i for i, trained in enumerate(conversation.trained) if trained)
        for number, message in enumerate(conversation.messages[:last + 1]):
            content = message.get("content")
            if masked.texts and content and not any(content.strip() in each.text for each in masked.texts):
                self.report.tally("messages whose content the template does not show as it is",
                                  f"{place}, message {number + 1}")

    def _add(self, waiting: list[_Waiting], report: InputReport) -> None:
        encoded = self.model.tokenizer.encode([each.piece for each in waiting])
        for each, tokens in zip(waiting, encoded):
            document = self._fitted(each, tokens)
            if document is None:
                continue
            if self._shown < self.settings.show:
                self._shown += 1
                show_row(document, self.model.tokenizer, each.place)
            rule = SPLIT if each.is_text else TRUNCATE if self.settings.truncate else REFUSE
            for _ in range(each.copies):
                self.writer.add(document, rule)
                report.add(document)

    def _fitted(self, each: _Waiting, document: Tokens) -> Union[Tokens, None]:
        """A row holds one token more than its length: the last is only a target. Texts are split where rows are made."""
        most = self.settings.row_length + 1
        if not each.is_text and len(document.ids) > most:
            if not self.settings.truncate:
                self.report.tally(f"dropped, longer than a row of {self.settings.row_length:,} tokens",
                                  f"{each.place} ({len(document.ids):,} tokens)")
                return None
            self.report.tally(f"truncated to a row of {self.settings.row_length:,} tokens",
                              f"{each.place} ({len(document.ids):,} tokens)")
            document = Tokens(document.ids[:most], document.trained[:most])
        if not any(document.trained):
            self.report.tally("dropped, no token to train on", each.place)
            return None
        return document


def prepare(model: ModelFolder, templates: Templates, settings: Settings, sources: list[Source], output: str) -> None:
    writer = TokenFileWriter(output, model.vocabulary, settings.row_length, model.name, model.tokenizer_hash)
    try:
        work = Preparation(model, templates, settings, writer)
        for number, source in enumerate(sources):
            work.take(number, source)
        work.report.print_table()
        if writer.trained == 0:
            raise InputError(f"{output}: not written: no token is left to train on")
        size = writer.commit()
    finally:
        writer.discard()
    print(f"wrote {output}: {size:,} bytes, vocabulary of {model.vocabulary:,} ids, tokenizer of {model.name}")
    for template in templates.started.values():
        date = "; it asked for today's date (--date fixes it)" if template.asked_for_date else ""
        print(f"chat template: {template.place}{date}")
