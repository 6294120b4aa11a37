"""Studies in MLflow: an experiment each, a parent run for the study, and below it a run for every arm and seed.

What is streamed while a study runs and what is read from its files afterwards meet in the same runs: the parent is
found by the study's digest, a child by its parent, arm, seed and digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from components.files import files_below
from components.tracking import lineage, runs, store
from components.tracking.fill import NOTE_TAG, SOURCE_NAME_TAG, SOURCE_TYPE_TAG, Filled, RunContent, fill
from components.tracking.grammar import metric_table
from components.tracking.records import MAX_PARAMETER_LENGTH, MAX_TAG_LENGTH, Scalar, parameter_text
from components.tracking.runs import Placement
from components.tracking.study_files import (
    RESULT_NAME,
    SUMMARY_NAME,
    TABLE_NAME,
    Study,
    StudyFiles,
    StudyRun,
    checked_study,
    read_study_files,
    study_digest,
)
from components.tracking.study_links import study_pages
from components.tracking.upsert import Surroundings, Upserted, upsert

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

STUDY_TAG = "quintet.study"
STUDY_DIGEST_TAG = "quintet.study_digest"
ARM_TAG = "quintet.arm"
SEED_TAG = "quintet.seed"
KIND_TAG = "quintet.kind"
BEST_TAG = "quintet.best_arm"
DEVICE_TAG = "quintet.device"
CODE_TAG = "quintet.code_sha256"
OUTPUT_TAG = "quintet.output_sha256"
PARENT_KIND, CHILD_KIND = "study", "study-run"

_EXPERIMENT = "study/"
_MAX_LISTED = 5
_MAX_REASON = 500
_MAX_LINK = 1000


@dataclass(frozen=True)
class StudyTracked:
    """What synchronising one study did. Runs are named ARM, seed N; the parent is named as in MLflow.

    `links` are pages of MLflow's user interface by title, as paths from the server's address on.
    """

    name: str
    parent_id: str
    children: Mapping[tuple[str, int], str]
    links: Mapping[str, str]
    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    # filled by a living process at this moment; for the parent, the study itself is.
    busy: tuple[str, ...] = ()
    # runs of the study that are not finished, each with what is known of it.
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.created or self.updated)

    def __str__(self) -> str:
        counts = {
            "new": self.created,
            "completed": self.updated,
            "unchanged": self.unchanged,
            "still in use": self.busy,
            "not finished": self.missing,
        }
        said = ", ".join(f"{len(names)} {what}" for what, names in counts.items() if names)
        return f"study {self.name}: {said}"


def open_study(root: Path, study: Mapping[str, Any]) -> str:
    """The id of the study's parent run, RUNNING; `study` is the content of study.json.

    To be called before the runs of the study start. However many processes call it at once, the store is initialised
    once and there is one parent, which belongs to the first process and to a later one only when that is gone.
    Raises TrackingError when the store does not answer, RecordError for what is no study.
    """
    from filelock import FileLock

    checked = checked_study(study, "study")
    tags = _parent_tags(checked, study_digest(study))
    client = store.open_client(root)
    with store.answering(root):
        experiment_id = store.experiment_id(client, root, _EXPERIMENT + checked.name)
        with FileLock(store.store_lock_file(root)):
            run = runs.find_tagged(client, experiment_id, tags)
            if run is None:
                run = runs.create_tagged(client, experiment_id, _parent_name(checked, tags), tags)
            elif not runs.is_filled_elsewhere(run):
                runs.reopen_run(client, run)
        # a study that was synchronised says more already.
        if NOTE_TAG not in client.get_experiment(experiment_id).tags:
            store.describe_experiment(client, experiment_id, _how_to_read(checked))
    return str(run.info.run_id)


def end_study(root: Path, parent_id: str, status: Literal["FAILED", "KILLED"], reason: str) -> None:
    """End a parent run whose study was stopped: FAILED or KILLED and why. Synchronising ends it otherwise."""
    client = store.open_client(root)
    with store.answering(root):
        runs.end_run(client, parent_id, status, reason)


def child_placement(study: str, arm: str, seed: int, parent_id: str) -> Placement:
    """Where the run of an arm with a seed lies, for `LiveRun`. Can be sent to another process."""
    return Placement(
        experiment=_EXPERIMENT + study,
        name=f"{arm}, seed {seed}",
        tags={
            STUDY_TAG: study,
            ARM_TAG: arm,
            SEED_TAG: str(seed),
            KIND_TAG: CHILD_KIND,
            runs.PARENT_TAG: parent_id,
        },
    )


def sync_study(root: Path, folder: Path) -> StudyTracked:
    """Bring MLflow to what the files of the study in `folder` (outputs/studies/STUDY) and of its runs say.

    Calling it twice changes nothing the second time; a deleted store comes back the same. A parent that this process
    opened is ended: FINISHED, or FAILED when runs of the study are missing.

    Raises TrackingError when the store does not answer, RecordError when a file is malformed.
    """
    from filelock import FileLock

    files = read_study_files(root, folder)
    client = store.open_client(root)
    with FileLock(store.sync_lock_file(root)), store.answering(root):
        return sync_study_with(client, files)


def sync_study_with(client: MlflowClient, files: StudyFiles) -> StudyTracked:
    from filelock import FileLock

    root, study = files.root, files.study
    tags = _parent_tags(study, files.digest)
    name = _parent_name(study, tags)
    experiment_id = store.experiment_id(client, root, _EXPERIMENT + study.name)
    with FileLock(store.store_lock_file(root)):
        found = runs.find_tagged(client, experiment_id, tags)
        span = _span(files)
        parent = found or runs.create_tagged(client, experiment_id, name, tags, span[0] if span else None)
    parent_id = str(parent.info.run_id)
    states: dict[str, list[str]] = {"created": [], "updated": [], "unchanged": [], "busy": []}
    children: dict[tuple[str, int], str] = {}
    notes: list[str] = []
    for run in files.runs:
        upserted = _child(client, files, run, parent_id)
        children[run.arm.name, run.seed] = upserted.run_id
        states[upserted.state].append(f"{run.arm.name}, seed {run.seed}")
        notes.extend(upserted.notes)
    pages = study_pages(files, experiment_id, parent_id, children)
    store.describe_experiment(client, experiment_id, _how_to_read(study, pages.links), pages.tags)
    if found and runs.is_filled_elsewhere(parent):
        states["busy"].append(name)
        notes.append(f"{name}: {runs.owner_name(parent)} is running it")
    else:
        filled = _fill_parent(client, parent, files, tags, pages.links)
        notes.extend(filled.notes)
        states["created" if found is None else "updated" if filled.changes else "unchanged"].append(name)
    return StudyTracked(
        name=study.name,
        parent_id=parent_id,
        children=children,
        links=pages.links,
        **{state: tuple(names) for state, names in states.items()},
        missing=tuple(_missing_lines(files)),
        notes=tuple(notes),
    )


def _parent_tags(study: Study, digest: str) -> dict[str, str]:
    return {STUDY_TAG: study.name, KIND_TAG: PARENT_KIND, STUDY_DIGEST_TAG: digest}


def _parent_name(study: Study, tags: Mapping[str, str]) -> str:
    return f"{study.name}-{tags[STUDY_DIGEST_TAG][:8]}"


def _span(files: StudyFiles) -> tuple[int, int] | None:
    """From the first start of a run to the last end, None when a time is not known."""
    infos = [run.info for run in files.runs]
    known = [info for info in infos if info is not None]
    if not known or len(known) < len(infos):
        return None
    return min(info.started for info in known), max(info.ended for info in known)


def _child(client: MlflowClient, files: StudyFiles, run: StudyRun, parent_id: str) -> Upserted:
    study, result = files.study, run.result
    around = Surroundings(
        info=run.info,
        hashes={"study": {"deps": {path: known["dvc"] for path, known in result.data.items() if "dvc" in known}}},
        placement=child_placement(study.name, run.arm.name, run.seed, parent_id),
        parameters=_knob_parameters(files, run),
        metrics=run.costs,
        tags={
            DEVICE_TAG: result.device,
            CODE_TAG: result.code,
            OUTPUT_TAG: result.output,
            SOURCE_NAME_TAG: f"quintet ablate {study.name}",
            NOTE_TAG: _child_description(study, run),
        },
        files={RESULT_NAME: run.folder / RESULT_NAME},
    )
    return upsert(client, files.root, run.logical, run.train, around)


def _knob_parameters(files: StudyFiles, run: StudyRun) -> dict[str, Scalar]:
    """The knobs as they were, also those that are no short scalars of the training: knobs of data, lists."""
    texts = {knob: parameter_text(value) for knob, value in files.knobs_of(run).items()}
    short = {knob: text for knob, text in texts.items() if len(text) <= MAX_PARAMETER_LENGTH}
    return {"arm": run.arm.name, "seed": run.seed, **short}


def _child_description(study: Study, run: StudyRun) -> str:
    settings = ", ".join(f"`{knob}` = {parameter_text(value)}" for knob, value in run.arm.settings.items())
    return (
        f"Arm **{run.arm.name}** of study **{study.name}** with seed {run.seed}: {settings or 'the base as it is'}.\n\n"
        f"Digest `{run.result.digest}` stands for configuration, data, code and versions. The whole configuration is "
        f"`train/config.json`, all results `{RESULT_NAME}`, among the artifacts."
    )[:MAX_TAG_LENGTH]


def _fill_parent(
    client: MlflowClient, parent: Run, files: StudyFiles, tags: Mapping[str, str], links: Mapping[str, str]
) -> Filled:
    study, missing = files.study, list(_missing_lines(files))
    reason = f"{len(missing)} of {len(missing) + len(files.runs)} runs are not finished: {'; '.join(missing)}"
    commits = {run.info.git_commit for run in files.runs if run.info is not None and run.info.git_commit}
    content = RunContent(
        name=_parent_name(study, tags),
        parameters={
            "experiment": study.experiment,
            "method": study.method,
            "scale": study.scale,
            "metric": study.metric,
            "goal": study.goal,
            "confidence": study.confidence,
            "reference": study.reference,
        },
        metrics=_parent_metrics(files),
        tags={
            **tags,
            runs.EXPERIMENT_TAG: study.experiment,
            runs.METHOD_TAG: study.method,
            runs.SCALE_TAG: study.scale,
            SOURCE_NAME_TAG: f"quintet ablate {study.name}",
            SOURCE_TYPE_TAG: "LOCAL",
            NOTE_TAG: _parent_description(files, links),
            **({BEST_TAG: files.best} if files.best else {}),
            # runs of several commits may make one study, when none of its code has changed between them.
            **({lineage.COMMIT_TAG: commits.pop()} if len(commits) == 1 else {}),
        },
        files={path.relative_to(files.folder).as_posix(): path for path in files_below(files.folder)},
        span=_span(files),
        status="FAILED" if missing else "FINISHED",
        reason=reason[:_MAX_REASON] if missing else None,
    )
    return fill(client, parent, content)


def _parent_metrics(files: StudyFiles) -> dict[str, float]:
    study = files.study
    metrics = {
        "study/arms": float(len(study.arms)),
        "study/seeds": float(len(study.seeds)),
        "study/runs": float(len(files.runs)),
    }
    for metric in (study.metric, *study.also):
        means = files.means(metric)
        for role, arm in (("reference", study.reference), ("best", files.best)):
            if arm in means:
                metrics[f"{role}/{metric}"] = means[arm]
    return metrics


def _missing_lines(files: StudyFiles) -> list[str]:
    return [f"{arm}, seed {seed}: {why}" for (arm, seed), why in files.missing.items()]


def _parent_description(files: StudyFiles, links: Mapping[str, str]) -> str:
    study = files.study
    head = (
        f"**{study.question.strip()}**\n\n"
        f"{len(study.arms)} arms by {len(study.seeds)} seeds of `{study.experiment}` (method `{study.method}`, scale "
        f"`{study.scale}`). Compared by `{study.metric}` ({study.goal}) with arm **{study.reference}**."
    )
    missing = _missing_lines(files)
    told = [f"Not finished, {len(missing)} runs:\n", *(f"- {line}" for line in missing[:_MAX_LISTED])]
    more = [f"- and {len(missing) - _MAX_LISTED} more"] if len(missing) > _MAX_LISTED else []
    # an address that names dozens of runs would leave no room for the table
    shown = {title: link for title, link in links.items() if len(link) <= _MAX_LINK}
    listed = "\n".join(f"- [{title}]({link})" for title, link in shown.items())
    parts = [head, *(["\n".join(told + more)] if missing else []), f"Compare:\n\n{listed}"]
    table = files.folder / SUMMARY_NAME
    if table.is_file():
        text = f"{table.read_text(encoding='utf-8').strip()}\n\nAll of it is `{TABLE_NAME}` among the artifacts."
        length = sum(len(part) + 2 for part in parts)
        fits = length + len(text) <= MAX_TAG_LENGTH
        parts.insert(
            1, text if fits else f"The table is too long for this place; it is `{TABLE_NAME}` among the artifacts."
        )
    return "\n\n".join(parts)[:MAX_TAG_LENGTH]


def _how_to_read(study: Study, links: Mapping[str, str] | None = None) -> str:
    newest = "\n".join(f"- [{title}]({link})" for title, link in (links or {}).items())
    return (
        f"Study {study.name}: {study.question.strip()}\n\n"
        f"Each state of the study (its arms, seeds, code and data) is one run named `{study.name}-DIGEST`; below it "
        f"lies one run for every arm and seed. Its description and artifacts hold the table, with intervals and tests; "
        f"single runs say less than their means over seeds. Group by the parameter `arm` to see these in charts.\n\n"
        + (f"The newest state:\n\n{newest}\n\n" if newest else "")
        + metric_table()
    )[:MAX_TAG_LENGTH]
