"""From the outputs of the stages to MLflow: whatever is missing is added, and what is there already stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from components.errors import RecordError
from components.tracking import lineage, registry, store
from components.tracking.grammar import metric_table
from components.tracking.records import read_records
from components.tracking.studies import StudyTracked, sync_study_with
from components.tracking.study_files import read_study_files, study_folders
from components.tracking.sweep import sweep_with
from components.tracking.upsert import of_the_graph, upsert


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
    # what is compared with many seeds; each says itself how many runs it has.
    studies: tuple[StudyTracked, ...] = ()

    @property
    def changed(self) -> bool:
        graph = self.created or self.updated or self.registered or self.swept
        return bool(graph) or any(study.changed for study in self.studies)


def synchronise(root: Path) -> SyncReport:
    """Upsert every run that the records under outputs/ describe, the model registry, then every study.

    Runs are keyed by (experiment, digest), model versions by digest and bundle. Calling it twice changes nothing the
    second time; calling it on an empty store restores every run, metric, tag, version and alias of the outputs.

    Raises TrackingError when the store does not answer, RecordError when a record is malformed.
    """
    from filelock import FileLock

    logical_runs = read_records(root)
    study_files = []
    unread = []
    for folder in study_folders(root):
        try:
            study_files.append(read_study_files(root, folder))
        except RecordError as error:
            # one study that cannot be read must not keep the others, and the graph's runs, out of the store
            unread.append(f"study {folder.name} is left out: {error}")
    client = store.open_client(root)
    with FileLock(store.sync_lock_file(root)):
        swept = sweep_with(client)
        lock = lineage.read_lock(root)
        stale = tuple(logical.name for logical in logical_runs if logical.train is None)
        states: dict[str, list[str]] = {"created": [], "updated": [], "unchanged": [], "busy": []}
        registered: list[str] = []
        not_registered: list[tuple[str, str]] = []
        notes: list[str] = list(unread)
        for logical in logical_runs:
            if logical.train is None:
                continue
            around = of_the_graph(root, logical, logical.train, lock)
            upserted = upsert(client, root, logical, logical.train, around)
            states[upserted.state].append(logical.name)
            notes.extend(upserted.notes)
            if upserted.state == "busy":
                continue
            outcome = registry.register(client, upserted)
            if outcome.registered is not None:
                registered.append(outcome.registered)
            if outcome.reason is not None:
                not_registered.append((logical.name, outcome.reason))
        for method in sorted({logical.train.record.method for logical in logical_runs if logical.train}):
            store.describe_experiment(client, store.experiment_id(client, root, method), how_to_read(method))
        studies = tuple(sync_study_with(client, files) for files in study_files)
    return SyncReport(
        uri=store.tracking_uri(root),
        **{state: tuple(names) for state, names in states.items()},
        stale=stale,
        registered=tuple(registered),
        not_registered=tuple(not_registered),
        swept=swept,
        notes=tuple(notes),
        studies=studies,
    )


def how_to_read(method: str) -> str:
    """The description of a method's experiment, in Markdown."""
    return (
        f"Runs of the stage graph that train `{method}`. A run is named EXPERIMENT-DIGEST, where the digest stands for "
        f"configuration, data, code and versions: the same digest is the same run. Its stages' files are among the "
        f"artifacts; registered models are made from runs whose export gate passed.\n\n{metric_table()}"
    )
