"""Where a run came from: DVC's hashes, the commit, the configuration; read from files, never asked of MLflow."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from components.errors import TrackingError
from components.files import digest_of, read_json, sha256_file
from components.tracking.records import CONFIG_NAME, MAX_TAG_LENGTH, LogicalRun, StageRecord

COMMIT_TAG = "quintet.git_commit"
COMMIT_SOURCE_TAG = "quintet.git_commit_source"
CONFIG_TAG = "quintet.config_sha256"
FROM_STAGE = "the stage's own account"
FROM_HEAD = "HEAD when synchronised; the stage's own commit is not known"

# stages that prepare a data set are part of the lineage of each run on it.
_DATASET_STAGES = ("prepare", "gate_data")


@dataclass(frozen=True)
class StageInfo:
    """Facts of one execution that are no part of its output; times in milliseconds since the epoch."""

    started: int
    seconds: float
    git_commit: str | None
    device: str | None

    @property
    def ended(self) -> int:
        return self.started + int(self.seconds * 1000)


def stage_info(root: Path, stage: StageRecord) -> StageInfo | None:
    """The execution that produced exactly this output, None when it is not known (restored from a cache, say)."""
    path = root / "run_info" / "stages" / f"{stage.address}.json"
    manifest = stage.folder / "manifest.json"
    if not path.exists() or not manifest.exists():
        return None
    try:
        facts = read_json(path)
        if facts.get("state") != "succeeded" or facts.get("digest") != sha256_file(manifest):
            return None
        started = int(datetime.fromisoformat(facts["started"]).timestamp() * 1000)
        return StageInfo(started, float(facts["seconds"]), facts.get("git_commit"), facts.get("device"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrackingError(
            f"{path}: is not an account of a stage ({error!r}); delete it, it is a note only"
        ) from error


def head_commit(root: Path) -> str | None:
    """The commit that is checked out, None outside a repository or before the first commit."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "--verify", "--quiet", "HEAD"], cwd=root, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        # no git on this machine: the same as no repository.
        return None
    return answer.stdout.strip() or None


def read_lock(root: Path) -> dict[str, Any]:
    """The stages of dvc.lock, empty when there is none (stages run by hand)."""
    import yaml

    path = root / "dvc.lock"
    if not path.exists():
        return {}
    try:
        stages = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("stages") or {}
    except (yaml.YAMLError, AttributeError) as error:
        raise TrackingError(f"{path}: is not a DVC lock file; restore it with git, or run `dvc repro`") from error
    return dict(stages)


def dvc_hashes(lock: dict[str, Any], run: LogicalRun) -> dict[str, dict[str, dict[str, str]]]:
    """For each stage of the run and of its data set: the path and hash of each dependency and output."""
    addresses = [stage.address for stage in run.stages]
    datasets = sorted({stage.record.dataset for stage in run.stages})
    addresses += [f"{stage}@{dataset}" for dataset in datasets for stage in _DATASET_STAGES]
    return {
        address: {kind: _hashes(lock[address].get(kind) or []) for kind in ("deps", "outs")}
        for address in addresses
        if address in lock
    }


def _hashes(entries: list[dict[str, Any]]) -> dict[str, str]:
    return {entry["path"]: str(entry.get(entry.get("hash", "md5"), "")) for entry in entries}


def hash_tags(hashes: dict[str, dict[str, dict[str, str]]]) -> dict[str, str]:
    """One tag per stage and kind. A list too long for a tag is named by its digest; the run's lineage.json has it."""
    tags = {}
    for address, kinds in hashes.items():
        for kind, paths in kinds.items():
            text = json.dumps(paths, sort_keys=True)
            fits = len(text) <= MAX_TAG_LENGTH
            key = f"dvc.{address.split('@')[0]}.{kind}"
            tags[key] = text if fits else f"sha256:{digest_of(paths)} of {len(paths)} entries, listed in lineage.json"
    return tags


def config_sha256(train: StageRecord) -> str:
    return sha256_file(train.folder / CONFIG_NAME)


def commit_tags(root: Path, info: StageInfo | None, present: dict[str, str]) -> dict[str, str]:
    """Commit of the run and how it is known; a commit once recorded gives way only to the stage's own account."""
    if info is not None and info.git_commit:
        return {COMMIT_TAG: info.git_commit, COMMIT_SOURCE_TAG: FROM_STAGE}
    if COMMIT_TAG in present:
        return {COMMIT_TAG: present[COMMIT_TAG], COMMIT_SOURCE_TAG: present.get(COMMIT_SOURCE_TAG, FROM_HEAD)}
    head = head_commit(root)
    return {COMMIT_TAG: head, COMMIT_SOURCE_TAG: FROM_HEAD} if head else {}
