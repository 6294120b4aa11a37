"""Take the pictures of docs/mlflow.md anew: MLflow's own pages, of a real study, in a headless browser.

    quintet ablate readout-tiny
    python docs/take_screenshots.py

MLflow's server is started on a free port of the loopback address and stopped again. The browser is the first of those
in BROWSERS that is on PATH; nothing is installed. It is spoken to by its own debugging protocol, because the pages draw
themselves long after they have loaded. Pictures are reduced to a palette, which text does not suffer from.
"""

import base64
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from websockets.sync.client import ClientConnection, connect

from components.files import write_bytes
from components.tracking.store import prepare_environment, tracking_uri
from components.tracking.studies import sync_study
from pipelines.environment import prepare

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
STUDY = "readout-tiny"
SERVER_SECONDS = 120
COLOURS = 64
# Between a page that has its data and one that has drawn them.
SETTLE_SECONDS = 6
SPINNERS = "document.querySelectorAll('[class*=spinner i], [class*=skeleton i], [role=progressbar]').length"
# A panel of MLflow's own, open at the first visit, that covers a third of the page; its last button closes it.
CLOSE_ASSISTANT = """
(() => {
  const words = [...document.querySelectorAll('div')].filter(e => (e.innerText || '').startsWith('MLflow Assistant'));
  let around = words.sort((a, b) => a.innerText.length - b.innerText.length)[0];
  while (around && around.querySelectorAll('button').length < 3) around = around.parentElement;
  const buttons = around ? [...around.querySelectorAll('button')].filter(e => e.getBoundingClientRect().top < 60) : [];
  const right = e => e.getBoundingClientRect().left;
  const last = buttons.sort((a, b) => right(b) - right(a))[0];
  if (last) last.click();
})()
"""

# File name -> how the title of the link among those of the study begins, width and height of the window.
PAGES = {
    "mlflow-study": ("the study:", (1500, 1250)),
    "mlflow-charts": ("arms:", (1500, 1300)),
    "mlflow-runs": ("runs:", (1500, 1300)),
    "mlflow-table": ("table of", (1500, 800)),
    "mlflow-compare": ("one run of each arm", (1500, 1100)),
}


def main() -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"none of {', '.join(BROWSERS)} is on PATH; install one and repeat")
    prepare(ROOT)
    prepare_environment()
    links = sync_study(ROOT, ROOT / "outputs" / "studies" / STUDY).links
    with server() as address, browser_page(browser) as page:
        for name, (title, size) in PAGES.items():
            link = next(link for told, link in links.items() if told.startswith(title))
            picture = PICTURES / f"{name}.png"
            write_bytes(picture, reduced(page.picture(address + link, size)))
            print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size // 1024} KiB")


@contextmanager
def server() -> Iterator[str]:
    """MLflow's server on the store of this checkout, as long as the block lasts."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        "--backend-store-uri", tracking_uri(ROOT), "--default-artifact-root", str(ROOT / "mlflow" / "artifacts"),
    ]  # fmt: skip
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: process.poll() is not None or answers(address), "MLflow's server")
        yield address
    finally:
        process.terminate()
        process.wait()


def answers(address: str) -> bool:
    try:
        urllib.request.urlopen(f"{address}/health", timeout=2)  # noqa: S310
    except OSError:
        return False
    return True


@contextmanager
def browser_page(browser: str) -> Iterator["Page"]:
    """A blank page of a headless browser with a profile of its own, as long as the block lasts."""
    # helpers of the browser write into its profile a moment longer than it runs
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [
            browser, "--headless=new", "--no-sandbox", "--hide-scrollbars", "--disable-gpu", "--no-first-run",
            f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank",
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            told = Path(folder) / "DevToolsActivePort"
            wait_for(lambda: told.is_file() and "\n" in told.read_text(), "the browser")
            port = told.read_text().split("\n")[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=10) as response:
                target = next(page for page in json.load(response) if page["type"] == "page")
            with connect(target["webSocketDebuggerUrl"], max_size=2**26) as socket_:
                yield Page(socket_)
        finally:
            process.terminate()
            process.wait()


class Page:
    """A page of the browser, spoken to by the Chrome DevTools Protocol."""

    def __init__(self, connection: ClientConnection):
        self.connection = connection
        self.number = 0
        self.first_visit = True

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        self.connection.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.connection.recv(timeout=60))
            if answer.get("id") == self.number:
                return dict(answer.get("result", {}))

    def value(self, script: str) -> Any:
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def picture(self, url: str, size: tuple[int, int]) -> bytes:
        """The page at `url` when it has drawn, PNG."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False
        )
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        wait_for(lambda: self.value("document.body && document.body.innerText.length > 200"), "the page")
        time.sleep(SETTLE_SECONDS)
        if self.first_visit:
            self.value(CLOSE_ASSISTANT)
            self.first_visit = False
        wait_for(lambda: self.value(SPINNERS) == 0, "the charts")
        time.sleep(SETTLE_SECONDS)
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SERVER_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"{what} did not get ready")
        time.sleep(0.2)


def reduced(picture: bytes) -> bytes:
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS)
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


if __name__ == "__main__":
    main()
