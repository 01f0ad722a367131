"""A headless Chromium, driven through a pipe by its DevTools protocol, without a package for it."""

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS = 60.0
"""How long an answer is waited for."""
TRIES, PAUSE = 400, 0.05
"""How often a condition is tried, and the seconds between. A stopped process loses no try."""
OPTIONS = (
    "--headless",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # which is small in containers
    "--no-first-run",
    "--force-color-profile=srgb",
)
# Chromium reads commands from descriptor 3 and writes answers to 4. They come here with numbers of
# the parent's, which may be 3 or 4 themselves and are moved out of the way first.
START = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(name), fcntl.F_DUPFD, 10) for name in sys.argv[1:3])
os.dup2(read, 3), os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
# The visible elements of a selector that have some words, or are these words where any is.
FOUND = """
((selector, words) => {
    const found = [...document.querySelectorAll(selector)].filter(element => {
        const box = element.getBoundingClientRect();
        return element.checkVisibility({visibilityProperty: true})
            && box.width > 0 && box.height > 0 && element.textContent.includes(words);
    });
    const same = found.filter(element => element.textContent.trim() === words);
    return same.length ? same : found;
})
"""


def program() -> str | None:
    """Return the path of a Chromium; None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a Chromium.

    Attributes:
        problems: what went wrong in pages since it was last emptied: exceptions of scripts, and
            files that were asked for and did not come.
    """

    def __init__(self, path: str, folder: Path) -> None:
        """Start the program at `path`, which keeps its profile in `folder`."""
        theirs_in, self._commands = os.pipe()
        self._answers, theirs_out = os.pipe()
        # Chromium's sandbox refuses to run as root, as which a container's programs often run.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        command = [path, *OPTIONS, *sandbox, f"--user-data-dir={folder}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, str(theirs_in), str(theirs_out), *command],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.problems: list[str] = []
        self._unread, self._last, self._session = b"", 0, ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the program."""
        self._process.terminate()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of a method of the protocol.

        Raises:
            RuntimeError: the browser refuses.
            TimeoutError: it does not answer.
        """
        self._last += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._last, "method": method, "params": parameters} | session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._last:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        """Return the next message."""
        while b"\0" not in self._unread:
            if not select.select([self._answers], [], [], SECONDS)[0]:
                raise TimeoutError(f"no answer of the browser within {SECONDS:.0f} s")
            read = os.read(self._answers, 1 << 20)
            if not read:
                raise RuntimeError("the browser has ended")
            self._unread += read
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        """Keep an event that is a problem of a page."""
        name, said = event.get("method"), event.get("params", {})
        if name == "Runtime.exceptionThrown":
            details = said["exceptionDetails"]
            self.problems.append(details.get("exception", details).get("description", "exception"))
        elif name == "Network.responseReceived" and said["response"]["status"] >= 400:
            self.problems.append(f"{said['response']['status']}: {said['response']['url']}")
        elif name == "Network.loadingFailed" and not said.get("canceled"):
            self.problems.append(f"{said['errorText']}: a file of type {said['type']}")

    def run(self, script: str) -> Any:
        """Return the value of an expression in JavaScript; a promise's is waited for."""
        done = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in done:
            raise RuntimeError(done["exceptionDetails"]["exception"].get("description", script))
        return done["result"].get("value")

    def wait(self, script: str) -> Any:
        """Return the first value of an expression that is true.

        Raises:
            TimeoutError: it stays false.
        """
        for _ in range(TRIES):
            try:
                if value := self.run(script):
                    return value
            except RuntimeError:  # such as in a page that is being left
                pass
            time.sleep(PAUSE)
        raise TimeoutError(f"stays false at {self.run('location.href')}: {script}")

    def show(self, url: str) -> None:
        """Go to a page, and wait until it is there."""
        self.call("Page.navigate", url=url)
        self.wait(
            f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})"
        )

    def look(self, width: int, theme: str) -> None:
        """Take a width in pixels and the theme `light` or `dark`, as a reader's system says."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def click(self, selector: str, words: str = "") -> None:
        """Click with the mouse on what is visible, of a selector, with some words in it."""
        place = self.wait(f"""(() => {{
            const element = {FOUND}({json.dumps(selector)}, {json.dumps(words)}).at(-1);
            if (!element) return null;
            element.scrollIntoView({{block: "center", behavior: "instant"}});
            const box = element.getBoundingClientRect();
            return [box.x + Math.min(box.width / 2, 60), box.y + Math.min(box.height / 2, 60)];
        }})()""")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            where = {"x": place[0], "y": place[1]}
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, **where, **button)

    def type(self, words: str) -> None:
        """Type into what has the focus, and press Enter."""
        self.call("Input.insertText", text=words)
        for kind in ("keyDown", "keyUp"):
            enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
            self.call("Input.dispatchKeyEvent", type=kind, **enter)
