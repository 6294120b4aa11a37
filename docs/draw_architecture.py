"""Draw docs/architecture.svg: the one stage graph, the runners beside it, and what follows it.

The graph is DVC's own reading of dvc.yaml and params.yaml, so the picture cannot say other than the project does.
Run by `make docs`. The same graph gives the same bytes.
"""

import argparse
import contextlib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOT = Path(__file__).resolve().parent.parent
FIGURE = Path("docs/architecture.svg")

# All lengths are in inches, from the lower left corner.
BOX_WIDTH, BOX_HEIGHT = 1.62, 0.56
COLUMN, LAYER = 1.85, 1.0
SIDE_WIDTH, GAP, MARGIN = 2.75, 0.42, 0.15
HEADER, FOOTER = 0.85, 0.72
TEXT, SMALL = 10.8, 9.4
LINE_HEIGHT = 0.175
CHARACTERS = 35

INK, FAINT = "#1f2933", "#52606d"
FILL = {"gate": "#fdecc8", "stage": "#dcebfa", "runner": "#e3f4e1", "after": "#efe6f8", "frame": "#f7f9fb"}
EDGE = {"gate": "#b7791f", "stage": "#2b6cb0", "runner": "#2f7d32", "after": "#6b46a8", "frame": "#9aa5b1"}

# What a kind of stage has one of for each; all others have one for each experiment.
COUNTED = {
    "prepare": "data sets",
    "gate_data": "data sets",
    "features": "sets of features",
    "gate_features": "sets of features",
}

Place = tuple[float, float]


@dataclass(frozen=True)
class Note:
    """A box beside the graph: a title and what is said below it."""

    title: str
    text: str
    kind: str

    @property
    def lines(self) -> list[str]:
        return textwrap.wrap(self.text, CHARACTERS)

    @property
    def height(self) -> float:
        return 0.46 + LINE_HEIGHT * len(self.lines)


RUNNERS = (
    Note("conf/ → params.yaml", "Hydra composes one scale of conf/scale/, which chooses the stages.", "frame"),
    Note("dvc repro", "One stage after the other, on one machine; cache and lineage in dvc.lock.", "runner"),
    Note(
        "Prefect flow “reproduce”",
        "quintet run starts it. It reads the same graph and gives each stage to DVC in a process of its own: several "
        "at once, tried again when a lock is held, shown on Prefect's pages.",
        "runner",
    ),
    Note(
        "One run per checkout",
        "Under either runner a stage holds the same lock; what is up to date does not run.",
        "frame",
    ),
)
# The last element of each says which note an arrow comes from: the graph itself, or the note above.
FOLLOWS = (
    (Note("report", "run_info/report/index.html: data, gates, figures beside their baselines.", "after"), "graph"),
    (Note("sync", "MLflow runs, made from the run records of the stages; they can be made again.", "after"), "graph"),
    (Note("registry", "A model version for each bundle that gate_export passed; alias champion.", "after"), "above"),
    (Note("bundle", "model.onnx, schema, labels, card, the hash of each file, lineage.", "after"), "above"),
    (Note("server", "Open Inference Protocol over HTTP and gRPC, in an environment of its own.", "after"), "above"),
)


def read_stages(root: Path) -> dict[str, tuple[str, ...]]:
    """Each stage's address and those it depends on, in the order of dvc.yaml."""
    from dvc.repo import Repo

    # DVC names stages relative to the current folder
    with contextlib.chdir(root), Repo(str(root)) as repo:
        graph = repo.index.graph
        found = {
            stage.addressing: tuple(sorted(above.addressing for above in graph.successors(stage)))
            for stage in graph
            if stage.cmd
        }
        order = [stage.addressing for stage in repo.index.stages]
    return {address: found[address] for address in sorted(found, key=order.index)}


def by_kind(stages: Mapping[str, Sequence[str]]) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Stages of one kind as one: the kinds that each depends on, and what is said of how many there are."""
    above: dict[str, set[str]] = {}
    names: dict[str, list[str]] = {}
    for address, depends_on in stages.items():
        kind, _, name = address.partition("@")
        above.setdefault(kind, set()).update(one.partition("@")[0] for one in depends_on)
        names.setdefault(kind, []).append(name)
    told = {kind: f"{len(of)} {COUNTED.get(kind, 'experiments')}" for kind, of in names.items()}
    return {kind: tuple(sorted(found)) for kind, found in above.items()}, told


def reduced(stages: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The same graph without the arrows that a longer way implies."""

    def ancestors(address: str) -> set[str]:
        return set(stages[address]).union(*(ancestors(above) for above in stages[address]))

    return {
        address: tuple(one for one in above if not any(one in ancestors(other) for other in above if other != one))
        for address, above in stages.items()
    }


def layered(stages: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Stages by the length of the longest way to them; in a layer each stands near what it depends on."""

    def depth(address: str) -> int:
        return 1 + max((depth(above) for above in stages[address]), default=-1)

    layers: list[list[str]] = []
    position: dict[str, float] = {}

    def wanted(address: str) -> float:
        above = stages[address]
        return sum(position[one] for one in above) / max(1, len(above))

    for level in range(max(map(depth, stages)) + 1):
        layers.append(sorted((address for address in stages if depth(address) == level), key=wanted))
        position |= {address: (index + 0.5) / len(layers[-1]) for index, address in enumerate(layers[-1])}
    return layers


def draw(root: Path) -> Figure:
    """The whole picture for the checkout `root`."""
    stages, counts = by_kind(read_stages(root))
    arrows = reduced(stages)
    layers = layered(arrows)
    # never narrower than what is said above and below the graph
    width = max(COLUMN * max(map(len, layers)) + 0.3, 5.6)
    height = max(
        HEADER + FOOTER + LAYER * (len(layers) - 1) + BOX_HEIGHT,
        sum(note.height for note in RUNNERS) + 0.25 * len(RUNNERS),
        sum(note.height for note, _ in FOLLOWS) + 0.25 * len(FOLLOWS),
    )
    total = (2 * MARGIN + 2 * SIDE_WIDTH + 2 * GAP + width, height + 2 * MARGIN)
    figure = Figure(figsize=total, facecolor="white")
    canvas = figure.add_axes((0, 0, 1, 1))
    canvas.set(xlim=(0, total[0]), ylim=(0, total[1]))
    canvas.axis("off")
    left = MARGIN + SIDE_WIDTH + GAP
    _frame(canvas, left, MARGIN, width, height)
    _graph(canvas, layers, arrows, counts, (left + width / 2, MARGIN + height - HEADER - BOX_HEIGHT / 2), width)
    for note, (low, high) in zip(RUNNERS, _stacked([note.height for note in RUNNERS], height), strict=True):
        _note(canvas, note, MARGIN, low, high)
        # the last says something of both and hands nothing over
        if note is not RUNNERS[-1]:
            _arrow(canvas, (MARGIN + SIDE_WIDTH, (low + high) / 2), (left, (low + high) / 2))
    right = left + width + GAP
    above = 0.0
    for (note, source), (low, high) in zip(
        FOLLOWS, _stacked([note.height for note, _ in FOLLOWS], height), strict=True
    ):
        _note(canvas, note, right, low, high)
        if source == "graph":
            _arrow(canvas, (left + width, (low + high) / 2), (right, (low + high) / 2))
        else:
            _arrow(canvas, (right + SIDE_WIDTH / 2, above), (right + SIDE_WIDTH / 2, high))
        above = low
    return figure


def save(root: Path, target: Path) -> None:
    """Write the picture as SVG or PNG, by the ending of `target`."""
    with mpl.rc_context():
        # neither a user's settings nor another figure's may change a byte
        mpl.rcdefaults()
        mpl.rcParams["svg.hashsalt"] = "quintet"
        figure = draw(root)
        if target.suffix == ".png":
            FigureCanvasAgg(figure).print_png(target, metadata={"Software": None})
        else:
            FigureCanvasSVG(figure).print_svg(target, metadata={"Date": None, "Creator": None})


def _stacked(heights: Sequence[float], height: float) -> list[tuple[float, float]]:
    """Lower and upper edge of boxes of these heights, spread from top to bottom."""
    space = (height - sum(heights)) / max(1, len(heights) - 1)
    places, top = [], MARGIN + height
    for own in heights:
        places.append((top - own, top))
        top -= own + space
    return places


def _frame(canvas: Any, left: float, low: float, width: float, height: float) -> None:
    _box(canvas, left, low, width, height, "frame")
    middle = left + width / 2
    canvas.text(middle, low + height - 0.26, "One graph: dvc.yaml", **_font(12.5, "bold"))
    canvas.text(
        middle, low + height - 0.53, "each stage is a process: quintet stage STAGE@NAME", **_font(SMALL, color=FAINT)
    )
    canvas.text(
        middle,
        low + 0.26,
        "yellow: gates, which fail closed; arrows that a longer way implies are left out",
        **_font(SMALL, color=FAINT),
    )


def _graph(
    canvas: Any,
    layers: Sequence[Sequence[str]],
    arrows: Mapping[str, Sequence[str]],
    counts: Mapping[str, str],
    top: Place,
    width: float,
) -> None:
    places: dict[str, Place] = {}
    for level, members in enumerate(layers):
        for index, address in enumerate(members):
            share = (index + 0.5) / len(members) - 0.5
            places[address] = (top[0] + share * (width - 0.2), top[1] - level * LAYER)
    for address, above in arrows.items():
        for one in above:
            start, end = places[one], places[address]
            _arrow(canvas, (start[0], start[1] - BOX_HEIGHT / 2), (end[0], end[1] + BOX_HEIGHT / 2))
    for stage, (x, y) in places.items():
        kind = "gate" if stage.startswith("gate_") else "stage"
        _box(canvas, x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2, BOX_WIDTH, BOX_HEIGHT, kind)
        canvas.text(x, y + 0.11, stage, **_font(TEXT, "bold"))
        canvas.text(x, y - 0.12, counts[stage], **_font(SMALL))


def _note(canvas: Any, note: Note, left: float, low: float, high: float) -> None:
    _box(canvas, left, low, SIDE_WIDTH, high - low, note.kind)
    canvas.text(left + 0.13, high - 0.2, note.title, **_font(TEXT, "bold", ha="left"))
    for index, line in enumerate(note.lines):
        canvas.text(left + 0.13, high - 0.43 - LINE_HEIGHT * index, line, **_font(SMALL, ha="left"))


def _box(canvas: Any, left: float, low: float, width: float, height: float, kind: str) -> None:
    style = "round,pad=0,rounding_size=0.07"
    canvas.add_patch(
        FancyBboxPatch((left, low), width, height, boxstyle=style, facecolor=FILL[kind], edgecolor=EDGE[kind], lw=1.1)
    )


def _arrow(canvas: Any, start: Place, end: Place) -> None:
    style = "-|>,head_length=5,head_width=2.4"
    canvas.add_patch(
        FancyArrowPatch(start, end, arrowstyle=style, color=FAINT, lw=1.1, shrinkA=0, shrinkB=1, mutation_scale=1)
    )


def _font(size: float, weight: str = "normal", ha: str = "center", color: str = INK) -> dict[str, Any]:
    return {"fontsize": size, "fontweight": weight, "ha": ha, "va": "center", "color": color}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw the architecture of the project from its stage graph.")
    parser.add_argument("--out", type=Path, default=ROOT / FIGURE, help="an .svg or .png file (default: %(default)s)")
    save(ROOT, parser.parse_args().out)
