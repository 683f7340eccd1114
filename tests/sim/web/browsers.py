"""The browsers that the page is tried in, by one interface: open, run, key, size, dark, screenshot, errors, forget, close.
Makes the modules of tests/report importable."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "report"))
from browser import Browser, find_chromium  # noqa: E402
from firefox import Firefox, find_firefox  # noqa: E402

PATIENCE_S = 400  # on a machine that does much else


class Chromium(Browser):
    """With addresses instead of files."""

    def forget(self):
        self.errors.clear()
        self.requests.clear()

    def open(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + PATIENCE_S
        while "Page.loadEventFired" not in self.events:
            self.note(self.read(deadline))


NAMES = ("chromium", "firefox")
_KINDS = {"chromium": (Chromium, find_chromium), "firefox": (Firefox, find_firefox)}


def installed(name):
    return _KINDS[name][1]() is not None


def start(name):
    kind, find = _KINDS[name]
    return kind(find())
