"""Writing, verifying and reading bundles, and that both readers agree on what is a bundle."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from quintet_serving import errors as serving_errors
from quintet_serving.bundle import read_bundle
from small_bundle import EXAMPLE, LABELS, build, onnx_model, schema

from components.errors import BundleError
from components.export.bundle import BundleSchema, verify_bundle
from components.files import sha256_bytes, sha256_path, write_json


def test_a_written_bundle_is_read_back_by_both(bundle: Path) -> None:
    manifest = verify_bundle(bundle)
    served = read_bundle(bundle)
    assert manifest.name == served.name == "orbital-kind"
    assert served.version == "ab12cd34"
    assert list(served.labels) == LABELS
    assert served.model == (bundle / "model.onnx").read_bytes() == onnx_model()
    assert [column.name for column in served.schema.inputs[0].fields or ()][3] == "eccentricity"
    assert sorted(manifest.files) == sorted(file.name for file in bundle.iterdir() if file.name != "manifest.json")
    for name, entry in manifest.files.items():
        content = (bundle / name).read_bytes()
        assert (entry.sha256, entry.bytes) == (sha256_bytes(content), len(content))


def test_the_same_parts_give_the_same_bytes(tmp_path: Path) -> None:
    build(tmp_path / "a")
    build(tmp_path / "b", schema=BundleSchema.model_validate(schema()))
    assert sha256_path(tmp_path / "a") == sha256_path(tmp_path / "b")
    build(tmp_path / "b", model_card="# another\n")
    assert sha256_path(tmp_path / "a") != sha256_path(tmp_path / "b")


def test_the_model_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(onnx_model())
    build(tmp_path / "a", model=tmp_path / "m.onnx")
    assert (tmp_path / "a" / "model.onnx").read_bytes() == onnx_model()


def with_schema(**changes: Any) -> dict[str, Any]:
    return {"schema": schema() | changes}


UNWRITABLE: dict[str, tuple[dict[str, Any], str]] = {
    "name for no address": ({"name": "orbital/kind"}, "lower-case"),
    "upper case": ({"name": "Orbital"}, "lower-case"),
    "too few labels": ({"labels": LABELS[:2]}, "2 names"),
    "repeated label": ({"labels": [LABELS[0]] * 3}, "1 distinct"),
    "empty label": ({"labels": ["", "a", "b"]}, "one per logit"),
    "empty model": ({"model": b""}, "model.onnx"),
    "blank card": ({"model_card": " \n"}, "model_card.md"),
    "NaN": ({"preprocessing": {"scale": float("nan")}}, "preprocessing"),
    "no JSON": ({"prototypes": {1, 2}}, "prototypes"),
    "lineage with NaN": ({"lineage": {"score": float("inf")}}, "lineage"),
    "unknown key": (with_schema(extra=1), "extra"),
    "no logits": (with_schema(outputs=schema()["outputs"][1:]), "logits"),
    "repeated input": (with_schema(inputs=[schema()["inputs"][0]] * 2), "twice"),
    "example too short": (with_schema(inputs=[schema()["inputs"][0] | {"example": EXAMPLE[:3]}]), "3 example"),
    "optional numbers": (with_schema(inputs=[schema()["inputs"][0] | {"optional": True}]), "BOOL"),
}


@pytest.mark.parametrize("case", UNWRITABLE)
def test_unfit_parts_are_refused_and_leave_what_was_there(case: str, tmp_path: Path) -> None:
    build(tmp_path / "bundle")
    before = sha256_path(tmp_path / "bundle")
    changes, words = UNWRITABLE[case]
    with pytest.raises(BundleError, match=words):
        build(tmp_path / "bundle", **changes)
    assert sha256_path(tmp_path / "bundle") == before
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def rewrite(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change a JSON file, and the manifest so that only the content itself can be the reason to refuse."""
    write_json(folder / name, change(json.loads((folder / name).read_text())))
    if name != "manifest.json":
        content = (folder / name).read_bytes()
        entry = {"sha256": sha256_bytes(content), "bytes": len(content)}
        rewrite(folder, "manifest.json", lambda old: old | {"files": old["files"] | {name: entry}})


def flip(folder: Path, name: str, position: int = -5) -> None:
    content = bytearray((folder / name).read_bytes())
    content[position] ^= 1
    (folder / name).write_bytes(bytes(content))


def relink(folder: Path) -> None:
    target = folder.parent / "elsewhere.md"
    shutil.move(folder / "model_card.md", target)
    (folder / "model_card.md").symlink_to(target)


def outside(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest | {"files": manifest["files"] | {"../secret": {"sha256": "0" * 64, "bytes": 0}}}


def drop(folder: Path, name: str) -> None:
    (folder / name).unlink()
    rewrite(folder, "manifest.json", lambda old: old | {"files": {k: v for k, v in old["files"].items() if k != name}})


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    **{
        f"flipped bit in {name}": (lambda folder, name=name: flip(folder, name), name)
        for name in ("model.onnx", "schema.json", "labels.json", "prototypes.json", "preprocessing.json",
                     "model_card.md", "model-settings.json")
    },
    **{
        f"no {name}": (lambda folder, name=name: (folder / name).unlink(), name)
        for name in ("manifest.json", "model.onnx", "schema.json", "labels.json", "model_card.md")
    },
    "no card and no word of it": (lambda folder: drop(folder, "model_card.md"), "model_card.md"),
    "a file too many": (lambda folder: (folder / "notes.txt").write_text("x"), "notes.txt"),
    "a hidden file too many": (lambda folder: (folder / ".hidden").write_text("x"), "hidden"),
    "a file in a subfolder": (lambda folder: ((folder / "sub").mkdir(), (folder / "sub/x").write_text("x")), "sub/x"),
    "a link": (relink, "link"),
    "truncated model": (lambda folder: (folder / "model.onnx").write_bytes(onnx_model()[:-1]), "model.onnx"),
    "manifest is text": (lambda folder: (folder / "manifest.json").write_text("not json"), "manifest.json"),
    "manifest is a list": (lambda folder: (folder / "manifest.json").write_text("[]"), "manifest.json"),
    "another format": (lambda folder: rewrite(folder, "manifest.json", lambda m: m | {"format": "x/2"}), "format"),
    "a name for no address": (lambda folder: rewrite(folder, "manifest.json", lambda m: m | {"name": "../x"}), "name"),
    "no lineage": (lambda folder: rewrite(folder, "manifest.json", lambda m: m | {"lineage": None}), "lineage"),
    "no files": (lambda folder: rewrite(folder, "manifest.json", lambda m: m | {"files": {}}), "files"),
    "a file outside": (lambda folder: rewrite(folder, "manifest.json", outside), "secret"),
    "too few labels": (lambda folder: rewrite(folder, "labels.json", lambda _: LABELS[:2]), "2 names"),
    "numbers as labels": (lambda folder: rewrite(folder, "labels.json", lambda _: [1, 2, 3]), "labels.json"),
    "unknown schema key": (lambda folder: rewrite(folder, "schema.json", lambda s: s | {"more": 1}), "more"),
    "no limits": (
        lambda folder: rewrite(folder, "schema.json", lambda s: {k: v for k, v in s.items() if k != "limits"}),
        "limits",
    ),
    "not a folder": (lambda folder: (shutil.rmtree(folder), folder.write_text("x")), "no bundle"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_both_readers_refuse_the_same_damage_and_name_it(case: str, make_bundle: Callable[..., Path]) -> None:
    folder = make_bundle()
    verify_bundle(folder)
    read_bundle(folder)
    damage, words = DAMAGE[case]
    damage(folder)
    with pytest.raises(BundleError, match=words):
        verify_bundle(folder)
    with pytest.raises(serving_errors.BundleError, match=words):
        read_bundle(folder)
