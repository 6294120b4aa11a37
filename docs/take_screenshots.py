"""Take the pictures of docs/mlflow.md anew: MLflow's own pages, of a real study, in a headless browser.

    quintet ablate readout-tiny
    python docs/take_screenshots.py

MLflow's server is started on a free port of the loopback address and stopped again. The browser is the first of those in
BROWSERS that is on PATH; nothing is installed. Pictures are reduced to a palette, which text does not suffer from.
"""

import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from components.files import write_bytes
from components.tracking.store import prepare_environment, tracking_uri
from components.tracking.studies import sync_study
from pipelines.environment import prepare

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
STUDY = "readout-tiny"
# What the page may take to load its data and draw, in milliseconds of its own clock.
PAGE_MILLISECONDS = 25_000
SERVER_SECONDS = 120
COLOURS = 64

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
    with server() as address:
        for name, (title, size) in PAGES.items():
            link = next(link for told, link in links.items() if told.startswith(title))
            picture = PICTURES / f"{name}.png"
            write_bytes(picture, reduced(taken(browser, address + link, size)))
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
        wait_until_ready(process, address)
        yield address
    finally:
        process.terminate()
        process.wait()


def wait_until_ready(process: "subprocess.Popen[bytes]", address: str) -> None:
    deadline = time.monotonic() + SERVER_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=2)  # noqa: S310
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    sys.exit("MLflow's server did not start")


def taken(browser: str, url: str, size: tuple[int, int]) -> bytes:
    """A picture of the page as it is when it has drawn, PNG."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "page.png"
        command = [
            browser, "--headless=new", "--no-sandbox", "--hide-scrollbars", "--disable-gpu",
            f"--user-data-dir={folder}/profile", f"--window-size={size[0]},{size[1]}",
            f"--virtual-time-budget={PAGE_MILLISECONDS}", f"--screenshot={picture}", url,
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=180)
        return picture.read_bytes()


def reduced(picture: bytes) -> bytes:
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS)
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


if __name__ == "__main__":
    main()
