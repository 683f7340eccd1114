"""Which tokens are trained on."""

import unittest

from prepare_data.masks import Span
from prepare_data.tokens import Piece
from prepare_data.tokens import Tokenizer as PreparedTokenizer
from tokenizers import AddedToken, Tokenizer, models, normalizers

from small_model import PrepareTest, assistant, user


class Masks(PrepareTest):
    def chats(self, *conversations, **more):
        return self.write_lines("chats.jsonl", [{"messages": list(messages), **more} for messages in conversations])

    def test_turn_is_what_its_prompt_has_not(self):
        written = self.prepared(self.chats([user("a"), assistant("b"), user("c"), assistant("d")]))
        self.assertEqual(self.texts(written), [(
            "<|start|>user\na<|end|>\n<|start|>assistant\nb<|end|>\n<|start|>user\nc<|end|>\n<|start|>assistant\nd<|end|>\n",
            "b<|end|>\nd<|end|>\n")])

    def test_weight_0_is_not_trained_on(self):
        written = self.prepared(self.chats([user("a"), assistant("b", weight=0), user("c"), assistant("d", weight=1)]))
        self.assertEqual(self.texts(written)[0][1], "d<|end|>\n")

    def test_nothing_stands_behind_the_last_trained_turn(self):
        written = self.prepared(self.chats([user("a"), assistant("b"), user("c"), assistant("d", weight=0), user("e")]))
        self.assertEqual(self.texts(written), [("<|start|>user\na<|end|>\n<|start|>assistant\nb<|end|>\n", "b<|end|>\n")])

    def test_token_that_the_prompt_supplies_in_part_is_not_trained_on(self):
        # " the" is one token; its blank ends the prompt.
        self.write_template("{% for m in messages %}{% if m['role'] == 'user' %}[{{ m['content'] }}] {% else %}"
                            "{{ m['content'] }}<|end|>{% endif %}{% endfor %}")
        written = self.prepared(self.chats([user("x"), assistant("the the")]))
        self.assertEqual(self.texts(written), [("[x] the the<|end|>", " the<|end|>")])
        ids = written.documents[0][0]
        self.assertEqual(ids.count(self.tokenizer.token_to_id("\u0120the")), 2)

    def test_blank_that_begins_the_turn_is_trained_on(self):
        self.write_template("{% for m in messages %}{% if m['role'] == 'user' %}[{{ m['content'] }}]{% else %}"
                            " {{ m['content'] }}<|end|>{% endif %}{% endfor %}")
        self.assertEqual(self.texts(self.prepared(self.chats([user("x"), assistant("the")]))),
                         [("[x] the<|end|>", " the<|end|>")])

    def test_characters_of_several_tokens_are_trained_on_whole(self):
        written = self.prepared(self.chats([user("🙂"), assistant("é🙂é")]))
        self.assertEqual(self.texts(written)[0][1], "é🙂é<|end|>\n")

    def test_what_the_generation_prompt_supplies_is_not_trained_on(self):
        self.write_template(
            "{% for m in messages %}{% if m['role'] == 'user' %}U:{{ m['content'] }}\n{% else %}A:<think></think>"
            "{{ m['content'] }}<|end|>\n{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}A:{% if not thinking %}<think></think>{% endif %}{% endif %}")
        chats = self.chats([user("x"), assistant("y")])
        self.assertEqual(self.texts(self.prepared(chats))[0][1], "y<|end|>\n")
        written = self.prepared(chats, "--template-arg", "thinking=true")
        self.assertEqual(self.texts(written)[0][1], "<think></think>y<|end|>\n")

    # As Qwen3: what the assistant thought is shown in the last turn only.
    FORGETFUL = ("{% for m in messages %}{{ m['role'][0] }}:{% if loop.last or m['role'] == 'user' %}{{ m['content'] }}{% else %}"
                 "{{ m['content'].split('/')[-1] }}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}a:{% endif %}")

    def test_conversation_that_is_shown_otherwise_later_is_split_by_turn(self):
        self.write_template(self.FORGETFUL)
        written = self.prepared(self.chats([user("x"), assistant("hm/y"), user("z"), assistant("oh/w")]))
        self.assertEqual(self.texts(written), [("u:x<|end|>a:hm/y<|end|>", "hm/y<|end|>"),
                                               ("u:x<|end|>a:y<|end|>u:z<|end|>a:oh/w<|end|>", "oh/w<|end|>")])
        self.assertIn("split by turn", self.output)

    def test_turn_whose_prompt_does_not_begin_it_is_refused(self):
        # As QwQ: the generation prompt opens a thought that the rendered turn does not have.
        self.write_template("{% for m in messages %}{{ m['role'][0] }}:{{ m['content'] }}<|end|>{% endfor %}"
                            "{% if add_generation_prompt %}a:<think>{% endif %}")
        text = self.refused(self.chats([user("x"), assistant("y")]))
        self.assertIn("no token is left to train on", text)
        written = self.prepared(self.chats([user("x"), assistant("y")], [user("x"), assistant("<think>y")]))
        self.assertEqual(self.texts(written), [("u:x<|end|>a:<think>y<|end|>", "y<|end|>")])
        self.assertIn("dropped turns, whose prompt (with the generation prompt) does not begin them: 1, first "
                      + self.path("chats.jsonl") + ":1", self.output)

    def test_message_that_the_template_passes_over_is_said(self):
        self.write_template("{% for m in messages if m['role'] != 'system' %}{{ m['content'] }};{% endfor %}")
        self.prepared(self.chats([{"role": "system", "content": "s y s"}, user("a"), assistant("b")]))
        self.assertIn("messages whose content the template does not show as it is: 1, first " + self.path("chats.jsonl")
                      + ":1, message 1", self.output)

    def test_generation_tags_change_nothing(self):
        self.write_template(CHAT_WITH_TAGS)
        written = self.prepared(self.chats([user("a"), assistant("b")]))
        self.assertEqual(self.texts(written), [("u:a<|end|>a:b<|end|>", "b<|end|>")])

    def test_prompt_and_completion(self):
        path = self.write_lines("c.jsonl", [{"prompt": "q ", "completion": "the"}, {"prompt": "", "completion": "xy"},
                                            {"prompt": [user("a"), assistant("b"), user("c")], "completion": [assistant("d")]}])
        self.assertEqual([trained for _, trained in self.texts(self.prepared(path))],
                         ["<|eos|>", "y<|eos|>", "d<|end|>\n"])  # " the" straddles; nothing predicts x

    def test_text_is_trained_on_but_for_its_first_token(self):
        written = self.prepared(self.write("a.txt", "the x"), self.write_lines("t.jsonl", [{"text": "y"}, {"text": "z<|eos|>"}]))
        self.assertEqual(self.texts(written), [("the x<|eos|>", " x<|eos|>"), ("y<|eos|>", "<|eos|>"), ("z<|eos|>", "<|eos|>")])
        self.assertEqual(written.long, [2, 2, 2])


class OtherTokenizers(unittest.TestCase):
    """Those that write blanks as \u2581, put one in front, and fall back to bytes, as Llama 2's does."""

    def test_blanks_in_front_and_bytes(self):
        tokens = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *"abtheys:", "\u2581t", "\u2581th"]
        made = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, byte_fallback=True, unk_token="<unk>",
                                    merges=[("\u2581", "t"), ("\u2581t", "h")]))
        made.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        made.add_special_tokens([AddedToken("</s>", normalized=False)])
        read = PreparedTokenizer(made.to_str(), "here", None)
        text = "a: the</s>yes\U0001f642</s>a"
        # One turn begins in the middle of " the", the other behind </s>, whose blank in front is the turn's.
        spans = [Span(3, 6), Span(10, 18)]
        ids, trained = read.encode([Piece(text, spans, True)])[0]
        of_turns = [made.id_to_token(i) for i, bit in zip(ids, trained) if bit]
        self.assertEqual(of_turns, ["e", "\u2581", "y", "e", "s", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>", "</s>"])


CHAT_WITH_TAGS = ("{% for m in messages %}{{ m['role'][0] }}:{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] }}<|end|>"
                  "{% endgeneration %}{% else %}{{ m['content'] }}<|end|>{% endif %}{% endfor %}"
                  "{% if add_generation_prompt %}a:{% endif %}")

if __name__ == "__main__":
    unittest.main()
