"""Four figures as PNG files whose bytes depend on the data alone: no time, no version, no user's style.

Colours are Okabe and Ito's, which the common forms of colour blindness keep apart; hatches and numbers say the same
again. Every function takes plain arrays and the path to write, and raises ValueError for arrays that do not fit.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from components.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
HATCHES = ("", "//", "..", "xx")
DOTS_PER_INCH = 120
# A segment narrower than this share of its bar has no room for a number.
LABELLED_SHARE = 0.045

Numbers = NDArray[np.float64]


def plot_confusion(confusion: ArrayLike, class_names: Sequence[str], path: Path, title: str = "") -> None:
    """Counts (C, C), rows true and columns predicted; colours are shares of each row, so that rare classes show."""
    counts = _numbers(confusion, "confusion")
    if counts.shape != (len(class_names), len(class_names)):
        raise ValueError(
            f"confusion has shape {counts.shape} for {len(class_names)} classes; allowed is one row a class"
        )
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        for (row, column), share in np.ndenumerate(shares):
            # white on dark cells, black on light ones
            colour = "white" if share > 0.55 else "black"
            text = f"{counts[row, column]:g}\n{share:.0%}" if totals[row, 0] else f"{counts[row, column]:g}\n-"
            axes.text(column, row, text, ha="center", va="center", color=colour)
        axes.set_xticks(range(len(class_names)), class_names, rotation=30, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(class_names)), class_names)
        axes.set(xlabel="predicted", ylabel="true", title=title or "Confusion (count, share of the true class)")
        figure.colorbar(image, ax=axes, label="share of the true class", fraction=0.046)

    side = 2.6 + 0.95 * len(class_names)
    save(draw, (side + 1.2, side), path)


def plot_prototype_use(usage: ArrayLike, class_names: Sequence[str], path: Path, title: str = "") -> None:
    """Use (C, K) of each prototype by each class, counts or summed assignments; one bar a class, of length one."""
    use = _numbers(usage, "usage")
    if use.ndim != 2 or len(use) != len(class_names) or (use < 0).any():
        raise ValueError(
            f"usage has shape {use.shape} and least value {use.min():g} for {len(class_names)} classes; "
            "allowed is (classes, prototypes) of numbers from 0"
        )
    totals = use.sum(axis=1, keepdims=True)
    shares = np.divide(use, totals, out=np.zeros_like(use), where=totals > 0)

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        left = np.zeros(len(class_names))
        for prototype, share in enumerate(shares.T):
            colour = PALETTE[prototype % len(PALETTE)]
            hatch = HATCHES[prototype // len(PALETTE) % len(HATCHES)]
            axes.barh(
                range(len(class_names)),
                share,
                left=left,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                linewidth=0.6,
                label=str(prototype),
            )
            for row in np.flatnonzero(share >= LABELLED_SHARE):
                box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.2}
                axes.text(
                    float(left[row] + share[row] / 2), float(row), str(prototype), ha="center", va="center", bbox=box
                )
            left += share
        labels = [f"{name}\n({total:.4g})" for name, total in zip(class_names, totals[:, 0], strict=True)]
        axes.set_yticks(range(len(class_names)), labels)
        axes.invert_yaxis()
        axes.set(xlim=(0.0, 1.0), xlabel="share of the class", title=title or "Which prototypes each class uses")
        columns = 1 if shares.shape[1] <= 12 else 2
        axes.legend(title="prototype", loc="center left", bbox_to_anchor=(1.01, 0.5), ncols=columns, fontsize="small")

    save(draw, (8.0, max(3.4, 1.4 + 0.7 * len(class_names), 0.8 + 0.26 * min(shares.shape[1], 14))), path)


def plot_separation(
    steps: ArrayLike, minimum: ArrayLike, mean: ArrayLike, temperature: ArrayLike, path: Path, title: str = ""
) -> None:
    """Distances between prototypes (least, mean) above, temperature below, over training steps; each (S,)."""
    series = {"least distance": minimum, "mean distance": mean}
    at, upper = series_at(steps, series)
    _, lower = series_at(steps, {"temperature": temperature})

    def draw(figure: "Figure") -> None:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        lines(above, at, upper)
        above.set(ylabel="distance between prototypes", title=title or "Prototype separation and temperature")
        above.set_ylim(bottom=0.0)
        lines(below, at, lower, first_colour=5)
        below.set(ylabel="temperature", xlabel="step")

    save(draw, (7.2, 5.0), path)


def plot_training(
    steps: ArrayLike, losses: Mapping[str, ArrayLike], scores: Mapping[str, ArrayLike], path: Path, title: str = ""
) -> None:
    """Losses above (logarithmic where all are positive), scores in [0, 1] below, over training steps; each (S,)."""
    at, upper = series_at(steps, losses)
    _, lower = series_at(steps, scores)

    def draw(figure: "Figure") -> None:
        above, below = figure.subplots(2, 1, sharex=True)
        lines(above, at, upper)
        if all((values > 0).all() for values in upper.values()):
            above.set_yscale("log")
        above.set(ylabel="loss", title=title or "Training")
        lines(below, at, lower)
        below.set(ylabel="score", xlabel="step", ylim=(0.0, 1.02))

    save(draw, (7.2, 5.4), path)


def lines(axes: "Axes", steps: Numbers, series: Mapping[str, Numbers], first_colour: int = 0) -> None:
    styles = ("-", "--", "-.", ":")
    # a single point has no line to show
    marker = "o" if len(steps) == 1 else ""
    for position, (name, values) in enumerate(series.items()):
        colour = PALETTE[(first_colour + position) % len(PALETTE)]
        axes.plot(steps, values, color=colour, linestyle=styles[position % len(styles)], marker=marker, label=name)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="best", fontsize="small")


def save(draw: Callable[["Figure"], Any], size: tuple[float, float], path: Path) -> None:
    """Write the figure that `draw` fills, `size` inches wide and high, to `path` as PNG of the same bytes each time."""
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    buffer = io.BytesIO()
    # "default" undoes whatever a user's matplotlibrc says; no pyplot, so no figure outlives the call
    with matplotlib.style.context(["default", {"axes.spines.top": False, "axes.spines.right": False}]):
        figure = Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    write_bytes(path, buffer.getvalue())


def series_at(steps: ArrayLike, series: Mapping[str, ArrayLike]) -> tuple[Numbers, dict[str, Numbers]]:
    at = _numbers(steps, "steps")
    arrays = {name: _numbers(values, name) for name, values in series.items()}
    wrong = {name: values.shape for name, values in arrays.items() if values.shape != at.shape or at.ndim != 1}
    if wrong or not arrays:
        raise ValueError(
            f"steps have shape {at.shape} and the series {wrong or 'are none'}; allowed is one value a step"
        )
    return at, arrays


def _numbers(values: ArrayLike, name: str) -> Numbers:
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or not np.isfinite(array).all():
        raise ValueError(
            f"{name} has shape {array.shape} and values that are not finite or none; allowed are finite numbers"
        )
    return array
