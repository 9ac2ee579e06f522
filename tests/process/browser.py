# SPDX-License-Identifier: MIT
"""Headless Chromium, driven over its debugging pipe: no package is needed but the browser."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def found():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page. What its scripts throw or it refuses to load is in `complaints`, what it asks the network for in `requests`."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        self.complaints, self.requests, self.number, self.unread = [], [], 0, b""
        self.reading, theirs = os.pipe()
        their_reading, self.writing = os.pipe()

        def descriptors():  # Chromium reads 3 and writes 4
            read, written = os.dup(their_reading), os.dup(theirs)
            os.dup2(read, 3)
            os.dup2(written, 4)

        self.process = subprocess.Popen(
            [found(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
             "--user-data-dir=" + self.folder, "--remote-debugging-pipe"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=descriptors)
        os.close(theirs)
        os.close(their_reading)
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.reading)
        os.close(self.writing)
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self, patience):
        while b"\0" not in self.unread:
            if not select.select([self.reading], [], [], patience)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.reading, 1 << 20)
            if not part:
                raise EOFError("the browser has gone")
            self.unread += part
        text, _, self.unread = self.unread.partition(b"\0")
        message = json.loads(text)
        method, given = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(given["exceptionDetails"].get("exception", {}).get("description") or given["exceptionDetails"]["text"])
        if method == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.complaints.append(given["entry"]["text"])
        if method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        return message

    def ask(self, method, patience=60, **given):
        self.number += 1
        session = {"sessionId": self.session} if getattr(self, "session", None) else {}
        os.write(self.writing, json.dumps({"id": self.number, "method": method, "params": given, **session}).encode() + b"\0")
        while True:
            message = self.message(patience)
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    def run(self, script):
        """The value of an expression in the page."""
        said = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in said:
            raise RuntimeError(said["exceptionDetails"].get("exception", {}).get("description", "an exception") + " in " + script[:200])
        return said["result"].get("value")

    def look(self, width, height=900, theme="light", still=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme},
                                                         {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}])

    def open(self, path, patience=60):
        """Seconds until a report is there."""
        self.complaints.clear()
        self.requests.clear()
        begun = time.monotonic()
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=pathlib.Path(path).as_uri())
        self.wait("location.protocol === 'file:' && document.body?.dataset.ready", patience)
        if (said := self.run("document.body.dataset.ready")) != "yes":
            raise RuntimeError(said)
        return time.monotonic() - begun

    def wait(self, condition, patience=20):
        end = time.monotonic() + patience
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition} never came true; {self.complaints}")
            time.sleep(.02)

    def box(self, element):
        """Left, top, width, height of what a selector finds, moved into view."""
        return self.run(f"""(() => {{ const node = document.querySelector({json.dumps(element)}); node.scrollIntoView({{ block: "center" }});
                        const box = node.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; }})()""")

    def mouse(self, kind, x, y):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left",
                 buttons=1, clickCount=1)

    def drag(self, element, begin, end):
        """From one share of an element's width to another."""
        left, top, width, height = self.box(element)
        y = top + height / 2
        self.mouse("mousePressed", left + width * begin, y)
        for step in range(1, 6):
            self.mouse("mouseMoved", left + width * (begin + (end - begin) * step / 5), y)
        self.mouse("mouseReleased", left + width * end, y)

    def click(self, element, x=.5, y=.5):
        left, top, width, height = self.box(element)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, left + width * x, top + height * y)

    def key(self, name):
        text = {"Enter": "\r", " ": " "}.get(name, name if len(name) == 1 else "")
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, " ": 32}
        given = {"key": name, "code": name if len(name) > 1 else "", "windowsVirtualKeyCode": codes.get(name, ord(name[0]))}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **given, **({"text": text} if text else {}))
        self.ask("Input.dispatchKeyEvent", type="keyUp", **given)

    def picture(self, path):
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
