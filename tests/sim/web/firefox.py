"""Headless Firefox, driven through Marionette, its own protocol on a local socket: nothing but the standard library is needed."""
import base64
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

PATIENCE_S = 120
PREFERENCES = """
user_pref("marionette.port", %d);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("app.update.auto", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.homepage_override.mstone", "ignore");
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("toolkit.telemetry.enabled", false);
"""


def find_firefox():
    return shutil.which("firefox-esr") or shutil.which("firefox")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Firefox:
    """One page. `errors` are what its console says, of the page and its scripts."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        port = free_port()
        (pathlib.Path(self.profile.name) / "user.js").write_text(PREFERENCES % port)
        self.process = subprocess.Popen(
            [program, "--headless", "--marionette", "--remote-allow-system-access", "--no-remote", "--profile",
             self.profile.name, "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.socket = self.connect(port)
        self.buffer = b""
        self.last_id = 0
        self.read()  # it says who it is
        self.call("WebDriver:NewSession", capabilities={"alwaysMatch": {"acceptInsecureCerts": True}})
        self.call("WebDriver:SetTimeouts", script=PATIENCE_S * 1000, pageLoad=PATIENCE_S * 1000)

    def connect(self, port):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise RuntimeError("Firefox does not start") from None
                time.sleep(0.2)  # nothing tells when it listens

    def close(self):
        self.socket.close()
        self.process.kill()
        self.process.wait()
        self.profile.cleanup()

    def read(self):
        while True:
            length, colon, rest = self.buffer.partition(b":")
            if colon and len(rest) >= int(length):
                self.buffer = rest[int(length):]
                return json.loads(rest[:int(length)])
            part = self.socket.recv(1 << 20)
            if not part:
                raise RuntimeError("Firefox does not answer")
            self.buffer += part

    def call(self, command, **parameters):
        self.last_id += 1
        message = json.dumps([0, self.last_id, command, parameters]).encode()
        self.socket.sendall(str(len(message)).encode() + b":" + message)
        _, _, error, value = self.read()
        if error:
            raise RuntimeError(f"{command}: {error['error']}: {error['message']}")
        return value

    def open(self, url):
        self.call("WebDriver:Navigate", url=url)

    def run(self, script):
        """The value of an expression, or of the promise that it makes."""
        return self.call("WebDriver:ExecuteAsyncScript", args=[], sandbox=None, script=(
            "const done = arguments[arguments.length - 1];"
            f"Promise.resolve(window.eval({json.dumps(script)})).then(done);"))["value"]

    def key(self, key):
        pressed = {"Enter": "\ue007"}.get(key, key)
        self.call("WebDriver:PerformActions", actions=[{"type": "key", "id": "keyboard", "actions": [
            {"type": kind, "value": pressed} for kind in ("keyDown", "keyUp")]}])

    def size(self, width, height):
        self.call("WebDriver:SetWindowRect", width=width, height=height)
        inner = self.run("[innerWidth, innerHeight]")
        self.call("WebDriver:SetWindowRect", width=2 * width - inner[0], height=2 * height - inner[1])

    def dark(self, is_dark):
        self.in_browser(f"Services.prefs.setIntPref('layout.css.prefers-color-scheme.content-override', {0 if is_dark else 1});")

    def screenshot(self, path):
        shot = self.call("WebDriver:TakeScreenshot", full=True, hash=False)["value"]
        pathlib.Path(path).write_bytes(base64.b64decode(shot))

    def in_browser(self, script):
        """Runs a script of the browser itself, which sees the console of every page."""
        self.call("Marionette:SetContext", value="chrome")
        try:
            return self.call("WebDriver:ExecuteScript", args=[], script=script)["value"]
        finally:
            self.call("Marionette:SetContext", value="content")

    def forget(self):
        self.in_browser("Services.console.reset();"
                        "Cc['@mozilla.org/consoleAPI-storage;1'].getService(Ci.nsIConsoleAPIStorage).clearEvents();")

    @property
    def errors(self):
        """Errors and warnings of the console that come from the page or from what it started."""
        return self.in_browser("""
                return Services.console.getMessageArray().filter(m => m instanceof Ci.nsIScriptError)
                    .filter(m => /^(file|blob|http):/.test(m.sourceName)).map(m => `${m.sourceName}: ${m.errorMessage}`)
                    .concat(Cc['@mozilla.org/consoleAPI-storage;1'].getService(Ci.nsIConsoleAPIStorage).getEvents()
                        .filter(e => /^(file|blob|http):/.test(e.filename || '')).map(e => e.level + ': ' + e.arguments.join(' ')));
                """)
