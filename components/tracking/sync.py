"""From the outputs of the stages to MLflow: whatever is missing is added, and what is there already stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from components.tracking import lineage, registry, store
from components.tracking.records import read_records
from components.tracking.sweep import sweep_with
from components.tracking.upsert import upsert


@dataclass(frozen=True)
class SyncReport:
    """What a synchronisation did. Runs are named EXPERIMENT-DIGEST8, models NAME vN; the rest are readable lines."""

    uri: str
    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    # filled by a living process at this moment.
    busy: tuple[str, ...] = ()
    # outputs of later stages whose training has been replaced since.
    stale: tuple[str, ...] = ()
    registered: tuple[str, ...] = ()
    # run -> why it has no new model version.
    not_registered: tuple[tuple[str, str], ...] = ()
    # RUNNING runs of dead processes, ended as FAILED.
    swept: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.created or self.updated or self.registered or self.swept)


def synchronise(root: Path) -> SyncReport:
    """Upsert every run that the records under outputs/ describe, then the model registry.

    Runs are keyed by (experiment, digest), model versions by digest and bundle. Calling it twice changes nothing the
    second time; calling it on an empty store restores every run, metric, tag, version and alias of the outputs.

    Raises TrackingError when the store does not answer, RecordError when a record is malformed.
    """
    from filelock import FileLock

    logical_runs = read_records(root)
    client = store.open_client(root)
    lock_file = root / ".quintet" / "locks" / "sync.lock"
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock_file):
        swept = sweep_with(client)
        lock = lineage.read_lock(root)
        stale = tuple(logical.name for logical in logical_runs if logical.train is None)
        states: dict[str, list[str]] = {"created": [], "updated": [], "unchanged": [], "busy": []}
        registered: list[str] = []
        not_registered: list[tuple[str, str]] = []
        notes: list[str] = []
        for logical in logical_runs:
            if logical.train is None:
                continue
            upserted = upsert(client, root, logical, logical.train, lock)
            states[upserted.state].append(logical.name)
            notes.extend(upserted.notes)
            if upserted.state == "busy":
                continue
            outcome = registry.register(client, upserted)
            if outcome.registered is not None:
                registered.append(outcome.registered)
            if outcome.reason is not None:
                not_registered.append((logical.name, outcome.reason))
    return SyncReport(
        uri=store.tracking_uri(root),
        **{state: tuple(names) for state, names in states.items()},
        stale=stale,
        registered=tuple(registered),
        not_registered=tuple(not_registered),
        swept=swept,
        notes=tuple(notes),
    )
