"""The documentation names what exists: links, commands, options, paths, variables; and its figure is the graph's."""

import importlib.util
import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib as mpl
import pytest
import typer
import yaml
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch

from components.tracking import store
from pipelines.cli import app
from pipelines.environment import variables

ROOT = Path(__file__).resolve().parent.parent
PAGES = tuple(
    path.relative_to(ROOT).as_posix()
    for path in (
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        ROOT / "benchmarks" / "results.md",
        ROOT / "mlflow" / "README.md",
        ROOT / "deploy" / "serving" / "README.md",
        ROOT / "data" / "samples" / "orbital" / "README.md",
    )
)
# Made by setup and runs, so absent from a fresh clone.
MADE = (".venv", ".quintet", ".dvc/tmp", "build/", "data/raw", "data/prepared", "data/features", "mlflow/mlflow.db")
MADE = (*MADE, "mlflow/artifacts", "outputs", "run_info")
TOP = ("benchmarks", "components", "conf", "data", "deploy", "docs", "mlflow", "pipelines", "tests")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def code_of(page: str) -> list[str]:
    """Code spans, and the lines of indented and fenced blocks without their comments."""
    text = text_of(page)
    blocks = re.findall(r"^(?: {4,}|\t)(.*)$", text, re.MULTILINE)
    blocks += [
        line
        for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    spans = re.findall(r"`([^`\n]+)`", text)
    return [*spans, *(re.sub(r"\s#.*", "", line) for line in blocks)]


def commands(page: str, program: str) -> Iterator[list[str]]:
    """The arguments that follow `program`, wherever code on `page` calls it."""
    for code in code_of(page):
        for part in re.split(r"&&|\|\||;", code):
            words = part.replace("…", " ").split()
            if words and words[0].rpartition("/")[2] == program:
                try:
                    yield shlex.split(part)[1:]
                except ValueError:
                    # a quoted text that goes on in the next line
                    yield words[1:]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if not target.startswith(("http://", "https://")):
            path, _, anchor = target.partition("#")
            assert (ROOT / page).parent.joinpath(path).exists(), f"{page} links to {target}, which is not there"
            assert not anchor, f"{page} links to {target}: anchors are not checked, link to the page"


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), ["README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        links = re.findall(r"\]\(([^)\s:#]+\.md)\)", text_of(page))
        found = {((ROOT / page).parent / link).resolve().relative_to(ROOT).as_posix() for link in links}
        waiting += found - reached
    assert set(PAGES) <= reached


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for arguments in commands(page, "make"):
        named = {argument for argument in arguments if "=" not in argument}
        assert named <= targets, f"{page} says make {' '.join(arguments)}"


@pytest.mark.parametrize("page", PAGES)
def test_quintet_commands_and_options_exist(page: str) -> None:
    for arguments in commands(page, "quintet"):
        command, rest = resolved(arguments)
        options = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        named = {argument.partition("=")[0] for argument in rest if argument.startswith("-")}
        said = f"{page} says quintet {' '.join(arguments)}"
        assert named <= options | {"--help", "-h"}, said
        assert not hasattr(command, "commands") or not [word for word in rest if not word.startswith("-")], said


def resolved(arguments: list[str]) -> tuple[Any, list[str]]:
    """The command that `arguments` name, and what they say beyond its name."""
    command: Any = typer.main.get_command(app)
    rest = list(arguments)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    return command, rest


def test_every_quintet_command_is_documented() -> None:
    group: Any = typer.main.get_command(app)
    shown = {name for name, command in group.commands.items() if not command.hidden}
    wanted = shown | {f"data {name}" for name in group.commands["data"].commands}
    said = {" ".join(arguments[:size]) for page in PAGES for arguments in commands(page, "quintet") for size in (1, 2)}
    assert wanted <= said


@pytest.mark.parametrize("page", PAGES)
def test_paths_exist(page: str) -> None:
    # what git knows, not what lies here: a run leaves files that a fresh clone does not have
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    there = {str(path) for name in tracked for path in (Path(name), *Path(name).parents)}
    for word in paths_in(page):
        places = {os.path.normpath(word), os.path.normpath(Path(page).parent / word)}
        assert places & there, f"{page} names {word}, which is not there"


def paths_in(page: str) -> Iterator[str]:
    """Words in code spans that are paths of the checkout: placeholders and what runs make are left out."""
    for span in re.findall(r"`([^`\n]+)`", text_of(page)):
        for word in span.split():
            inside = word.split("/")[0] in TOP and "/" in word
            if inside and not word.startswith(MADE) and not re.search(r"[A-Z]{3,}|[*{}:…]", word.replace("README", "")):
                yield word


@pytest.mark.parametrize("page", PAGES)
def test_python_files_exist(page: str) -> None:
    there = {path.name for folder in TOP for path in (ROOT / folder).rglob("*.py")}
    named = {span.rpartition("/")[2] for span in re.findall(r"`([\w./]+\.py)`", text_of(page))}
    assert named - {"__init__.py"} <= there


def test_the_checks_above_see_something() -> None:
    assert len(list(commands("README.md", "make"))) >= 6
    assert len(list(commands("docs/running.md", "quintet"))) >= 8
    assert len(list(paths_in("docs/architecture.md"))) >= 10


def test_environment_variables_are_those_of_the_code() -> None:
    page = text_of("docs/running.md").partition("## Environment variables")[2]
    named = set(re.findall(r"`([A-Za-z]+(?:_[A-Za-z]+)+|PATH|MPLCONFIGDIR)`", page))
    named = {name for name in named if name.isupper() or name == "no_proxy"}
    sources = [path for folder in ("components", "pipelines") for path in (ROOT / folder).rglob("*.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    assert set(variables(ROOT, {})) | set(store._ENVIRONMENT) <= named
    assert set(re.findall(r"QUINTET_[A-Z_]+", code)) <= named
    assert {name for name in named if f'"{name}"' not in code} == set()


@pytest.mark.parametrize("page", ["README.md", "docs/serving.md"])
def test_the_request_is_json_that_fills_its_shape(page: str) -> None:
    (body,) = re.findall(r"-d '(\{.*?\})'", text_of(page), re.DOTALL)
    request = json.loads(body)
    experiments = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))["experiments"]
    (tensor,) = request["inputs"]
    assert tensor["shape"] == [1, 1, len(experiments["orbital-kind"]["task"]["features"])]
    assert len(tensor["data"]) == math.prod(tensor["shape"])


def test_the_example_of_the_layer_runs() -> None:
    page = text_of("docs/methods/ddcl.md")
    block = re.search(r"(?:^ {4}.*\n|^\n)*^ {4}from components\.methods.*\n(?:^ {4}.*\n|^\n)*", page, re.MULTILINE)
    assert block is not None
    names: dict[str, Any] = {}
    exec(compile("\n".join(line[4:] for line in block[0].splitlines()), "ddcl.md", "exec"), names)  # noqa: S102
    output = names["output"]
    assert output.codes.shape == (4, 10, 16)
    assert float(output.loss.detach()) == pytest.approx(float((output.reconstruction + output.diversity).detach()))


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_architecture", ROOT / "docs" / "draw_architecture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up while they are made
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_figure_is_current(drawing: ModuleType, tmp_path: Path) -> None:
    drawing.save(ROOT, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == (ROOT / drawing.FIGURE).read_bytes(), "run `make docs`"


def test_another_graph_makes_another_figure(
    drawing: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = drawing.read_stages(ROOT)
    monkeypatch.setattr(drawing, "read_stages", lambda root: {**stages, "prepare@another": ()})
    drawing.save(ROOT, tmp_path / "other.svg")
    assert (tmp_path / "other.svg").read_bytes() != (ROOT / drawing.FIGURE).read_bytes()


def test_only_implied_arrows_are_left_out(drawing: ModuleType) -> None:
    stages = {"a": (), "b": ("a",), "c": ("a", "b"), "d": ("a", "c"), "e": ("a",)}
    assert drawing.reduced(stages) == {"a": (), "b": ("a",), "c": ("b",), "d": ("c",), "e": ("a",)}
    assert [set(layer) for layer in drawing.layered(drawing.reduced(stages))] == [{"a"}, {"b", "e"}, {"c"}, {"d"}]


def test_nothing_in_the_figure_overlaps(drawing: ModuleType) -> None:
    with mpl.rc_context():
        mpl.rcdefaults()
        figure = drawing.draw(ROOT)
        renderer = FigureCanvasAgg(figure).get_renderer()
        texts = [text.get_window_extent(renderer) for text in figure.axes[0].texts]
        patches = [patch for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch)]
        frame, *boxes = sorted(
            (patch.get_window_extent(renderer) for patch in patches), key=lambda box: -box.width * box.height
        )
    kinds, counts = drawing.by_kind(drawing.read_stages(ROOT))
    assert len(boxes) >= len(kinds)
    shown = {text.get_text() for text in figure.axes[0].texts}
    assert {*kinds, *counts.values()} <= shown
    for index, text in enumerate(texts):
        assert any(contains(box, text) for box in (frame, *boxes)), f"text {index} leaves its box"
        assert not any(text.overlaps(other) for other in texts[:index]), f"text {index} lies on another"
        assert all(contains(box, text) or not box.overlaps(text) for box in boxes), f"text {index} crosses an edge"
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index])


def contains(outer: Any, inner: Any) -> bool:
    return bool(outer.x0 <= inner.x0 and outer.y0 <= inner.y0 and inner.x1 <= outer.x1 and inner.y1 <= outer.y1)
