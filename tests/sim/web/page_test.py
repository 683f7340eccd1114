#!/usr/bin/env python3
"""The page in browsers, as people use it: every control, what is wrong beside its field, files dropped on it, back and
forward, nothing asked of the network, nothing said on the console.

usage: page_test.py PENSTOCK-SIM PAGE-FOLDER SOURCE-FOLDER [--browser chromium|firefox] [--pictures FOLDER]
What the page must say is what the native program says. Exits with 77 (skipped) where the browser is not installed.
"""
import argparse
import functools
import http.server
import json
import pathlib
import re
import subprocess
import sys
import threading
import time
import unittest

import browsers
import palette  # of tests/report

SKIPPED = 77
LOOK_S = 15
SIZES = {"chromium": ((1400, 900), (800, 1000), (390, 844)), "firefox": ((1400, 900), (800, 1000), (500, 844))}  # it is never narrower
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&<b>"
ASKED = ["--model=qwen2.5-0.5b", "--gpu=RTX 4090"]


def native(*words):
    return subprocess.run([NATIVE, *words], cwd=SOURCE, capture_output=True, text=True)


def sentence(*words):
    """What the terminal's program says is wrong."""
    lines = [line for line in native(*words).stderr.splitlines() if ": note: " not in line]
    return " ".join(lines).removeprefix("penstock-sim: ").replace("scenarios/", "/scenarios/").replace("//scenarios", "/scenarios")


def words(text):
    return " ".join(text.split())


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browsers.start(ARGUMENTS.browser)
        cls.home = (PAGE / "index.html").as_uri()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.browser.forget()
        self.browser.size(1400, 900)
        self.browser.dark(False)

    def tearDown(self):
        self.assertEqual(list(self.browser.errors), [])

    # --- what a person does --------------------------------------------------------------------------------------------

    def run_script(self, script):
        return self.browser.run(script)

    def wait(self, condition, what):
        """Until a condition of the page holds; the page itself says when."""
        deadline = time.monotonic() + browsers.PATIENCE_S
        while not self.run_script(f"""new Promise(done => {{
                const end = holds => {{ clearTimeout(late); watch.disconnect(); done(holds); }};
                const watch = new MutationObserver(() => {{ if ({condition}) end(true); }});
                const late = setTimeout(() => end({condition}), {LOOK_S * 1000});
                watch.observe(document, {{attributes: true, childList: true, subtree: true}});
                if ({condition}) end(true); }})"""):
            self.assertLess(time.monotonic(), deadline, f"{what}; {self.text('#status')} {self.text('#progress')}")

    def answered(self):
        self.wait("['answered', 'refused', 'failed'].includes(document.documentElement.dataset.state)", "no answer")
        return self.run_script("document.documentElement.dataset.state")

    def looked_further(self):
        self.wait("document.documentElement.dataset.further === 'done'", "no end")

    def open(self, question="model=qwen2.5-0.5b&gpu=RTX+4090"):
        self.browser.open("about:blank")
        self.browser.open(self.home + "#" + question if question else self.home)
        return self.answered()

    def change(self, fields):
        """Types into fields, by their ids, and waits for the answer."""
        self.run_script(f"""document.documentElement.dataset.state = 'typed';
            for (const [id, value] of Object.entries({json.dumps(fields)})) {{
              const field = document.getElementById(id);
              if (field.type === 'checkbox') field.checked = value; else field.value = value;
              field.dispatchEvent(new Event('input', {{bubbles: true}}));
              field.dispatchEvent(new FocusEvent('focusout', {{bubbles: true}}));
            }} 1""")
        return self.answered()

    def drop(self, text, name="config.json"):
        self.run_script(f"""{{ document.documentElement.dataset.state = 'typed';
            const carried = new DataTransfer();
            carried.items.add(new File([{json.dumps(text)}], {json.dumps(name)}));
            document.body.dispatchEvent(new DragEvent('drop', {{dataTransfer: carried, bubbles: true, cancelable: true}})); }} 1""")
        return self.answered()

    def text(self, selector):
        return self.run_script(f"document.querySelector({selector!r})?.textContent ?? ''")

    def command(self):
        return self.text("#again pre")

    def error(self, field):
        return words(self.text(f"#{field}-error"))

    # --- tests ---------------------------------------------------------------------------------------------------------

    def test_the_first_question_is_answered_from_disk_as_the_terminal_answers_it(self):
        began = time.monotonic()
        self.assertEqual(self.open(""), "answered")
        first = time.monotonic() - began
        asked = ["--model=qwen2.5-7b", "--gpu=RTX 4090", "--ram=128GB", "--tokens=1B"]
        began = time.monotonic()
        expected = json.loads(native("simulate", *asked, "--json").stdout)
        terminal = time.monotonic() - began
        page_says = self.run_script(f"""new Engine().run({json.dumps(['simulate', *asked, '--json'])}).then(done => done.out)""")
        self.assertEqual(json.loads(page_says)["schedule"], expected["schedule"])
        self.assertIn(f"{expected['tokens_per_second']:,.0f}", self.text("#answer .tiles"))
        self.assertEqual(self.command(), "penstock-sim simulate --model qwen2.5-7b --gpu 'RTX 4090' --ram 128GB --tokens 1B")
        self.assertIn("range is from: uncalibrated: RTX 4090", self.text("#speed"))
        hours = expected["cost"]["hours"]
        self.assertIn(f"{hours:.3g} h ({hours / 24:.3g} days)", self.text("#money"))
        self.assertIn("host desktop", self.text("#answer"))
        self.looked_further()
        self.assertIn("64 gb more dram", self.text("#next"))
        self.assertIn("matmul", self.text("#faster-found"))
        later = []
        for change in ({"ram": "96 GB"}, {"gpu": "RTX 5090"}, {"context": "4096"}, {"model": "llama-3.1-8b"}):
            began = time.monotonic()
            self.assertEqual(self.change(change), "answered")
            later.append(time.monotonic() - began)
        print(f"\n{ARGUMENTS.browser}: first answer {first:.1f} s after opening (the native program takes {terminal:.1f} s), later ones "
              f"{', '.join(f'{seconds:.1f}' for seconds in later)} s after typing, of which 0.25 s are the pause")

    def test_72b_says_how_far_it_is(self):
        began = time.monotonic()
        native("simulate", "--model=qwen2.5-72b", "--gpu=h200", "--host=server-two-sockets", "--ram=1536GB", "--json")
        terminal = time.monotonic() - began
        began = time.monotonic()
        self.browser.open("about:blank")
        self.browser.open(self.home + "#model=qwen2.5-72b&gpu=h200&host=server-two-sockets&ram=1536GB")
        self.wait("document.getElementById('progress').textContent !== ''", "no progress")
        self.assertEqual(self.answered(), "answered")
        print(f"\n{ARGUMENTS.browser}: 72B on H200 and 1.5 TB answered in {time.monotonic() - began:.1f} s (the native program takes "
              f"{terminal:.1f} s)")
        self.run_script("document.getElementById('stop').click()")
        self.assertIn("Stopped", self.text("#status"))
        self.assertEqual(self.run_script("document.getElementById('stop').hidden"), True)

    def test_every_field_reaches_the_command_and_the_address(self):
        self.open()
        self.run_script("document.getElementById('more').open = true")
        values = {"model": "qwen2.5-1.5b", "gpu": "rtx5090", "host": "workstation", "ram": "256 GB", "drive": "2 TB",
                  "context": "2048", "step": "65536", "tokens": "2B", "policy": "megatrain", "set": "workload.micro_batch=2; policy.name=penstock",
                  "rent": "0.7", "price": "5000", "life": "3", "electricity": "0.3", "watts": "700 W"}
        self.wait("document.documentElement.dataset.catalogue === 'offered'", "no catalogue")
        for field, value in values.items():
            with self.subTest(field=field):
                self.assertEqual(self.change({field: value}), "answered", self.text("#general-error"))
                for part in value.split(";"):
                    self.assertIn(part.strip(), self.command())
                self.assertIn(f"{field}=", self.run_script("location.hash"))
        options = ["--model=qwen2.5-1.5b", "--gpu=rtx5090", "--host=workstation", "--ram=256 GB", "--drive=2 TB",
                   "--sequence-length=2048", "--tokens-per-step=65536", "--tokens=2B", "--set=policy.name=megatrain",
                   "--set=workload.micro_batch=2", "--set=policy.name=penstock", "--rent=0.7", "--price=5000", "--life=3", "--electricity=0.3",
                   "--watts=700 W"]
        expected = json.loads(native("simulate", *options, "--json").stdout)
        self.assertIn(f"{expected['tokens_per_second']:,.0f}", self.text("#answer .tiles"))
        self.assertIn(f"{expected['cost']['bought']['euros']:,.2f}", self.text("#money"))
        before = self.text("#answer .tiles")
        self.open(self.run_script("location.hash")[1:])
        self.assertEqual(self.text("#answer .tiles"), before)

    def test_what_is_wrong_stands_beside_its_field_in_the_terminals_words(self):
        self.open()
        wrong = {"model": "qwen9", "gpu": "RTX 4091", "host": "laptop", "ram": "64", "drive": "much", "context": "0",
                 "step": "1000", "tokens": "many", "set": "workload.sequense=8", "rent": "-1", "price": "x", "life": "0",
                 "electricity": "free", "watts": "strong"}
        options = {"context": "--sequence-length", "step": "--tokens-per-step"}
        for field, value in wrong.items():
            with self.subTest(field=field):
                before = self.run_script(f"document.getElementById({field!r}).value")
                self.assertEqual(self.change({field: value}), "refused")
                asked = {"model": "qwen2.5-0.5b", "gpu": "RTX 4090"} | {field: value}
                said = sentence("simulate", *(f"{options.get(key, '--' + key)}={one}" for key, one in asked.items()))
                self.assertEqual(self.error(field), words(said))
                self.assertEqual(self.run_script(f"document.getElementById({field!r}).getAttribute('aria-invalid')"), "true")
                self.assertEqual(self.text("#answer"), "")
                self.assertEqual(self.change({field: before}), "answered")
                self.assertEqual(self.error(field), "")
        self.assertEqual(self.change({"model": "", "gpu": ""}), "refused")
        self.assertIn("which scenario?", self.error("model"))

    def test_what_does_not_fit_is_said_tier_by_tier_with_what_would_do(self):
        self.assertEqual(self.open("model=qwen2.5-7b&gpu=RTX+4090&ram=64GB"), "answered")
        said = words(sentence("simulate", "--model=qwen2.5-7b", "--gpu=RTX 4090", "--ram=64GB")).split(" (--ignore")[0]
        self.assertIn(said, words(self.text("#fit")))
        self.assertRegex(said, "dram needs .* GiB too little .*optimizer")
        remedies = json.loads(native("fit", "--model=qwen2.5-7b", "--gpu=RTX 4090", "--ram=64GB", "--json").stdout)["would_fit"]
        dram = next(each["value"] for each in remedies if each["key"] == "machine.dram").strip('"')
        self.run_script("""document.documentElement.dataset.state = 'typed';
            [...document.querySelectorAll('#fit button')].find(b => b.getAttribute('aria-label').includes('machine.dram')).click(); 1""")
        self.assertEqual(self.answered(), "answered")
        self.assertIn("It fits", self.text("#status"))
        self.assertIn(f"ram={dram.replace(' ', '+')}", self.run_script("location.hash"))

    def test_each_change_that_would_fit_is_asked_by_its_button(self):
        # Of a drive, which has a field, and of keys that have none.
        question = ["--model=qwen2.5-7b", "--gpu=RTX 4090", "--ram=128GB", "--set=machine.hbm=10 GiB", "--set=workload.micro_batch=16"]
        remedies = json.loads(native("fit", *question, "--json").stdout)["would_fit"]
        self.assertEqual([each["key"] for each in remedies], ["machine.nvme", "policy.gradient_sum", "policy.moments"])
        for each in remedies:
            with self.subTest(key=each["key"]):
                self.open("model=qwen2.5-7b&gpu=RTX+4090&ram=128GB&set=machine.hbm%3D10+GiB%3B+workload.micro_batch%3D16")
                self.run_script(f"""document.documentElement.dataset.state = 'typed';
                    [...document.querySelectorAll('#fit button')].find(b => b.getAttribute('aria-label').includes({each['key']!r})).click(); 1""")
                self.assertEqual(self.answered(), "answered")
                self.assertIn("It fits", self.text("#status"))
                value = each["value"].strip('"')
                said = [f"--drive={value}"] if each["key"] == "machine.nvme" else [f"--set={each['key']}={value}"]
                expected = json.loads(native("simulate", *question, *said, "--json").stdout)
                self.assertIn(f"{expected['tokens_per_second']:,.0f}", self.text("#answer .tiles"))
                if "nvme" in expected:
                    self.assertIn(f"The drive keeps {expected['nvme']['kept']}; a step reads", self.text("#fit"))

    def test_two_machines_side_by_side(self):
        self.open("model=qwen2.5-0.5b&gpu=RTX+4090&tokens=1B")
        self.assertEqual(self.change({"compare": True, "gpu2": "RTX 5090"}), "answered")
        for gpu in ("RTX 4090", "RTX 5090"):
            expected = json.loads(native("simulate", "--model=qwen2.5-0.5b", f"--gpu={gpu}", "--tokens=1B", "--json").stdout)
            self.assertIn(f"{expected['tokens_per_second']:,.0f}", self.text("#both"))
        self.assertIn("B is better", self.text("#both"))
        self.assertEqual(self.run_script("document.querySelectorAll('.timeline .side').length > 1"), True)
        self.assertEqual(self.change({"ram2": "64"}), "answered")
        self.assertIn("64", self.error("ram2"))
        self.assertEqual(self.error("ram"), "")
        self.assertEqual(self.change({"compare": False}), "answered")
        self.assertEqual(self.text("#both"), "")
        self.assertEqual(self.run_script("document.getElementById('second').hidden"), True)

    def test_a_dropped_config_is_a_model_and_travels_in_the_address(self):
        config = (SOURCE / "scenarios/models/qwen2.5-0.5b.json").read_text()
        self.open()
        before = self.text("#answer .tiles")
        self.assertEqual(self.change({"model": "qwen2.5-1.5b"}), "answered")
        self.assertEqual(self.drop(config), "answered")
        self.assertEqual(self.text("#answer .tiles"), before)
        self.assertIn("--model config.json", self.command())
        address = self.run_script("location.hash")
        self.open(address[1:])
        self.assertEqual(self.text("#answer .tiles"), before)

    def test_a_chosen_file_is_as_a_dropped_one(self):
        self.open("model=qwen2.5-1.5b&gpu=RTX+4090")
        config = (SOURCE / "scenarios/models/qwen2.5-0.5b.json").read_text()
        self.run_script(f"""{{ document.documentElement.dataset.state = 'typed';
            const carried = new DataTransfer();
            carried.items.add(new File([{json.dumps(config)}], 'qwen.json'));
            document.getElementById('file').files = carried.files;
            document.getElementById('file').dispatchEvent(new Event('change')); }} 1""")
        self.assertEqual(self.answered(), "answered")
        self.assertIn("qwen.json", self.text("#model-hint"))
        self.assertIn("--model config.json", self.command())

    def drop_what_is_no_config(self, transfer):
        self.run_script(f"""{{ const event = new Event('drop', {{bubbles: true, cancelable: true}});
            event.dataTransfer = {transfer};
            document.body.dispatchEvent(event);
            window.taken = event.defaultPrevented; }} 1""")

    def test_what_cannot_be_taken_as_a_config_changes_nothing(self):
        self.open()
        answer, address = self.text("#answer .tiles"), self.run_script("location.hash")
        unreadable = "{name: 'folder', size: 4096, text: () => Promise.reject(new DOMException('no'))}"
        for transfer, said in ((f"{{types: ['Files'], files: [{unreadable}]}}", "folder cannot be read; drop the file config.json itself"),
                               ("{types: ['Files'], files: [{name: 'model.safetensors', size: 17179869184}]}", "17,179,869,184 bytes"),
                               ("{types: ['Files'], files: [{name: 'a'}, {name: 'b'}]}", "2 files, and none of them is config.json")):
            with self.subTest(said=said):
                self.drop_what_is_no_config(transfer)
                self.wait(f"document.getElementById('model-error').textContent.includes({said!r})", "nothing is said")
                self.assertEqual((self.text("#answer .tiles"), self.run_script("location.hash")), (answer, address))
        self.drop_what_is_no_config("{types: ['text/plain'], files: []}")
        self.assertEqual(self.run_script("taken"), False)  # words go where they are dropped
        config = (SOURCE / "scenarios/models/qwen2.5-1.5b.json").read_text()
        self.run_script("document.documentElement.dataset.state = 'typed'; 1")
        self.drop_what_is_no_config(f"""{{types: ['Files'], files: [{unreadable},
            {{name: 'config.json', size: 700, text: () => Promise.resolve({json.dumps(config)})}}]}}""")
        self.assertEqual(self.answered(), "answered")
        self.assertNotEqual(self.text("#answer .tiles"), answer)
        self.assertEqual(self.error("model"), "")

    def test_the_whole_catalogue_is_offered_mixtures_too(self):
        self.open()
        self.wait("document.documentElement.dataset.catalogue === 'offered'", "no catalogue")
        for what, field in (("models", "models"), ("cards", "cards"), ("hosts", "hosts"), ("presets", "policy")):
            names = [entry["name"] for entry in json.loads(native("list", what, "--json").stdout)[what]]
            offered = self.run_script(f"[...document.getElementById({field!r}).options].map(o => o.value).filter(Boolean)")
            self.assertEqual(offered, names)
        mixtures = [each for each in json.loads(native("list", "models", "--json").stdout)["models"] if "active_parameters" in each]
        self.assertGreaterEqual(len(mixtures), 4)
        for each in mixtures:
            self.assertIn(f"{each['parameters'] / 1e9:.1f} billion parameters, {each['active_parameters'] / 1e9:.1f} of them for a token",
                          self.text(f"#models [value='{each['name']}']"))
        self.assertEqual(self.change({"model": "Qwen3 30B A3B", "gpu": "h200", "ram": "512GB", "host": "server-two-sockets"}), "answered")
        expected = native("simulate", "--model=qwen3-30b-a3b", "--gpu=h200", "--host=server-two-sockets", "--ram=512GB", "--json")
        self.assertIn(f"{json.loads(expected.stdout)['tokens_per_second']:,.0f}", self.text("#answer .tiles"))

    def test_a_key_held_down_and_fields_of_millions(self):
        self.open()
        self.run_script("""new Promise(done => { const field = document.getElementById('gpu'); let left = 600;
            const press = () => { field.value += '0'; field.dispatchEvent(new Event('input', {bubbles: true}));
              if (--left) setTimeout(press, 2); else done(1); };
            press(); })""")
        # A slow machine asks in between, too.
        self.wait("location.hash.endsWith('0'.repeat(600)) && document.documentElement.dataset.state === 'refused'", "no answer")
        address = self.run_script("location.hash")
        self.assertEqual(self.change({"gpu": "x" * 3_000_000}), "refused")
        self.assertEqual(self.error("gpu"), "--gpu: 3,000,000 characters; expected at most 100,000 in all fields")
        self.assertEqual(self.change({"gpu": "x" * 90_000}), "refused")
        self.assertIn("--gpu", self.error("gpu"))
        self.assertEqual(self.change({"gpu": "RTX 4090", "set": ";".join(["workload.micro_batch=1"] * 4000)}), "answered")
        self.assertNotEqual(self.run_script("location.hash"), address)

    def test_enter_asks_and_stop_leaves_no_answer_of_another_question(self):
        self.open()
        self.run_script("""{ const field = document.getElementById('model'); field.focus(); field.value = 'qwen2.5-72b';
            field.dispatchEvent(new Event('input', {bubbles: true}));
            field.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true})); }
            window.state = document.documentElement.dataset.state; document.getElementById('stop').click(); 1""")
        self.assertEqual(self.run_script("state"), "asking")
        self.assertEqual(self.text("#answer"), "")
        self.assertIn("Stopped", self.text("#status"))
        self.assertIn("qwen2.5-72b", self.run_script("location.hash"))
        self.assertEqual(self.change({"model": "qwen2.5-0.5b"}), "answered")
        self.run_script("document.getElementById('stop').click()")
        self.assertIn("Stopped before it was found", self.text("#next"))
        self.assertIn("Stopped before it was found", self.text("#faster-found"))
        self.assertNotEqual(self.text("#answer .tiles"), "")

    def test_what_is_to_be_taken_along_can_be_copied(self):
        self.open()
        for what in ("The command", "The scenario, which gives the same answer as a file", "The address of this question"):
            self.run_script(f"""{{ const button = document.querySelector('[aria-label="Copy: {what}"]');
                window.said = new Promise(done => {{
                    new MutationObserver(() => done(button.nextElementSibling.textContent)).observe(button.nextElementSibling, {{childList: true}}); }});
                button.focus(); }} 1""")
            self.browser.key("Enter")  # by a person: a script's click may not copy
            self.assertIn(self.run_script("said"), ("copied", "select it and press Ctrl+C"))
        scenario = pathlib.Path(FOLDER) / "copied.toml"
        scenario.write_text(self.run_script("[...document.querySelectorAll('#again pre')].find(p => p.textContent.includes('[model]')).textContent"))
        expected = json.loads(native("simulate", str(scenario), "--json").stdout)
        self.assertIn(f"{expected['tokens_per_second']:,.0f}", self.text("#answer .tiles"))

    def test_configs_of_any_kind_are_answered_or_refused_beside_the_model(self):
        config = json.loads((SOURCE / "scenarios/models/qwen2.5-0.5b.json").read_text())
        mixture = json.loads((SOURCE / "scenarios/models/qwen3-30b-a3b.json").read_text()) | {"num_hidden_layers": 2}
        yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
        hostile = {
            "markup as a family": json.dumps(config | {"model_type": HOSTILE, "architectures": [HOSTILE]}),
            "markup as a key": json.dumps(config | {HOSTILE: HOSTILE}),
            "10,000 characters": json.dumps(config | {"model_type": "x" * 10000, "architectures": ["y" * 10000]}),
            "broken": '{"hidden_size": 896,',
            "not an object": "[" * 10000,
            "empty": "",
            "bytes": "\ufffd\u0000\u202e",
            "absurd": json.dumps(config | {"hidden_size": 10**18}),
            "absurd layers": json.dumps(config | {"num_hidden_layers": 10**9}),
            "negative": json.dumps(config | {"vocab_size": -1}),
            "infinite": json.dumps(config | {"rms_norm_eps": 1e308}).replace("1e+308", "1e999"),
            "a key twice": json.dumps(config).replace("{", '{"hidden_size": 1, ', 1),
            "a mixture": json.dumps(mixture),
            "more experts for a token than there are": json.dumps(mixture | {"num_experts_per_tok": 129}),
            "no experts": json.dumps(mixture | {"num_experts": 0}),
            "absurd experts": json.dumps(mixture | {"num_experts": 10**12}),
            "experts by a name": json.dumps(mixture | {"num_experts": HOSTILE}),
            "dense layers that are none": json.dumps(mixture | {"mlp_only_layers": [10**9]}),
            "shared experts": json.dumps(mixture | {"model_type": "deepseek_v2", "n_shared_experts": 2}),
            "rope scaling": json.dumps(config | {"rope_scaling": yarn}),
            "rope scaling by an absurd factor": json.dumps(config | {"rope_scaling": yarn | {"factor": 1e300}}),
            "rope scaling by markup": json.dumps(config | {"rope_scaling": {"type": HOSTILE, "factor": HOSTILE}}),
            "rope scaling that is a number": json.dumps(config | {"rope_scaling": -1}),
            "a sliding window": json.dumps(config | {"use_sliding_window": True, "sliding_window": 128, "max_window_layers": 2}),
            "an absurd sliding window": json.dumps(config | {"use_sliding_window": True, "sliding_window": -(10**18)}),
            "layers of two kinds": json.dumps(config | {"layer_types": ["full_attention", "sliding_attention"] * 12}),
        }
        self.open()
        for what, text in hostile.items():
            with self.subTest(config=what):
                folder = pathlib.Path(FOLDER) / "your-model"
                folder.mkdir(exist_ok=True)
                (folder / "config.json").write_text(text)
                done = subprocess.run([NATIVE, "simulate", "--model=config.json", ASKED[1], "--json"], cwd=folder,
                                      capture_output=True, text=True)
                state = self.drop(text, HOSTILE)
                if done.returncode == 2:
                    said = " ".join(line for line in done.stderr.splitlines() if ": note: " not in line)
                    self.assertEqual(state, "refused")
                    field = "context" if "--sequence-length" in said else "model"
                    self.assertEqual(self.error(field), words(said.removeprefix("penstock-sim: ")))
                else:
                    self.assertEqual(state, "answered")
                    self.assertIn(done.returncode, (0, 3))
                if done.returncode == 0:
                    self.assertIn(f"{json.loads(done.stdout)['tokens_per_second']:,.0f}", self.text("#answer .tiles"))
                self.assertEqual(self.run_script("document.images.length"), 0)
                self.assertEqual(self.run_script("document.documentElement.scrollWidth <= innerWidth"), True)

    def test_hostile_fields_and_addresses_are_text(self):
        for question in (f"model={HOSTILE}", "model=qwen2.5-0.5b&gpu=" + "x" * 10000, "model=--help&gpu=RTX+4090", "a=b", "%",
                         "model=%00&gpu=%E0%A4", "model=config.json&gpu=RTX+4090", "model=qwen2.5-0.5b&gpu=RTX+4090&policy=nothing",
                         "model=qwen2.5-0.5b&gpu=RTX+4090&context=16777216&step=16777216000"):
            with self.subTest(question=question[:60]):
                self.assertIn(self.open(question.replace("<", "%3C").replace(">", "%3E").replace('"', "%22").replace("&<b", "%26%3Cb")),
                              ("refused", "answered"))
                self.assertEqual(self.run_script("document.images.length"), 0)

    def test_back_and_forward(self):
        self.open()
        first = self.text("#answer .tiles")
        self.change({"gpu": "RTX 5090"})
        second = self.text("#answer .tiles")
        self.assertNotEqual(first, second)
        for move, expected in (("back", first), ("forward", second)):
            self.run_script(f"document.documentElement.dataset.state = 'typed'; history.{move}(); 1")
            self.assertEqual(self.answered(), "answered")
            self.assertEqual(self.text("#answer .tiles"), expected)
        self.assertEqual(self.run_script("document.getElementById('gpu').value"), "RTX 5090")
        self.run_script("document.documentElement.dataset.state = 'typed'; location.hash = '#model=qwen2.5-0.5b&gpu=RTX+4090'; 1")
        self.assertEqual(self.answered(), "answered")  # an address that was pasted
        self.assertEqual(self.text("#answer .tiles"), first)

    def seen(self):
        """Seconds of the timeline that are in view, once what changed it is drawn: in the frame that follows."""
        return self.run_script("""new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(() =>
            drawn((r => Number(r.dataset.to) - Number(r.dataset.from))(document.querySelector('.timeline'))))))""")

    def key_on_timeline(self, key):
        self.run_script(f"document.querySelector('.timeline canvas').dispatchEvent(new KeyboardEvent('keydown', {{key: {key!r}, bubbles: true}})); 1")

    def test_the_timeline_zooms_by_keyboard_and_button(self):
        self.open()
        whole = self.seen()
        self.run_script("document.querySelector('.timeline [aria-label=\"Zoom in\"]').click()")
        self.assertAlmostEqual(self.seen(), whole / 2, delta=whole / 100)
        self.key_on_timeline("+")
        self.assertAlmostEqual(self.seen(), whole / 4, delta=whole / 100)
        self.key_on_timeline("0")
        self.assertAlmostEqual(self.seen(), whole, delta=whole / 100)

    def test_what_is_zoomed_stays_while_the_schedule_is_the_same(self):
        self.open()
        whole = self.seen()
        self.key_on_timeline("+")
        self.key_on_timeline("Enter")
        chosen = self.text(".timeline .tip")
        self.assertRegex(chosen, "lane compute")
        self.looked_further()
        self.assertIn("matmul", self.text("#faster-found"))
        self.assertAlmostEqual(self.seen(), whole / 2, delta=whole / 100)
        self.assertEqual(self.change({"tokens": "3B"}), "answered")
        self.assertAlmostEqual(self.seen(), whole / 2, delta=whole / 100)
        self.assertEqual(self.text(".timeline .tip"), chosen)
        self.key_on_timeline("+")
        self.assertAlmostEqual(self.seen(), whole / 4, delta=whole / 100)
        self.assertEqual(self.change({"gpu": "RTX 4091"}), "refused")
        self.assertEqual(self.change({"gpu": "RTX 4090"}), "answered")
        self.assertAlmostEqual(self.seen(), whole / 4, delta=whole / 100)
        self.assertEqual(self.change({"gpu": "RTX 5090"}), "answered")
        self.assertNotIn(chosen, self.text(".timeline .tip"))
        self.assertEqual(self.run_script("document.querySelectorAll('.timeline').length"), 1)

    def test_every_control_has_a_name_and_every_table_a_caption(self):
        self.open()
        self.looked_further()
        self.assertEqual(self.run_script("""[...document.querySelectorAll('input:not([hidden]), select')]
            .filter(e => !e.labels.length).map(e => e.id)"""), [])
        self.assertEqual(self.run_script("""[...document.querySelectorAll('[aria-describedby]')]
            .flatMap(e => e.getAttribute('aria-describedby').split(' ')).filter(id => !document.getElementById(id))"""), [])
        self.assertEqual(self.run_script("""[...document.querySelectorAll('table')].filter(t => !t.caption?.textContent).length"""), 0)
        self.assertEqual(self.run_script("""[...document.querySelectorAll('button')]
            .filter(b => !(b.getAttribute('aria-label') || b.textContent).trim()).length"""), 0)
        self.assertEqual(self.run_script("""(ids => ids.length - new Set(ids).size)([...document.querySelectorAll('[id]')].map(e => e.id))"""), 0)
        self.assertEqual(self.run_script("""[...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))
            .reduce((worst, level, i, all) => Math.max(worst, i ? level - all[i - 1] : 0), 0)"""), 1)
        self.assertIn("As built on", self.text("#built"))

    def test_the_page_is_as_wide_as_the_window_and_its_colours_stand_out(self):
        self.open("model=qwen2.5-0.5b&gpu=RTX+4090&tokens=1B")
        self.looked_further()
        for dark in (False, True):
            self.browser.dark(dark)
            self.assertEqual(palette.faults(self.browser), [], dark)
            self.assertGreaterEqual(palette.contrast(*(self.run_script(f"page.color({name!r})") for name in ("edge", "card"))), palette.DRAWN)
            for width, height in SIZES[ARGUMENTS.browser]:
                with self.subTest(width=width, dark=dark):
                    self.browser.size(width, height)
                    self.run_script("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
                    self.assertEqual(self.run_script("document.documentElement.scrollWidth <= innerWidth"), True)
                    self.assertEqual(self.run_script(CONTRAST), [])
                    if ARGUMENTS.pictures:
                        self.browser.screenshot(pathlib.Path(ARGUMENTS.pictures) /
                                                f"{ARGUMENTS.browser}-{width}{'-dark' if dark else ''}.png")

    def test_nothing_is_asked_of_the_network(self):
        if ARGUMENTS.browser == "chromium":
            self.browser.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        self.open()
        self.looked_further()
        asked = self.run_script("performance.getEntriesByType('resource').map(e => e.name)")
        asked += self.browser.requests if ARGUMENTS.browser == "chromium" else []
        strangers = [url for url in asked if not url.startswith((PAGE.as_uri(), "blob:", "data:", "about:"))]
        self.assertEqual(strangers, [])
        refused = self.run_script("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')")
        self.assertEqual(refused, "refused")
        if ARGUMENTS.browser == "chromium":
            self.browser.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
        self.assertTrue(all(re.search(r"Content[- ]Security[- ]Policy", text) for text in self.browser.errors), self.browser.errors)
        self.assertTrue(self.browser.errors)
        self.browser.forget()

    def test_any_plain_server_serves_it(self):
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=PAGE)) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.browser.open(f"http://127.0.0.1:{server.server_port}/#model=qwen2.5-0.5b&gpu=RTX+4090")
            self.assertEqual(self.answered(), "answered")
            self.browser.open("about:blank")
            server.shutdown()


# Texts whose colour stands out from what is behind them by less than 4.5.
CONTRAST = """(() => {
  const g = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const light = color => { g.clearRect(0, 0, 1, 1); g.fillStyle = color; g.fillRect(0, 0, 1, 1);
    const [r, gr, b, a] = g.getImageData(0, 0, 1, 1).data;
    const part = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return a < 255 ? null : 0.2126 * part(r) + 0.7152 * part(gr) + 0.0722 * part(b); };
  const behind = e => { for (; e; e = e.parentElement) { const l = light(getComputedStyle(e).backgroundColor); if (l !== null) return l; }
    return light('Canvas'); };
  const found = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || ['SCRIPT', 'OPTION'].includes(e.tagName)) continue;
    if (!e.checkVisibility()) continue;
    const front = light(getComputedStyle(e).color), back = behind(e);
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < 4.5) found.push(`${e.tagName}.${e.className} ${ratio.toFixed(2)}`);
  }
  return found; })()"""

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("native")
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--browser", choices=browsers.NAMES, default="chromium")
    parser.add_argument("--pictures")
    parser.add_argument("tests", nargs="*")
    ARGUMENTS = parser.parse_intermixed_args()
    NATIVE = str(pathlib.Path(ARGUMENTS.native).absolute())
    PAGE, SOURCE = ARGUMENTS.page.absolute(), ARGUMENTS.source.absolute()
    if not browsers.installed(ARGUMENTS.browser):
        print(f"there is no {ARGUMENTS.browser}; scripts/install brings Chromium, scripts/install firefox Firefox")
        sys.exit(SKIPPED)
    import tempfile
    with tempfile.TemporaryDirectory() as FOLDER:
        unittest.main(argv=[sys.argv[0], *ARGUMENTS.tests], verbosity=2)
