"""Which records are read, and as what."""

import json
import os
import unittest

from small_model import PrepareTest, assistant, user

NAMES = "{% for m in messages %}{{ m['role'] }}={{ m['content'] }}{% if m['tool_calls'] %}{{ m['tool_calls'] | tojson }}{% endif %};{% endfor %}"
WITH_TOOLS = "{{ tools | tojson if tools else '' }}" + NAMES + "{% if add_generation_prompt %}assistant={% endif %}"


class Formats(PrepareTest):
    def rendered(self, record, name="r.jsonl", template=WITH_TOOLS):
        self.write_template(template)
        return self.texts(self.prepared(self.write_lines(name, [record])))[0]

    def test_alpaca(self):
        self.assertEqual(self.rendered({"instruction": "i", "input": "n", "output": "o", "system": "s", "history": [["q", "a"]]}),
                         ("system=s;user=q;assistant=a;user=i\nn;assistant=o;", "a;o;"))
        self.assertEqual(self.rendered({"instruction": "i", "input": "", "output": "o"})[0], "user=i;assistant=o;")

    def test_sharegpt(self):
        turns = [{"from": "human", "value": "h"}, {"from": "function_call", "value": '{"name":"f","arguments":{"x":1}}'},
                 {"from": "observation", "value": "7"}, {"from": "gpt", "value": "g"}]
        text, trained = self.rendered({"conversations": turns, "system": "s", "tools": '[{"name":"f"}]'})
        call = '[{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]'
        self.assertEqual(text, f'[{{"name": "f"}}]system=s;user=h;assistant=None{call};tool=7;assistant=g;')
        self.assertEqual(trained, f"None{call};g;")

    def test_arguments_of_a_call_reach_the_template_as_an_object(self):
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
        text, _ = self.rendered({"messages": [user("q"), {"role": "assistant", "content": None, "tool_calls": [call]}]})
        self.assertIn('"arguments": {"x": 1}', text)

    def test_parts_of_text_are_joined(self):
        parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        self.assertEqual(self.rendered({"messages": [user(parts), assistant("c")]})[0], "user=ab;assistant=c;")

    def test_array_bom_blank_lines_and_crlf(self):
        self.write_template(NAMES + "{% if add_generation_prompt %}assistant={% endif %}")
        record = {"messages": [user("a"), assistant("b")]}
        array = self.write("a.json", json.dumps([record, record], indent=1))
        lines = self.write("l.jsonl", b"\xef\xbb\xbf" + json.dumps(record).encode() + b"\r\n\r\n" + json.dumps(record).encode())
        self.assertEqual(self.texts(self.prepared(array, lines)), [("user=a;assistant=b;", "b;")] * 4)

    def test_a_folder_is_all_files_below_it_in_the_order_of_their_paths(self):
        for name, text in (("b.txt", "b"), ("a/c.txt", "c"), ("a-b.txt", "d"), (".git/e.txt", "e"), (".f", "f"), ("g.txt", "")):
            self.write("texts/" + name, text)
        self.write_lines("texts/h.jsonl", [{"text": "h"}])
        os.symlink(self.path("texts/a"), self.path("texts/i"))
        self.assertEqual([text for text, _ in self.texts(self.prepared(self.path("texts")))],
                         [letter + "<|eos|>" for letter in "cdbh"])
        self.assertIn(self.path("texts") + " (plain text, text)", self.output)
        self.assertIn("passed over in a folder, for it is hidden, empty, no file or a link to a folder: 4, first "
                      + self.path("texts/.f"), self.output)
        self.assertEqual(len(self.prepared(self.path("texts") + "@2").documents), 8)

    def test_template_by_name_and_from_a_file(self):
        self.write_template([{"name": "default", "template": "D" + NAMES + "{% if add_generation_prompt %}assistant={% endif %}"},
                             {"name": "tool_use", "template": "T" + WITH_TOOLS}])
        plain = {"messages": [user("a"), assistant("b")]}
        path = self.write_lines("r.jsonl", [plain, {**plain, "tools": [{"name": "f"}]}])
        self.assertEqual([text[0] for text, _ in self.texts(self.prepared(path))], ["D", "T"])
        self.write("model/chat_template.jinja", "F" + WITH_TOOLS)
        self.assertEqual([text[0] for text, _ in self.texts(self.prepared(path))], ["F", "F"])
        other = self.write("other.jinja", "O" + WITH_TOOLS)
        self.assertEqual([text[0] for text, _ in self.texts(self.prepared(path, "--chat-template", other))], ["O", "O"])

    def test_special_tokens_and_date_reach_the_template(self):
        self.write_template("{{ eos_token }}{{ strftime_now('%d %b %Y') }};" + WITH_TOOLS)
        path = self.write_lines("r.jsonl", [{"messages": [user("a"), assistant("b")]}])
        text = self.texts(self.prepared(path, "--date", "2024-07-26"))[0][0]
        self.assertEqual(text, "<|eos|>26 Jul 2024;user=a;assistant=b;")
        self.assertIn("asked for today's date", self.output)

    def test_weights(self):
        one = self.write_lines("one.jsonl", [{"text": "aa"}])
        many = self.write_lines("many.jsonl", [{"text": f"b{i}"} for i in range(400)])
        texts = [text for text, _ in self.texts(self.prepared(one + "@3", many + "@0.25"))]
        self.assertEqual(texts.count("aa<|eos|>"), 3)
        drawn = texts[3:]
        self.assertEqual(len(set(drawn)), len(drawn))
        self.assertTrue(60 <= len(drawn) <= 140, len(drawn))  # 100 expected, standard deviation 8.7
        again = [text for text, _ in self.texts(self.prepared(one + "@3", many + "@0.25"))]
        self.assertEqual(again, texts)
        other = [text for text, _ in self.texts(self.prepared(one + "@3", many + "@0.25", "--seed", "2"))]
        self.assertNotEqual(other, texts)

    def test_seeds_draw_apart_where_there_are_few_records(self):
        few = self.write_lines("few.jsonl", [{"text": f"b{i}"} for i in range(6)])
        drawn = [len(self.prepared(few + "@0.5", "--seed", seed).documents) for seed in "1234"]
        self.assertGreater(len(set(drawn)), 1, drawn)

    def test_keys_that_play_no_part_are_said(self):
        path = self.write_lines("r.jsonl", [{"messages": [user("a"), assistant("b")], "id": 1}])
        self.prepared(path)
        self.assertIn(f"keys of {path} that play no part: id (1)", self.output)

    def test_parquet_without_pyarrow_says_what_to_install(self):
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            self.assertIn("pip install pyarrow", self.refused(self.write("r.parquet", "PAR1")))


class Files(PrepareTest):
    def test_header_and_sections(self):
        path = self.write_lines("r.jsonl", [{"messages": [user("a"), assistant("b")]}, {"messages": [user("a"), assistant("bb")]}])
        written = self.prepared(path, row_length=100)
        self.assertEqual((written.magic, written.version), (b"\x89PTOK\r\n\x1a", 1))
        self.assertEqual((written.row_length, written.vocabulary, written.name), (100, 300, "model"))
        self.assertTrue(written.ends_there)
        sizes = [len(ids) for ids, _ in written.documents]
        self.assertEqual(written.lengths, [(sizes[0], 1), (sizes[1], 1)])
        self.assertEqual(sizes[1], sizes[0] + 1)
        self.assertEqual(written.trained_count, sum(sum(bits) for _, bits in written.documents))
        self.assertEqual(written.long, [0, 0])

    def test_bytes_are_those_that_the_reader_is_tested_with(self):
        """shared/data/token_file.h reads this file in token_file_test.cpp. Where the format changes: copy it there."""
        chats = self.write_lines("r.jsonl", [{"messages": [user("a"), assistant("the"), user("c"), assistant("dd", weight=0)]},
                                             {"messages": [user("b"), assistant("the the the")]}])
        self.prepared(chats + "@2", self.write("t.txt", "some text"), "--truncate", row_length=30)
        golden = os.path.join(os.path.dirname(__file__), "../../fuzz/seeds/token_file/prepared.tokens")
        with open(golden, "rb") as expected, open(self.path("out.tokens"), "rb") as found:
            self.assertEqual(found.read(), expected.read())

    def test_same_input_same_bytes(self):
        path = self.write_lines("r.jsonl", [{"text": f"text {i}"} for i in range(50)])
        self.prepared(path)
        with open(self.path("out.tokens"), "rb") as file:
            first = file.read()
        self.prepared(path)
        with open(self.path("out.tokens"), "rb") as file:
            self.assertEqual(file.read(), first)

    def test_wide_ids(self):
        self.write("model/config.json", {"vocab_size": 70000})
        written = self.prepared(self.write("t.txt", "abc"))
        self.assertEqual(self.texts(written), [("abc<|eos|>", "bc<|eos|>")])

    def test_long_conversations_are_dropped_or_cut(self):
        path = self.write_lines("r.jsonl", [{"messages": [user("a"), assistant("b" * 50)]}, {"messages": [user("a"), assistant("b")]},
                                            {"messages": [user("a" * 80), assistant("b")]}])
        written = self.prepared(path, row_length=30)
        self.assertEqual(len(written.documents), 1)
        self.assertIn("dropped, longer than a row of 30 tokens: 2, first " + path + ":1", self.output)
        written = self.prepared(path, "--truncate", row_length=30)
        self.assertEqual([len(ids) for ids, _ in written.documents], [31, len(written.documents[1][0])])
        self.assertEqual(written.long, [1, 1])
        self.assertIn("truncated to a row of 30 tokens: 2", self.output)
        self.assertIn("dropped, no token to train on: 1, first " + path + ":3", self.output)

    def test_row_holds_one_token_more_than_its_length(self):
        path = self.write_lines("r.jsonl", [{"messages": [user("a"), assistant("b")]}])
        size = len(self.prepared(path).documents[0][0])
        self.assertEqual(len(self.prepared(path, row_length=size - 1).documents), 1)
        self.assertIn("longer than a row", self.run_prepare(path, row_length=size - 2)[1])

    def test_show_marks_what_is_trained_on_and_moves_no_cursor(self):
        path = self.write_lines("r.jsonl", [{"messages": [user("\u001b[2Jq"), assistant("b")]}] * 3)
        self.prepared(path, "--show", "2")
        self.assertEqual(self.output.count("[[b<|end|>\n]]"), 2)
        self.assertIn("\\x1b[2Jq", self.output)
        self.assertNotIn("\u001b", self.output)


if __name__ == "__main__":
    unittest.main()
