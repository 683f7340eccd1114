"""Bad input ends with exit code 2, names the place, and leaves nothing behind."""

import os
import unittest

from prepare_data.errors import InputError
from prepare_data.template import ChatTemplate, TemplateError
from small_model import CHATML, PrepareTest, assistant, user


class BadRecords(PrepareTest):
    def test_each_is_named_with_its_line(self):
        good = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
        for line, says in (
            ('{"messages": [', "is not JSON"),
            ('[1, 2]', "an object would be right"),
            ('{"messages": [], "messages": []}', 'the key "messages" is there twice'),
            ('{"messages": [{"role": "user", "role": "user", "content": ""}]}', 'the key "role" is there twice'),
            ('{"messages": []}', "a list of messages would be right"),
            ('{"messages": "hello"}', "a list of messages would be right"),
            ('{"text": "a"}', 'has no "messages"'),
            ('{"messages": [{"role": "human", "content": "a"}]}', 'message 1: the role "human" is not known'),
            ('{"messages": [{"content": "a"}]}', "the role null is not known"),
            ('{"messages": [{"role": "user"}]}', 'has neither "content" nor "tool_calls"'),
            ('{"messages": [{"role": "user", "content": 3}]}', '"content" is 3'),
            ('{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', 'a part of type "image_url"'),
            ('{"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]}', '"weight" is 0.5; 0 or 1'),
            ('{"messages": [{"role": "user", "content": "a", "weight": 1}]}', "weight 1 on the role user"),
            ('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "\\ud800"}]}', "surrogate"),
            ('{"messages": [{"role": "user", "content": NaN}]}', "NaN is not JSON"),
            ('{"messages": ' + "[" * 100000 + "}", "cannot be read as JSON"),
            ('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "tools": [{"name": "f"}]}',
             'has "tools", of which'),
            ('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"name": "f"}]}]}',
             'has "tool_calls", of which'),
            ('{"messages": [{"role": "user", "content": null}]}', 'has neither "content" nor "tool_calls"'),
        ):
            path = self.write("r.jsonl", good + line + "\n" + good)
            with self.subTest(line[:80]):
                self.assertIn(f"{path}:2", text := self.refused(path))
                self.assertIn(says, text)

    def test_files(self):
        self.assertIn("is empty", self.refused(self.write("r.jsonl", "")))
        self.assertIn("has no records", self.refused(self.write("r.jsonl", "\n\n")))
        self.assertIn("is not UTF-8 (byte 2)", self.refused(self.write("r.txt", b"ab\xff")))
        self.assertIn("cannot be read: No such file", self.refused(self.path("missing.jsonl")))
        self.assertIn("out.tokens: lies in the folder", self.refused(self.folder))
        self.write("hidden/.a.txt", "a")
        self.write("hidden/b.txt", "")
        self.assertIn("nothing to read; " + self.path("hidden/.a.txt"), self.refused(self.path("hidden")))
        self.write("mixed/a.txt", "a")
        picture = self.write("mixed/b.png", b"\x89PNG")
        self.assertIn(picture + ": is not UTF-8 (byte 0)", self.refused(self.path("mixed")))
        os.mkfifo(self.path("pipe.jsonl"))
        self.assertIn("is not a regular file", self.refused(self.path("pipe.jsonl")))
        self.assertIn("known are", self.refused(self.write("r.jsonl", '{"question": "a"}')))
        self.assertIn("say --format", self.refused(self.write("r.jsonl", '{"text": "a", "messages": []}')))
        self.assertIn("its first line is a record", self.refused(self.write("r.JSONL", '{"text": "a"}\n')))
        self.assertIn("more than 0", self.refused(self.write("r.txt", "a") + "@0"))

    def test_nothing_to_train_on(self):
        path = self.write_lines("r.jsonl", [{"messages": [user("a"), assistant("b", weight=0)]}])
        self.assertIn("no token is left to train on", self.refused(path))

    def test_output(self):
        path = self.write("r.txt", "abc")
        os.mkdir(self.path("folder"))
        for output, says in ((path, "is an input as well"), (self.path("folder"), "is not a regular file"),
                             (self.path("none/x"), "does not exist")):
            code, _, error = self.run_prepare(path, "-o", output)
            self.assertEqual(code, 2)
            self.assertIn(says, error)
        with open(path) as file:
            self.assertEqual(file.read(), "abc")

    def test_output_over_the_model(self):
        path = self.write("r.txt", "abc")
        template = self.write("t.jinja", "{{ messages }}")
        os.symlink(self.path("model"), self.path("link"))
        for output in ("model/tokenizer.json", "model/config.json", "link/tokenizer_config.json", "t.jinja"):
            with open(self.path(output), "rb") as file:
                before = file.read()
            code, _, error = self.run_prepare(path, "--chat-template", template, "-o", self.path(output))
            self.assertEqual(code, 2)
            self.assertIn("is an input as well", error)
            with open(self.path(output), "rb") as file:
                self.assertEqual(file.read(), before)


class BadModels(PrepareTest):
    def test_each_is_named(self):
        path = self.write_lines("r.jsonl", [{"messages": [user("a"), assistant("b")]}])
        for name, content, says in (
            ("config.json", {"vocab_size": 200}, "it is another model's tokenizer"),
            ("config.json", {}, '"vocab_size" is None'),
            ("config.json", "{", "config.json"),
            ("tokenizer.json", "{}", "is no tokenizer"),
            ("tokenizer_config.json", {}, "no chat template; name one with --chat-template"),
            ("tokenizer_config.json", {"eos_token": "</s>"}, 'has no token "</s>"'),
            ("tokenizer_config.json", {"chat_template": 3}, "neither a text nor a list"),
            ("tokenizer_config.json", {"chat_template": [{"name": "a", "template": ""}]}, "there are a: say --template-name"),
            ("tokenizer_config.json", {"chat_template": "a\nb\n{% if %}"}, 'chat_template "default", line 3'),
            ("tokenizer_config.json", {"chat_template": "{% for m in messages %}"}, "line 1"),
            ("tokenizer_config.json", {"chat_template": "{{ messages | nothing }}"}, "No filter named 'nothing'"),
            ("tokenizer_config.json", {"chat_template": "\n{{ raise_exception('no user') }}"}, "line 2: no user"),
            ("tokenizer_config.json", {"chat_template": "{% include 'x' %}"}, "no loader"),
            ("tokenizer_config.json", {"chat_template": "{{ messages.append(1) }}"}, "unsafe"),
            ("tokenizer_config.json", {"chat_template": "{{ ''.__class__.__mro__ }}"}, "unsafe"),
        ):
            before = None
            if os.path.exists(self.path("model/" + name)):
                with open(self.path("model/" + name), "rb") as file:
                    before = file.read()
            self.write("model/" + name, content)
            with self.subTest(says):
                self.assertIn(says, self.refused(path))
            self.write("model/" + name, before)

    def test_rows_longer_than_the_model_has_positions(self):
        self.assertIn("the model has 1024 positions", self.refused(self.write("a.txt", "abc"), row_length=1025))


class Templates(unittest.TestCase):
    """Foreign code is bounded in time, memory and output, and opens nothing."""

    def error(self, source: str, seconds: float = 20) -> str:
        template = ChatTemplate(source, "t", {}, "2024-01-01")
        self.addCleanup(template.close)
        template.seconds = seconds
        with self.assertRaises(TemplateError) as raised:
            template.render([user("a")], None, [(1, False)])
        return str(raised.exception)

    def test_time(self):
        loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
        self.assertIn("took more than 0.5 s", self.error(loops, 0.5))

    def test_output_and_memory(self):
        self.assertIn("makes more than", self.error("{% for a in range(99999) %}" + "x" * 1000 + "{% endfor %}"))
        self.assertIn("memory", self.error("{{ 'x' * 4000000000 }}"))
        self.assertIn("makes more than", self.error("{{ 'x' * 20000000 }}"))

    def test_is_usable_after_an_error_of_one_conversation(self):
        template = ChatTemplate("{% if messages[0].content == 'bad' %}{{ raise_exception('bad') }}{% endif %}ok", "t", {}, "2024-01-01")
        self.addCleanup(template.close)
        with self.assertRaises(TemplateError):
            template.render([user("bad")], None, [(1, False)])
        self.assertEqual(template.render([user("a")], None, [(1, False), (0, True)][:1]), ["ok"])

    def test_source_that_takes_too_long(self):
        with self.assertRaises(InputError):
            ChatTemplate("{{ 9 ** 99999999 }}", "t", {}, "2024-01-01", 0.5)  # folded when it is compiled


if __name__ == "__main__":
    unittest.main()
