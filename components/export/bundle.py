"""The deployment unit: a folder with the ONNX model, all that a server needs beside it, and a manifest of hashes.

The folder is all that passes from the main environment to a serving environment. The server has a reader of its own,
because it cannot import this package; a test holds that both accept and refuse the same folders.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from components.errors import BundleError
from components.files import canonical_json, read_json, replacing_folder, sha256_bytes, write_bytes

BUNDLE_FORMAT = "quintet-bundle/1"
MANIFEST = "manifest.json"
# The name becomes a part of the served address, so it is held to characters that no address escapes.
NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
SERVED_CLASS = "quintet_serving.BundleRuntime"

Model = TypeVar("Model", bound=BaseModel)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FieldSpec(_Part):
    """One column of an input's last axis: its name, its unit, and the range in which the model may be asked."""

    name: str = Field(min_length=1)
    unit: str
    minimum: float | None = None
    maximum: float | None = None

    @model_validator(mode="after")
    def _ordered(self) -> "FieldSpec":
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} of {self.name} is above its maximum {self.maximum}")
        return self


class TensorSpec(_Part):
    """One input or output. In `shape`, -1 is an axis of free length: axis 0 counts rows, axis 1 counts tokens.

    An optional input must be BOOL and is all true when a client leaves it out. `example` is one real token of the
    last axis in physical units, from which the server makes the request that it prints.
    """

    name: str = Field(min_length=1)
    datatype: Literal["BOOL", "INT64", "FP32"]
    shape: tuple[Annotated[int, Field(ge=-1)], ...] = Field(min_length=1)
    optional: bool = False
    fields: tuple[FieldSpec, ...] | None = None
    example: tuple[float, ...] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "TensorSpec":
        if 0 in self.shape:
            raise ValueError(f"{self.name} has an axis of length 0; a free axis is -1")
        if self.optional and self.datatype != "BOOL":
            raise ValueError(f"{self.name} is optional and {self.datatype}; only BOOL inputs can be left out")
        for part, columns in (("fields", self.fields), ("example", self.example)):
            if columns is not None and len(columns) != self.shape[-1]:
                raise ValueError(f"{self.name} has {len(columns)} {part} for a last axis of {self.shape[-1]}")
        return self


class Limits(_Part):
    """What one request may ask for, so that no client can exhaust the server."""

    max_batch: int = Field(ge=1)
    max_tokens: int = Field(ge=1)
    max_request_bytes: int = Field(ge=1024)


DEFAULT_LIMITS = Limits(max_batch=1024, max_tokens=64, max_request_bytes=4 * 1024 * 1024)


class BundleSchema(_Part):
    """What a client sends and receives. The server adds an output `label` of its own."""

    inputs: tuple[TensorSpec, ...] = Field(min_length=1)
    outputs: tuple[TensorSpec, ...] = Field(min_length=1)
    limits: Limits

    @model_validator(mode="after")
    def _distinct(self) -> "BundleSchema":
        for side, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            names = [tensor.name for tensor in tensors]
            if len(set(names)) != len(names):
                raise ValueError(f"{side} have a name twice: {names}")
        names = [tensor.name for tensor in self.outputs]
        if "label" in names or "logits" not in names:
            raise ValueError(f"outputs must have `logits` and must not have `label`, which the server adds: {names}")
        return self


class FileEntry(_Part):
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)


class BundleManifest(_Part):
    """Which files a bundle consists of, and where it comes from (`lineage`: run, data and code digests)."""

    format: Literal["quintet-bundle/1"]
    name: str
    files: dict[str, FileEntry] = Field(min_length=1)
    lineage: dict[str, JsonValue]


REQUIRED_FILES = (
    "labels.json",
    "model.onnx",
    "model-settings.json",
    "model_card.md",
    "preprocessing.json",
    "prototypes.json",
    "schema.json",
)


def write_bundle(
    folder: Path,
    *,
    name: str,
    model: bytes | Path,
    schema: BundleSchema | Mapping[str, Any],
    labels: Sequence[str],
    prototypes: Any,
    preprocessing: Any,
    model_card: str,
    lineage: Mapping[str, Any],
) -> BundleManifest:
    """Write a bundle to `folder`, replacing what is there in one step. The same arguments give the same bytes.

    Raises BundleError when a part does not fit the format: a name that no address can hold, labels that are empty or
    repeated or not one per logit, an empty model or card, a number that JSON cannot hold.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise BundleError(
            f"the bundle name {name!r} is not allowed; use lower-case letters, digits, dot, dash and underscore, "
            "beginning with a letter or digit, 100 at most"
        )
    model_bytes = model.read_bytes() if isinstance(model, Path) else model
    parts = {
        "schema.json": _text("schema", _checked_schema(schema).model_dump(mode="json", exclude_defaults=True)),
        "labels.json": _text("labels", list(labels)),
        "prototypes.json": _text("prototypes", prototypes),
        "preprocessing.json": _text("preprocessing", preprocessing),
        "model-settings.json": _text("name", _server_settings(name)),
        "model_card.md": model_card,
    }
    contents = {"model.onnx": model_bytes} | {file: text.encode("utf-8") for file, text in parts.items()}
    empty = [file for file in ("model.onnx", "model_card.md") if not contents[file].strip()]
    if empty:
        raise BundleError(f"{empty[0]} of the bundle {name} would be empty; give its content to write_bundle")
    _check_labels(Path("labels.json"), list(labels), _checked_schema(schema))
    _text("lineage", dict(lineage))
    manifest = BundleManifest(
        format=BUNDLE_FORMAT,
        name=name,
        files={
            file: FileEntry(sha256=sha256_bytes(content), bytes=len(content))
            for file, content in sorted(contents.items())
        },
        lineage=dict(lineage),
    )
    with replacing_folder(folder) as fresh:
        for file, content in contents.items():
            write_bytes(fresh / file, content)
        write_bytes(fresh / MANIFEST, _text("lineage", manifest.model_dump(mode="json")).encode("utf-8"))
        verify_bundle(fresh)
    return manifest


def verify_bundle(folder: Path) -> BundleManifest:
    """Read the manifest in `folder` and compare every file with it.

    Raises BundleError when the folder or its manifest is absent or not in the format, when a file is missing, differs
    or is not named in the manifest, and when schema and labels do not fit each other.
    """
    if not folder.is_dir():
        raise BundleError(
            f"there is no bundle at {folder}; run the export stage, or fetch the bundle from the registry"
        )
    manifest = _read_manifest(folder / MANIFEST)
    found = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if not file.is_dir()}
    found.pop(MANIFEST, None)
    missing = sorted(set(REQUIRED_FILES).union(manifest.files) - set(found))
    unnamed = sorted(set(found) - set(manifest.files))
    if missing:
        raise BundleError(f"{folder / missing[0]} is missing from the bundle; export or fetch the bundle again")
    if unnamed:
        raise BundleError(
            f"{folder / unnamed[0]} is not named in the manifest of its bundle; remove it, or export the bundle again"
        )
    for file, entry in manifest.files.items():
        _check_file(found[file], entry)
    schema = _parse(BundleSchema, folder / "schema.json")
    _check_labels(folder / "labels.json", _json(folder / "labels.json"), schema)
    return manifest


def _server_settings(name: str) -> dict[str, Any]:
    return {"name": name, "implementation": SERVED_CLASS, "parameters": {"uri": "."}}


def _text(part: str, value: Any) -> str:
    try:
        return canonical_json(value)
    except (TypeError, ValueError) as error:
        raise BundleError(
            f"{part} of the bundle cannot be written as JSON: {error}; use finite plain values"
        ) from error


def _checked_schema(schema: BundleSchema | Mapping[str, Any]) -> BundleSchema:
    if isinstance(schema, BundleSchema):
        return schema
    try:
        return BundleSchema.model_validate(schema)
    except ValidationError as error:
        raise BundleError(f"the schema of the bundle is refused: {_first(error)}") from error


def _read_manifest(path: Path) -> BundleManifest:
    if not path.is_file():
        raise BundleError(f"{path} is missing, so {path.parent} is not a bundle; export or fetch the bundle again")
    manifest = _parse(BundleManifest, path)
    if not NAME_PATTERN.fullmatch(manifest.name):
        raise BundleError(f"{path} has the name {manifest.name!r}, which no address can hold; export the bundle again")
    for file in manifest.files:
        # A manifest is foreign input: it must not lead a reader out of its own folder.
        if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts or file == MANIFEST:
            raise BundleError(f"{path} names the file {file!r}; only other files inside the bundle can be named")
    return manifest


def _check_file(path: Path, entry: FileEntry) -> None:
    if path.is_symlink() or not path.is_file():
        raise BundleError(f"{path} is a link or no ordinary file; a bundle holds ordinary files only")
    content = path.read_bytes()
    digest = sha256_bytes(content)
    if digest != entry.sha256 or len(content) != entry.bytes:
        raise BundleError(
            f"{path} is not the file of the manifest: {entry.bytes} bytes with sha256 {entry.sha256[:12]} expected, "
            f"{len(content)} bytes with {digest[:12]} found; export or fetch the bundle again"
        )


def _check_labels(path: Path, labels: Any, schema: BundleSchema) -> None:
    if not isinstance(labels, list) or not all(isinstance(label, str) and label for label in labels):
        raise BundleError(f"{path} must be a list of names, one per logit")
    classes = next(tensor.shape[-1] for tensor in schema.outputs if tensor.name == "logits")
    if len(set(labels)) != len(labels) or len(labels) != classes:
        raise BundleError(f"{path} has {len(labels)} names ({len(set(labels))} distinct) for {classes} logits")


def _json(path: Path) -> Any:
    try:
        return read_json(path)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is not JSON: {error}; export or fetch the bundle again") from error


def _parse(kind: type[Model], path: Path) -> Model:
    try:
        return kind.model_validate(_json(path))
    except ValidationError as error:
        raise BundleError(f"{path} is refused: {_first(error)}; export or fetch the bundle again") from error


def _first(error: ValidationError) -> str:
    fault = error.errors()[0]
    place = ".".join(str(part) for part in fault["loc"]) or "the whole"
    return f"{place}: {fault['msg']}"
