#!/usr/bin/env python3
"""The pages that --html writes, made by the built penstock-sim and read in headless Chromium.

usage: report_test.py PENSTOCK-SIM SOURCE-FOLDER [SCREENSHOT-FOLDER]
Exits with 77 (skipped) where there is no Chromium. With a third argument it also takes pictures of every page.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import palette
from browser import Browser, find_chromium

SKIPPED = 77
WIDTHS = (1400, 800, 420)
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&<b>"


def simulator(*arguments, folder):
    done = subprocess.run([PROGRAM, *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{arguments}: {done.stderr}")
    return done.stdout


def make_catalogue(folder):
    """Two machines and an upgrade: `shop` plans for each."""
    hardware = SOURCE / "scenarios/hardware"
    text = ""
    for name, file, price in (("big", "h200-sxm-pcie5", 90000), (HOSTILE.replace('"', ""), "rtx4090", 3000)):
        text += (f'[machine."{name}"]\nhardware = "{hardware / file}.toml"\nprice = {price}\n'
                 'source = "<i>list</i>"\ndate = "2026-01-01"\n')
    text += '[upgrade."more DRAM"]\ndram = "64 GiB"\nprice = 500\nsource = "a list"\ndate = "2026-01-01"\n'
    (folder / "machines.toml").write_text(text)


def make_pages(folder):
    """Small schedules: what is tested is pages, not predictions."""
    data = SOURCE / "tests/sim/program/golden/data"
    for part in data.rglob("*"):
        if part.is_file():
            to = folder / part.relative_to(data)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(part.read_bytes())
    simulator("simulate", "tiny.toml", "--html", "simulate.html", "--timeline", "predicted.json", folder=folder)
    simulator("simulate", "tiny.toml", "--set", "policy.name=zero3-offload", "--timeline", "other.json", folder=folder)
    text = (folder / "predicted.json").read_text().replace('"source": "predicted"', '"source": "measured"')
    (folder / "measured.json").write_text(text)
    simulator("compare", "predicted.json", "measured.json", "--html", "measured.html", folder=folder)
    simulator("compare", "predicted.json", "other.json", "--html", "pair.html", folder=folder)
    simulator("search", "tiny.toml", "--html", "search.html", folder=folder)
    simulator("sweep", "tiny.toml", "--vary", "workload.sequences=4,8,16", "--vary", "policy=megatrain,zero3-offload",
              "--html", "sweep.html", folder=folder)
    make_catalogue(folder)
    simulator("shop", "--model", SOURCE / "scenarios/models/qwen2.5-0.5b.json", "--budget", 100000, "--sequences", 8,
              "--catalogue", "machines.toml", "--html", "shop.html", folder=folder)
    scenario = (folder / "tiny.toml").read_text()
    (folder / f"tiny {HOSTILE.replace('/', '')}.toml").write_text(f"# {HOSTILE}\n" + scenario)
    simulator("simulate", f"tiny {HOSTILE.replace('/', '')}.toml", "--html", "hostile.html", folder=folder)


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.place.name)
        make_pages(cls.folder)
        cls.pages = sorted(cls.folder.glob("*.html"))
        cls.browser = Browser(find_chromium())

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.place.cleanup()

    def setUp(self):
        self.browser.errors.clear()
        self.browser.requests.clear()
        self.browser.size(1400, 900)
        self.browser.dark(False)

    def open(self, name):
        self.browser.open(self.folder / name)

    def view(self):
        return self.browser.run("(r => [Number(r.dataset.from), Number(r.dataset.to)])(document.querySelector('.timeline'))")

    def focus(self, selector):
        self.browser.run(f"document.querySelector({selector!r}).focus()")

    def test_every_page_in_every_width_light_and_dark(self):
        self.assertEqual([page.stem for page in self.pages],
                         ["hostile", "measured", "pair", "search", "shop", "simulate", "sweep"])
        for page in self.pages:
            self.open(page.name)
            self.assertEqual([url for url in self.browser.requests if url != page.absolute().as_uri()], [])
            self.browser.requests.clear()
            for width in WIDTHS:
                for dark in (False, True):
                    with self.subTest(page=page.stem, width=width, dark=dark):
                        self.browser.size(width, 900)
                        self.browser.dark(dark)
                        self.browser.settle()
                        scroll, client = self.browser.run(
                            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
                        self.assertLessEqual(scroll, client)
                        self.assertEqual(client, width)
                        self.assertEqual(self.browser.errors, [])
                        if SCREENSHOTS:
                            self.browser.screenshot(SCREENSHOTS / f"{page.stem}-{width}{'-dark' if dark else ''}.png")

    def test_colours_stand_out_from_their_ground_and_from_each_other_in_light_and_dark(self):
        self.open("simulate.html")
        for dark in (False, True):
            self.browser.dark(dark)
            self.assertEqual(palette.faults(self.browser), [], dark)
            lightness = """(selector, property) => { const c = document.createElement('canvas').getContext('2d');
                c.fillStyle = getComputedStyle(document.querySelector(selector))[property]; c.fillRect(0, 0, 1, 1);
                return [...c.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 :
                    ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0); }"""
            ground = self.browser.run(f"({lightness})('body', 'backgroundColor')")
            for selector in ("body", ".soft", "th", ".view .name", "td"):
                ink = self.browser.run(f"({lightness})({selector!r}, 'color')")
                contrast = (max(ink, ground) + 0.05) / (min(ink, ground) + 0.05)
                self.assertGreaterEqual(contrast, 4.5, (selector, dark))  # WCAG 2.1, AA

    def test_the_peak_in_the_chart_is_the_table_s(self):
        for page in ("simulate.html", "measured.html", "pair.html", "search.html"):
            self.open(page)
            chart = self.browser.run(
                "[...document.querySelectorAll('.peak')].map(each => [each.dataset.tier, each.textContent])")
            table = self.browser.run("""[...document.querySelectorAll('tr')].map(row => [...row.cells].map(
                cell => cell.textContent))""")
            self.assertGreaterEqual(len(chart), 2)
            listed, tier = [], None
            for cells in table:
                if cells[0] in ("hbm", "dram", "nvme"):
                    tier = cells[0]
                if cells[0] == "peak of live bytes":
                    listed += [[tier, text] for text in cells[1:] if text]
            self.assertEqual(chart, listed, page)

    def test_keys_zoom_pan_and_go_from_op_to_op(self):
        self.open("simulate.html")
        self.focus("canvas")
        whole = self.view()
        self.browser.key("+")
        near = self.view()
        self.assertAlmostEqual(near[1] - near[0], (whole[1] - whole[0]) / 2)
        self.browser.key("ArrowRight")
        later = self.view()
        self.assertGreater(later[0], near[0])
        self.assertAlmostEqual(later[1] - later[0], near[1] - near[0])
        self.browser.key("-")
        self.browser.key("0")
        self.assertEqual(self.view(), whole)
        self.browser.key("Enter")
        first = self.browser.run("document.querySelector('.tip [aria-live]').textContent")
        self.assertRegex(first, r"lane compute, (forward|loss|backward|optimizer)")
        self.browser.key("ArrowRight", modifiers=8)
        second = self.browser.run("document.querySelector('.tip [aria-live]').textContent")
        self.assertNotEqual(first, second)
        self.browser.key("ArrowLeft", modifiers=8)
        self.assertEqual(self.browser.run("document.querySelector('.tip [aria-live]').textContent"), first)
        self.browser.key("ArrowDown")
        self.assertNotIn("lane compute", self.browser.run("document.querySelector('.tip [aria-live]').textContent"))

    def wheel(self, modifiers):
        # A wheel event of the page's own would not scroll it: the input has to come from outside.
        box = self.browser.run("(b => [b.x, b.y])(document.querySelector('canvas').getBoundingClientRect())")
        self.browser.call("Input.dispatchMouseEvent", type="mouseWheel", x=box[0] + 100, y=box[1] + 60, deltaX=0,
                          deltaY=-120 if modifiers else 120, modifiers=modifiers)
        self.browser.run("""new Promise(done => { let last = -1; const still = () => { if (scrollY === last) done(1);
            last = scrollY; setTimeout(still, 100); }; still(); })""")
        self.browser.settle()

    def test_the_wheel_scrolls_the_page_and_zooms_with_control(self):
        self.open("simulate.html")
        self.browser.size(1400, 500)
        self.browser.settle()
        self.browser.run("document.querySelector('.view').scrollIntoView()")
        whole, top = self.view(), self.browser.run("scrollY")
        self.wheel(0)
        self.assertEqual(self.view(), whole)
        self.assertGreater(self.browser.run("scrollY"), top)
        top = self.browser.run("document.querySelector('.view').scrollIntoView(), scrollY")
        self.wheel(2)
        self.assertLess(self.view()[1] - self.view()[0], whole[1] - whole[0])
        self.assertEqual(self.browser.run("scrollY"), top)

    def touch(self, kind, *points):
        self.browser.call("Input.dispatchTouchEvent", type=kind,
                          touchPoints=[{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(points)])

    def test_fingers_pan_pinch_and_choose(self):
        self.browser.size(420, 900, touch=True)
        self.open("simulate.html")
        x, y, width = self.browser.run("document.querySelector('.view').scrollIntoView(), "
                                       "(b => [b.x, b.y, b.width])(document.querySelector('canvas').getBoundingClientRect())")
        whole = self.view()
        lane = self.browser.run("""(n => n.getBoundingClientRect().y + 8)([...document.querySelectorAll('.name')].find(
            each => each.textContent.startsWith('compute')))""")
        self.touch("touchStart", (x + 100, lane), (x + 160, lane))
        self.touch("touchMove", (x + 60, lane), (x + 200, lane))
        self.touch("touchEnd")
        self.browser.settle()
        near = self.view()
        self.assertLess(near[1] - near[0], 0.7 * (whole[1] - whole[0]))
        self.touch("touchStart", (x + 150, lane))
        for step in range(1, 6):
            self.touch("touchMove", (x + 150 - 15 * step, lane))
        self.touch("touchEnd")
        self.browser.settle()
        self.assertGreater(self.view()[0], near[0])
        told = ""
        for at in range(20, int(width), 12):  # somewhere on the lane an op runs
            self.touch("touchStart", (x + at, lane))
            self.touch("touchEnd")
            self.browser.settle()
            told = self.browser.run("document.querySelector('.tip [aria-live]').textContent")
            if "lane compute" in told:
                break
        self.assertIn("lane compute", told)

    def column(self, name):
        return self.browser.run("""(name => { const table = document.querySelector('table.sortable');
            const at = [...table.tHead.rows[0].cells].findIndex(head => head.textContent.trim() === name);
            return [...table.tBodies[0].rows].map(row => row.cells[at].textContent); })(%r)""" % name)

    def test_the_machine_table_sorts_by_key(self):
        self.open("shop.html")
        self.assertEqual([text.rstrip("*") for text in self.column("EUR")], ["3000", "90000"])
        self.browser.run("""[...document.querySelectorAll('table.sortable th button')].find(
            button => button.textContent === 'EUR').focus()""")
        self.browser.key("Enter")
        self.assertEqual([text.rstrip("*") for text in self.column("EUR")], ["3000", "90000"])
        self.browser.key("Enter")
        self.assertEqual([text.rstrip("*") for text in self.column("EUR")], ["90000", "3000"])
        self.assertEqual(self.browser.run("document.querySelector('th[aria-sort]').getAttribute('aria-sort')"), "descending")
        self.browser.run("""[...document.querySelectorAll('table.sortable th button')].find(
            button => button.textContent === 'machine').click()""")
        self.assertEqual(self.column("machine")[0][:1], "<")

    def test_arrows_go_through_the_points_of_a_chart(self):
        self.open("search.html")
        self.focus(".points circle[tabindex='0']")
        texts = set()
        for _ in range(2):
            texts.add(self.browser.run("document.querySelector('.points .tip').textContent"))
            self.browser.key("ArrowRight")
        self.assertEqual(len(texts), 2)
        for text in texts:
            self.assertRegex(text, r"\d.*, HBM \d")

    def test_names_with_markup_stay_text(self):
        for page in ("hostile.html", "shop.html"):
            self.open(page)
            self.assertEqual(self.browser.run("document.querySelectorAll('img, main b > b, td i:not(.meter i)').length"), 0, page)
            self.assertIn("<img src=x onerror=alert(1)>", self.browser.run("document.querySelector('main').textContent"))
            self.assertEqual(self.browser.errors, [])

    def test_two_predictions_are_labelled(self):
        self.open("pair.html")
        key = self.browser.run("document.querySelector('.key').textContent")
        self.assertIn("A: policy megatrain on desk", key)
        self.assertIn("B: policy zero3-offload on desk", key)
        names = self.browser.run("[...document.querySelectorAll('.view .name')].map(each => each.textContent)")
        self.assertTrue({"compute A", "B", "h2d A"} <= set(names), names)

    def test_pages_are_small(self):
        for page in self.pages:
            self.assertLess(page.stat().st_size, 300_000, page)


if __name__ == "__main__":
    if find_chromium() is None:
        print("skipped: there is no chromium (scripts/install puts it here)")
        sys.exit(SKIPPED)
    PROGRAM, SOURCE = pathlib.Path(sys.argv[1]).absolute(), pathlib.Path(sys.argv[2]).absolute()
    SCREENSHOTS = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
    unittest.main(argv=sys.argv[:1])
