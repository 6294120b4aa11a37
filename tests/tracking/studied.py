"""The files of a small study, as they are left when it has run: arms by seeds, real records, a table, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import tracked

from components.files import replacing_folder, write_json, write_text
from components.tracking import new_record, write_history, write_record

STUDY = "prototypes"
ARMS: Mapping[str, Mapping[str, Any]] = {
    "few": {"model.num_prototypes": 2, "model.centre": False},
    "some": {"model.num_prototypes": 8, "model.centre": False},
    "many": {"model.num_prototypes": 32, "model.centre": True},
}
SEEDS = (1, 2)
STARTED = datetime(2026, 3, 1, tzinfo=UTC)
DVC_HASH = "9" * 32 + ".dir"


def digest(arm: str, seed: int) -> str:
    return tracked.digest(f"{arm}/{seed}")


def accuracy(arm: str, seed: int) -> float:
    """Known, different for every run, and best for the arm with most prototypes."""
    return 0.5 + 0.125 * list(ARMS).index(arm) + seed / 64


def study(
    arms: Sequence[str] = tuple(ARMS), seeds: Sequence[int] = SEEDS, name: str = STUDY, **changes: Any
) -> dict[str, Any]:
    """The content of study.json."""
    fields: dict[str, Any] = {
        "format": "quintet-study/1",
        "name": name,
        "question": "How many prototypes does the readout need?",
        "experiment": tracked.EXPERIMENT,
        "method": tracked.METHOD,
        "scale": "tiny",
        "knobs": ["model.num_prototypes", "model.centre"],
        "reference": arms[0],
        "metric": "test/accuracy",
        "goal": "maximise",
        "also": ["train/loss"],
        "confidence": 0.95,
        "seeds": list(seeds),
        "arms": [
            {
                "name": arm,
                "settings": dict(ARMS[arm]),
                "runs": {str(seed): digest(arm, seed) for seed in seeds},
            }
            for arm in arms
        ],
    }
    return {**fields, **changes}


def history(arm: str, seed: int) -> list[tuple[int, dict[str, float]]]:
    slope = ARMS[arm]["model.num_prototypes"] / 4 + seed / 8
    return [(step, {"train/loss": 2.0 / (1 + slope * step), "validation/loss": 1.0 / step}) for step in range(1, 6)]


def write_run(root: Path, arm: str, seed: int) -> Path:
    run = digest(arm, seed)
    identity = {**tracked.identity(), "digest": run}
    points = history(arm, seed)
    scores = {"test/accuracy": accuracy(arm, seed), "test/macro_f1": accuracy(arm, seed) / 2}
    with replacing_folder(root / "outputs" / "study_runs" / run) as folder:
        write_json(
            folder / "train" / "config.json", {"experiment": {"model": ARMS[arm], "seed": seed}, "scale": "tiny"}
        )
        train = new_record(
            **identity,
            stage="train",
            parameters={"model.num_prototypes": ARMS[arm]["model.num_prototypes"], "seed": seed},
            metrics=points[-1][1],
            history=write_history(folder / "train", points),
            artifacts=["config.json"],
            datasets=[{"name": "orbital-sample", "digest": tracked.digest("table"), "context": "train"}],
        )
        write_record(folder / "train", train)
        (folder / "evaluate").mkdir()
        evaluate = new_record(
            **identity,
            stage="evaluate",
            metrics=scores,
            datasets=[{"name": "orbital-sample", "digest": tracked.digest("table"), "context": "test"}],
        )
        write_record(folder / "evaluate", evaluate)
        result = {
            "format": "quintet-study-run/1",
            "digest": run,
            "experiment": tracked.EXPERIMENT,
            "method": tracked.METHOD,
            "dataset": "orbital-sample",
            "scale": "tiny",
            "seed": seed,
            "settings": {**ARMS[arm], "training.epochs": 5, "datasets.orbital-sample.prepare.max_rows": 120},
            "metrics": {**points[-1][1], **scores},
            "costs": {
                "parameters": 100 * ARMS[arm]["model.num_prototypes"],
                "multiply_adds": 700 * ARMS[arm]["model.num_prototypes"],
                "steps": 40,
                "epochs": 5,
                "rows": 120,
            },
            "data_order": ["0123456789abcdef"] * 5,
            "output": tracked.digest(f"output {arm}/{seed}"),
            "device": "cpu",
            "code": tracked.digest("code"),
            "versions": {"torch": "2.13.0"},
            "data": {"data/prepared/orbital-sample": {"sha256": tracked.digest("folder"), "dvc": DVC_HASH}},
        }
        write_json(folder / "result.json", result)
    return root / "outputs" / "study_runs" / run


def write_account(root: Path, arm: str, seed: int, **changes: Any) -> None:
    number = list(ARMS).index(arm) * 10 + seed
    facts = {
        "state": "succeeded",
        "started": (STARTED + timedelta(seconds=10 * number)).isoformat(),
        "seconds": 4.5 + number,
        "train_seconds": 4.0,
        "train_cpu_seconds": 4.25,
        "error": None,
        "pid": 1,
        "device_reason": "asked for",
        "git_commit": "c" * 40,
        "at_once": 1,
    }
    write_json(root / "run_info" / "study_runs" / f"{digest(arm, seed)}.json", {**facts, **changes})


def write_study(root: Path, content: Mapping[str, Any] | None = None) -> Path:
    """study.json and what a comparison leaves beside it; returns the study's folder."""
    content = content or study()
    folder = root / "outputs" / "studies" / str(content["name"])
    write_json(folder / "study.json", content)
    rows = "\n".join(f"| {arm['name']} | {len(content['seeds'])} |" for arm in content["arms"])
    write_text(folder / "summary.md", f"| arm | n |\n|---|---|\n{rows}\n")
    write_json(folder / "comparison.json", {"arms": [arm["name"] for arm in content["arms"]]})
    write_text(folder / "plots" / "arms.txt", "picture\n")
    return folder


def write_whole_study(root: Path, content: Mapping[str, Any] | None = None) -> Path:
    content = content or study()
    for arm in content["arms"]:
        for seed in content["seeds"]:
            write_run(root, arm["name"], seed)
            write_account(root, arm["name"], seed)
    return write_study(root, content)
