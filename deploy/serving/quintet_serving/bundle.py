"""Read a bundle: every file is compared with the manifest, and what is used is what was hashed."""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quintet_serving.errors import BundleError
from quintet_serving.schema import Schema, parse_schema

BUNDLE_FORMAT = "quintet-bundle/1"
MANIFEST = "manifest.json"
USED_FILES = ("model.onnx", "schema.json", "labels.json")
REQUIRED_FILES = (*USED_FILES, "model-settings.json", "model_card.md", "preprocessing.json", "prototypes.json")
NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
AGAIN = "export or fetch the bundle again"


@dataclass(frozen=True)
class Bundle:
    name: str
    version: str
    model: bytes
    schema: Schema
    labels: tuple[str, ...]


def read_bundle(folder: Path) -> Bundle:
    """Verify all files of the bundle in `folder` and parse the ones a server needs.

    Raises BundleError when the manifest is absent or not in the format, when a file is missing, differs or is not
    named in the manifest, or when schema and labels do not fit each other.
    """
    if not folder.is_dir():
        raise BundleError(f"there is no bundle at {folder}; give the folder that the export stage wrote")
    manifest = _manifest(folder / MANIFEST)
    contents = _verified_contents(folder, manifest["files"])
    parsed = {name: _json(folder / name, contents[name]) for name in ("schema.json", "labels.json")}
    schema = parse_schema(parsed["schema.json"], str(folder / "schema.json"))
    lineage = manifest["lineage"].get("digest")
    # the digest of the training run where there is one, so that a client can tell which run answered.
    identity = lineage if isinstance(lineage, str) and lineage.isalnum() else _sha256((folder / MANIFEST).read_bytes())
    return Bundle(
        name=manifest["name"],
        version=identity[:8],
        model=contents["model.onnx"],
        schema=schema,
        labels=_labels(folder / "labels.json", parsed["labels.json"], schema),
    )


def _manifest(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise BundleError(f"{path} is missing, so {path.parent} is not a bundle; {AGAIN}")
    manifest = _json(path, path.read_bytes())
    if not isinstance(manifest, dict) or manifest.get("format") != BUNDLE_FORMAT:
        raise BundleError(f"{path} is not in the format {BUNDLE_FORMAT}; {AGAIN}")
    name, files, lineage = (manifest.get(key) for key in ("name", "files", "lineage"))
    if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
        raise BundleError(f"{path} has the name {name!r}, which no address can hold; {AGAIN}")
    if not isinstance(files, dict) or not files or not isinstance(lineage, dict):
        raise BundleError(f"{path} lacks the hashes of its files or its lineage; {AGAIN}")
    return manifest


def _verified_contents(folder: Path, entries: dict[str, Any]) -> dict[str, bytes]:
    """Contents of the used files by name. Names in the manifest are only compared with files found, never opened."""
    found = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if not file.is_dir()}
    found.pop(MANIFEST, None)
    for missing in sorted(set(entries).union(REQUIRED_FILES) - set(found)):
        raise BundleError(f"{folder / missing} is missing from the bundle; {AGAIN}")
    for unnamed in sorted(set(found) - set(entries)):
        raise BundleError(f"{folder / unnamed} is not named in the manifest of its bundle; remove it, or {AGAIN}")
    contents = {}
    for name, path in found.items():
        if path.is_symlink() or not path.is_file():
            raise BundleError(f"{path} is a link or no ordinary file; a bundle holds ordinary files only")
        content = path.read_bytes()
        entry = entries[name] if isinstance(entries[name], dict) else {}
        if entry.get("sha256") != _sha256(content) or entry.get("bytes") != len(content):
            raise BundleError(
                f"{path} is not the file of the manifest: {entry.get('bytes')} bytes with sha256 "
                f"{str(entry.get('sha256'))[:12]} expected, {len(content)} bytes with {_sha256(content)[:12]} found; "
                f"{AGAIN}"
            )
        if name in USED_FILES:
            contents[name] = content
    return contents


def _labels(path: Path, labels: Any, schema: Schema) -> tuple[str, ...]:
    classes = schema.output("logits").shape[-1]
    if not isinstance(labels, list) or not all(isinstance(label, str) and label for label in labels):
        raise BundleError(f"{path} must be a list of names, one per logit")
    if len(labels) != classes or len(set(labels)) != classes:
        raise BundleError(f"{path} has {len(labels)} names ({len(set(labels))} distinct) for {classes} logits")
    return tuple(labels)


def _json(path: Path, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is not JSON: {error}; {AGAIN}") from error


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
