"""Text into token ids and one loss bit for each."""

import json
from typing import Any, NamedTuple, Union

import tokenizers

from .errors import InputError
from .masks import MaskedText, Span


class Tokens(NamedTuple):
    ids: list[int]
    trained: bytes  # 0 or 1 for each; never the first


class Piece(NamedTuple):
    """What becomes one document."""

    text: str
    trained: Union[list[Span], None]  # None: all of it
    is_template: bool  # it has its special tokens already; otherwise the tokenizer adds its own, and an end of text


def piece_of(masked: MaskedText) -> Piece:
    return Piece(masked.text, masked.trained, True)


def _with_whole_offsets(part: Any) -> Any:
    """Offsets of tokens then have their leading blanks, so that a token that straddles a boundary shows it."""
    if isinstance(part, dict):
        part = {key: _with_whole_offsets(value) for key, value in part.items()}
        if "trim_offsets" in part:
            part["trim_offsets"] = False
    elif isinstance(part, list):
        part = [_with_whole_offsets(value) for value in part]
    return part


class Tokenizer:
    """`source`: of a tokenizer.json, which stands at `place`."""

    def __init__(self, source: str, place: str, end_of_text: Union[str, None]):
        try:
            parsed = json.loads(source)
            parsed["post_processor"] = _with_whole_offsets(parsed.get("post_processor"))
            self._tokenizer = tokenizers.Tokenizer.from_str(json.dumps(parsed))
        except Exception as error:  # tokenizers raises nothing more special
            raise InputError(f"{place}: is no tokenizer that the library tokenizers reads: {error}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.ids = max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        self.end_of_text = None if end_of_text is None else self._tokenizer.token_to_id(end_of_text)
        if end_of_text is not None and self.end_of_text is None:
            raise InputError(f'{place}: has no token "{end_of_text}", which tokenizer_config.json names as eos_token')

    def encode(self, pieces: list[Piece]) -> list[Tokens]:
        encodings = [None] * len(pieces)
        for is_template in (True, False):
            places = [i for i, piece in enumerate(pieces) if piece.is_template == is_template]
            texts = [pieces[i].text for i in places]
            for i, encoding in zip(places, self._tokenizer.encode_batch(texts, add_special_tokens=not is_template)):
                encodings[i] = encoding
        return [self._masked(piece, encoding) for piece, encoding in zip(pieces, encodings)]

    def _masked(self, piece: Piece, encoding: tokenizers.Encoding) -> Tokens:
        ids = encoding.ids
        trained = bytearray(b"\1" * len(ids) if piece.trained is None else _bits(encoding.offsets, piece.trained))
        if not piece.is_template and self.end_of_text is not None:
            if not ids or ids[-1] != self.end_of_text:
                ids.append(self.end_of_text)
                trained.append(1)
            trained[-1] = 1
        if trained:
            trained[0] = 0
        return Tokens(ids, bytes(trained))

    def decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False)


def _bits(offsets: list[tuple[int, int]], spans: list[Span]) -> bytearray:
    """A token is trained on if all of its characters are; one without characters belongs to what follows it."""
    trained = bytearray(len(offsets))
    remaining = iter(spans)
    span = next(remaining, None)
    for i, (begin, end) in enumerate(offsets):
        while span is not None and span.end <= begin:
            span = next(remaining, None)
        if span is None:
            break
        trained[i] = span.begin <= begin and end <= span.end
    return trained
