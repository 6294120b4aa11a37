"""How much memory preparing takes, on stand-ins of full size: real subsets, repeated with small changes."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.datasets.core.catalogue import load_catalogue
from components.datasets.core.fetching import fetch
from components.datasets.core.sources import MIRROR_VARIABLE, mirror_folder
from components.datasets.readers import reader_named
from tests.datasets.pictures import write_tar
from tests.endtoend.copies import REPOSITORY
from tests.soak.outcome import Outcome, Work

LIMIT_MIB = 2048

# Prepares in a process of its own, whose greatest size (with the pages of mapped files) the system tells. Not by
# getrusage, which after an exec still knows the size of the parent.
MEASURED = """
import json, re, sys, time
from pathlib import Path
from components.datasets.core.catalogue import load_catalogue
from components.datasets.registry import kind_named
path, entry, kind, out = sys.argv[1:]
kind = kind_named(kind)
options = kind.PrepareOptions(seed=0)
started = time.monotonic()
told = kind.prepare(load_catalogue(Path(".")).entry(entry), [Path(path)], options, Path(out), lambda done, total: None)
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
print(json.dumps({"rows": told["rows"], "seconds": time.monotonic() - started, "mib": peak / 1024}))
"""


def memory(work: Work, count: int) -> Outcome:
    """Prepare each stand-in `count` times; more than 2 GiB, or another number of rows than it has, is a failure."""
    if mirror_folder(None) is None:
        return Outcome({}, [f"{MIRROR_VARIABLE} is not set, so there is nothing to make the stand-ins of"])
    figures: dict[str, str] = {}
    failures: list[str] = []
    for name, (entry, kind, rows, make) in STAND_INS.items():
        work.say(f"{name}: making the stand-in")
        path = make(work.folder)
        found = [_measured(path, entry, kind, work.folder / f"{name}-{number}") for number in range(count)]
        peak = max(run["mib"] for run in found)
        figures[f"{name}: peak of the whole process"] = f"{peak:,.0f} MiB"
        figures[f"{name}: rows, seconds"] = f"{found[0]['rows']:,.0f}, {max(run['seconds'] for run in found):.1f}"
        if peak > LIMIT_MIB:
            failures.append(f"{name}: a peak of {peak:,.0f} MiB, allowed are {LIMIT_MIB:,}")
        failures += [f"{name}: {run['rows']} rows, there are {rows}" for run in found if run["rows"] != rows]
    return Outcome(figures, failures)


def _measured(path: Path, entry: str, kind: str, out: Path) -> dict[str, float]:
    out.mkdir()
    command = [sys.executable, "-c", MEASURED, str(path), entry, kind, str(out)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{entry} could not be prepared: {done.stderr}")
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _cifar_10(folder: Path) -> Path:
    """The 60,000 images of CIFAR-10's binary archive, made of the 5,000 that the mirror has; no two are alike."""
    entry = load_catalogue(REPOSITORY).entry("cifar10-4k")
    source = reader_named(entry.reader)(fetch(entry, folder / "root").paths, entry)
    batches = [batch for part in source.parts.values() for batch in part.batches()]
    images, labels = (np.concatenate([batch[place] for batch in batches]) for place in (0, 1))
    members = {"batches.meta.txt": "\n".join(source.classes).encode()}
    for number in range(6):
        name = f"data_batch_{number + 1}.bin" if number < 5 else "test_batch.bin"
        changed = np.concatenate([_changed(images, 2 * number), _changed(images, 2 * number + 1)])
        members[name] = _binary_rows(changed, np.tile(labels, 2))
    return write_tar(folder / "cifar-10-binary.tar.gz", members)


def _changed(images: NDArray[np.uint8], by: int) -> NDArray[np.uint8]:
    """The images with one byte moved by `by`, so that every repetition is an image of its own."""
    copies = images.copy()
    copies[:, 0, 0, 0] += np.uint8(by)
    return copies


def _binary_rows(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> bytes:
    pixels = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.concatenate([labels[:, None].astype(np.uint8), pixels], axis=1).tobytes()


# name: entry whose reader and options are used, kind, rows, and what makes the file
STAND_INS: dict[str, tuple[str, str, int, Callable[[Path], Path]]] = {
    "CIFAR-10": ("cifar10", "images", 60_000, _cifar_10),
}
