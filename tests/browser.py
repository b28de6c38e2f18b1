"""A real browser without a window: opens a page, does what a person does, and tells what the page did."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_S = 60
NARROW = 600
"""Pixels: a narrower window is a telephone's."""
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--remote-debugging-pipe", "--window-size=1200,900", "about:blank",
)  # fmt: skip
_BAD = ("Page.javascriptDialogOpening", "Runtime.exceptionThrown", "Log.entryAdded")


class Page:
    """A tab, spoken to over Chromium's own protocol.

    Attributes:
        complaints: Dialogs, exceptions, and what the browser logged: violations of the policy, failed requests.
        requests: URLs that the page asked for, itself included.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing, self._number, self._left = reading, writing, 0, b""
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        targets = self._ask("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def look(self, *, width: int, is_dark: bool) -> None:
        """Be a window of so many pixels, of a person who likes light or dark pages."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < NARROW,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file and wait until it is loaded and drawn."""
        self._ask("Page.navigate", url=path.absolute().as_uri() + fragment)
        while self._read().get("method") != "Page.loadEventFired":
            pass
        self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 300)))")

    def evaluate(self, script: str) -> Any:
        """Return what a script comes to, run from outside: the page's policy does not count."""
        answer = self._ask(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def point_at(self, selector: str, *, click: bool = False) -> None:
        """Move the mouse to the middle of an element, and click it."""
        box = self.evaluate(
            f"(b => [b.x + b.width / 2, b.y + b.height / 2])"
            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        kinds = ("mouseMoved", "mousePressed", "mouseReleased") if click else ("mouseMoved",)
        for kind in kinds:
            self._ask(
                "Input.dispatchMouseEvent",
                type=kind,
                x=box[0],
                y=box[1],
                button="left",
                clickCount=1,
            )
        self.evaluate("new Promise(done => setTimeout(done, 200))")

    def picture(self, path: Path) -> None:
        """Write what is seen as PNG."""
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot")["data"]))

    def _ask(self, method: str, **params: object) -> Any:
        number = self._send(method, params)
        while (answer := self._read()).get("id") != number:
            pass
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def _send(self, method: str, params: object) -> int:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        return self._number

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            chunk = os.read(self._reading, 1 << 20)
            assert chunk, "the browser has ended"
            self._left += chunk
        text, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        method, params = message.get("method"), message.get("params", {})
        if method in _BAD:
            self.complaints.append(json.dumps(params)[:500])
        if method == "Page.javascriptDialogOpening":  # which holds up the page
            self._send("Page.handleJavaScriptDialog", {"accept": True})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        return message


def _moved(number: int) -> int:
    """Return a file by a number that is not one of those that the browser's own files get."""
    moved = fcntl.fcntl(number, fcntl.F_DUPFD, 20)
    os.close(number)
    return moved


@contextmanager
def browser() -> Iterator[Page]:
    """Yield a tab; skips the test where there is no browser."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no browser: install Chromium (Debian: apt-get install chromium)")
    (to_read, to_write), (answer_read, answer_write) = os.pipe(), os.pipe()
    to_read, answer_write = _moved(to_read), _moved(answer_write)
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as home:
        command = [program, f"--user-data-dir={home}", *_FLAGS]
        # the protocol's numbers: the browser reads commands at 3 and answers at 4
        script = f'exec "$@" 3<&{to_read} 4>&{answer_write} {to_read}<&- {answer_write}>&-'
        process = subprocess.Popen(
            ["/bin/bash", "-c", script, "browser", *command],
            pass_fds=(to_read, answer_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(answer_write)
        try:
            yield Page(answer_read, to_write)
        finally:
            os.close(to_write)
            os.close(answer_read)
            process.terminate()
            process.wait(TIMEOUT_S)
