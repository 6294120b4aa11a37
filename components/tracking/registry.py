"""Models in MLflow's registry: registered once per bundle that an export gate passed, fetched as the same bundle."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import BundleError, TrackingError, UsageError
from components.files import files_below, read_json, replacing_folder
from components.tracking import lineage, store
from components.tracking.records import BUNDLE_TAG, LogicalRun, bundle_digest
from components.tracking.runs import DATASET_TAG, DIGEST_TAG, METHOD_TAG, SCALE_TAG
from components.tracking.upsert import Upserted, bundle_folder, bundle_path

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.models import ModelSignature

CHAMPION = "champion"
VERSION_BUNDLE_TAG = f"quintet.{BUNDLE_TAG}"
BUNDLE_PATH_TAG = "quintet.bundle_path"
# 'pending' until the alias of a new version is set, so that a kill between the two is noticed.
ALIAS_STATE_TAG = "quintet.champion"
_PENDING, _SET = "pending", "set"

BUNDLE_FORMAT = "quintet-bundle/1"
_NUMPY_TYPES = {"FP32": "float32", "INT64": "int64", "BOOL": "bool"}


@dataclass(frozen=True)
class Registration:
    """Outcome for one run: `registered` is 'NAME vN' when a version was made; `reason` says why none was."""

    registered: str | None
    reason: str | None


def refusal(logical: LogicalRun) -> str | None:
    """Why this run must not be registered, None when its export gate passed the very bundle that lies in outputs/."""
    gate, bundle = logical.stage("gate_export"), bundle_folder(logical)
    if bundle is None:
        return "no bundle was exported"
    if gate is None:
        return "the export gate has not passed this digest"
    report = gate.folder / "report.json"
    if not report.is_file():
        return f"{report} is missing, so nothing says that the gate passed"
    content = read_json(report)
    verdict = content.get("verdict") if isinstance(content, dict) else None
    if verdict != "passed":
        return f"the export gate's verdict is {verdict!r}, only 'passed' is registered"
    seen = gate.record.tags.get(BUNDLE_TAG)
    if seen != bundle_digest(bundle):
        return (
            f"the export gate passed bundle {str(seen)[:12]}, in {bundle} lies {bundle_digest(bundle)[:12]}; "
            f"run {gate.address} again"
        )
    return None


def register(client: MlflowClient, upserted: Upserted) -> Registration:
    """Make a model version of the run's bundle unless there is one; a new version becomes the champion.

    The alias moves only then, so a rollback by hand stays.
    """
    logical = upserted.run
    if logical.stage("export") is None:
        # not every experiment is deployed; where one should be and is not, the graph has said so
        return Registration(None, None)
    reason = refusal(logical)
    bundle = bundle_folder(logical)
    if reason is not None or bundle is None:
        return Registration(None, reason)
    name, identity = logical.experiment, bundle_digest(bundle)
    _ensure_model(client, name, upserted)
    known = find_version(client, name, logical.digest, identity)
    version = known or _create_version(client, upserted, bundle, identity)
    number = str(version.version)
    if version.tags.get(ALIAS_STATE_TAG) == _PENDING:
        client.set_registered_model_alias(name, CHAMPION, number)
        client.set_model_version_tag(name, number, ALIAS_STATE_TAG, _SET)
    if known is None:
        return Registration(f"{name} v{number}", None)
    champion = aliases_of(client, name).get(CHAMPION)
    if champion != number:
        now = f"version {champion}" if champion else "not set"
        return Registration(None, f"it is {name} v{number} already; {CHAMPION} is {now}")
    return Registration(None, None)


def _ensure_model(client: MlflowClient, name: str, upserted: Upserted) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        description = f"Bundles of experiment {name}; the serving unit lies under bundle/ in each version's run."
        client.create_registered_model(name, {METHOD_TAG: upserted.tags[METHOD_TAG]}, description)


def find_version(client: MlflowClient, name: str, digest: str, bundle: str) -> ModelVersion | None:
    """The version of this training digest and bundle, None when it was never registered."""
    for version in client.search_model_versions(f"name = '{name}'"):
        # a search may leave tags out; a single version has them all.
        whole = client.get_model_version(name, version.version)
        if whole.tags.get(DIGEST_TAG) == digest and whole.tags.get(VERSION_BUNDLE_TAG) == bundle:
            return whole
    return None


def _create_version(client: MlflowClient, upserted: Upserted, bundle: Path, identity: str) -> ModelVersion:
    from mlflow.store.artifact.runs_artifact_repo import RunsArtifactRepository

    folder = f"model/{identity[:16]}"
    with tempfile.TemporaryDirectory() as scratch:
        flavour = Path(scratch) / "model"
        _save_flavour(flavour, bundle, upserted.run_id, folder)
        client.log_artifacts(upserted.run_id, str(flavour), folder)
    logical = upserted.run
    inherited = (
        DIGEST_TAG,
        METHOD_TAG,
        DATASET_TAG,
        SCALE_TAG,
        lineage.COMMIT_TAG,
        lineage.COMMIT_SOURCE_TAG,
        lineage.CONFIG_TAG,
    )
    tags = {key: value for key, value in upserted.tags.items() if key in inherited or key.startswith("dvc.")}
    tags |= {VERSION_BUNDLE_TAG: identity, BUNDLE_PATH_TAG: bundle_path(bundle), ALIAS_STATE_TAG: _PENDING}
    source = f"runs:/{upserted.run_id}/{folder}"
    version = client.create_model_version(
        logical.experiment,
        RunsArtifactRepository.get_underlying_uri(source, client.tracking_uri),
        upserted.run_id,
        tags=tags,
        description=f"Run {logical.name}; bundle {identity}. Lineage in the tags and in the run's lineage.json.",
    )
    return client.get_model_version(version.name, version.version)


def _save_flavour(target: Path, bundle: Path, run_id: str, artifact_path: str) -> None:
    """Write the bundle's network as an MLflow model that runs on the CPU with an explicit signature."""
    import mlflow.onnx
    import onnx
    from mlflow.models import Model

    mlflow.onnx.save_model(
        onnx.load(str(bundle / "model.onnx")),
        str(target),
        mlflow_model=Model(artifact_path=artifact_path, run_id=run_id),
        signature=signature_of(read_json(bundle / "schema.json"), bundle / "schema.json"),
        pip_requirements=pip_requirements(),
        # without this, MLflow asks for CUDA first and says nothing when it is not there.
        onnx_execution_providers=["CPUExecutionProvider"],
        # weights stay in the one file that the manifest names.
        save_as_external_data=False,
        metadata={VERSION_BUNDLE_TAG: bundle_digest(bundle)},
    )


def pip_requirements() -> list[str]:
    """What a process needs to answer with the model: the installed versions, never guessed from imports."""
    from importlib.metadata import PackageNotFoundError, version

    def installed(package: str) -> str | None:
        try:
            return f"{package}=={version(package)}"
        except PackageNotFoundError:
            return None

    runtimes = [installed("onnxruntime-gpu"), installed("onnxruntime")]
    found = [installed("mlflow"), installed("onnx"), installed("numpy"), *runtimes]
    return [requirement for requirement in found if requirement is not None]


def signature_of(schema: dict[str, Any], where: Path) -> ModelSignature:
    """MLflow's signature from a bundle's schema. Raises BundleError for a datatype that neither can express."""
    import numpy
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    def spec(entry: dict[str, Any]) -> TensorSpec:
        try:
            kind = numpy.dtype(_NUMPY_TYPES[entry["datatype"]])
            return TensorSpec(kind, tuple(entry["shape"]), entry["name"])
        except KeyError as error:
            raise BundleError(
                f"{where}: entry {entry!r} lacks or misspells {error}; each needs name, shape and a datatype of "
                f"{', '.join(_NUMPY_TYPES)}"
            ) from error

    # MLflow has no optional tensor inputs; the mask may be left out over the serving protocol alone.
    inputs, outputs = schema.get("inputs", []), schema.get("outputs", [])
    if not inputs or not outputs:
        raise BundleError(f"{where}: names no inputs or no outputs; export the model again")
    return ModelSignature(Schema([spec(entry) for entry in inputs]), Schema([spec(entry) for entry in outputs]))


def find_alias(client: MlflowClient, name: str, alias: str) -> ModelVersion:
    """The version that `alias` (or a bare version number) names. Raises TrackingError with what there is instead."""
    from mlflow.exceptions import MlflowException

    try:
        aliases = aliases_of(client, name)
    except MlflowException as error:
        known = ", ".join(sorted(entry.name for entry in client.search_registered_models())) or "none"
        raise TrackingError(
            f"no model {name!r} is registered (registered: {known}); run `quintet run`, then `quintet sync`"
        ) from error
    number = alias if alias.isdigit() else aliases.get(alias)
    shown = ", ".join(f"{key} (version {value})" for key, value in sorted(aliases.items())) or "none"
    unknown = (
        f"model {name!r} has no alias or version {alias!r} (aliases: {shown}); give one of these or a version number"
    )
    if number is None:
        raise TrackingError(unknown)
    try:
        return client.get_model_version(name, number)
    except MlflowException as error:
        raise TrackingError(unknown) from error


def aliases_of(client: MlflowClient, name: str) -> dict[str, str]:
    """Alias -> version number as text, which a database gives as a number and a server as text."""
    return {alias: str(version) for alias, version in client.get_registered_model(name).aliases.items()}


def fetch_bundle(root: Path, name: str, alias: str, out: Path, verify: Callable[[Path], object] | None = None) -> Path:
    """Write the bundle of NAME@ALIAS to `out`, byte for byte what was registered, checked before it takes its place.

    `verify` checks a bundle folder and raises BundleError; by default the export component's check. Raises UsageError
    when `out` holds something other than a bundle, TrackingError for an unknown name or alias, BundleError when the
    stored files are not the registered ones.
    """
    check = verify or _bundle_check()
    _refuse_foreign_folder(out)
    client = store.open_client(root)
    version = find_alias(client, name, alias)
    path, expected = version.tags.get(BUNDLE_PATH_TAG), version.tags.get(VERSION_BUNDLE_TAG)
    if path is None or expected is None or version.run_id is None:
        raise TrackingError(
            f"version {version.version} of {name} was not registered by `quintet sync` and has no bundle; "
            f"move the alias to a version that has the tag {BUNDLE_PATH_TAG}"
        )
    with tempfile.TemporaryDirectory() as scratch:
        try:
            stored = Path(client.download_artifacts(version.run_id, path, scratch))
            found = bundle_digest(stored)
        except (OSError, store.mlflow_exception()) as error:
            raise BundleError(
                f"the files of {name} version {version.version} are not in the store ({error}); `quintet sync` puts "
                f"back the bundle of the current outputs"
            ) from error
        if found != expected:
            raise BundleError(
                f"{name} version {version.version}: the stored manifest has sha256 {found}, registered was {expected}; "
                f"the store was altered, register the model again"
            )
        check(stored)
        with replacing_folder(out) as fresh:
            for file in files_below(stored):
                target = fresh / file.relative_to(stored)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
    return out


def _bundle_check() -> Callable[[Path], object]:
    # imported late: a process that only tracks needs nothing of the exporter.
    from components.export.bundle import verify_bundle

    return verify_bundle


def _refuse_foreign_folder(out: Path) -> None:
    if not out.exists():
        return
    if out.is_dir() and not any(out.iterdir()):
        return
    manifest = out / "manifest.json"
    if manifest.is_file():
        content = read_json(manifest)
        if isinstance(content, dict) and content.get("format") == BUNDLE_FORMAT:
            return
    raise UsageError(f"{out} exists and is not a bundle; give a new or empty folder, it would be replaced")
