"""Three pictures of a comparison: arms with their seeds, differences from the reference, and a metric against a cost.

PNG files whose bytes depend on the comparison alone, in the colours of `plots`. What a colour says, a marker or a word
says again.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.evaluation.comparison.fronts import pareto_front
from components.evaluation.comparison.labelling import name_points, short
from components.evaluation.comparison.paired import POWER, ArmSummary, Comparison, PairedDifference
from components.evaluation.plots import PALETTE, save

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# verdict -> colour and marker
VERDICTS = {
    "better": (PALETTE[2], "^"),
    "worse": (PALETTE[5], "v"),
    "inconclusive": ("#555555", "o"),
    "equal": (PALETTE[0], "s"),
    "one seed": (PALETTE[3], "D"),
}
_MEAN = PALETTE[0]
_REFERENCE = PALETTE[5]
_FRONT = PALETTE[2]
_QUIET = "#888888"
_UNSEEN = "#E4E4E4"
# Characters of a name at the head of a row.
_LONGEST_ROW = 64
_INCHES_A_LETTER = 0.075
# With more arms than this, a picture against cost names only the reference and the front, by numbers.
_MOST_NAMED = 12


def plot_arms(comparison: Comparison, path: Path, metric: str, title: str = "") -> None:
    """One row an arm: the value of every seed, thin lines that follow a seed over the arms, mean and t interval.

    Lines that run side by side are what pairing by seed takes out; lines that cross are what it cannot.
    """
    arms = comparison.arms

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        axes.axvline(arms[0].mean, color=_REFERENCE, linewidth=0.9, linestyle=":", zorder=0)
        for seed in sorted({seed for arm in arms for seed in arm.values}):
            # a gap where an arm lacks the seed
            values = [arm.values.get(seed, float("nan")) for arm in arms]
            axes.plot(values, range(len(arms)), color=_QUIET, linewidth=0.6, alpha=0.5, zorder=1)
            axes.plot(values, range(len(arms)), color=_QUIET, linestyle="", marker="o", markersize=3.2, zorder=2)
        for row, arm in enumerate(arms):
            _mean(axes, arm, row, comparison.reference)
        _rows(axes, [arm.name for arm in arms])
        axes.get_yticklabels()[0].set_fontweight("bold")
        axes.set(xlabel=_axis(metric, comparison), title=title or f"{metric} of each arm")
        _legend(
            figure,
            [
                _line("reference", color=_REFERENCE, marker="D", linestyle=":"),
                _line(f"mean, {_percent(comparison)} t interval", color=_MEAN, marker="o", linewidth=2.0),
                _line("one seed through the arms", color=_QUIET, marker="o", markersize=3.2, linewidth=0.6),
            ],
        )

    save(draw, _size([arm.name for arm in arms]), path)


def plot_differences(comparison: Comparison, path: Path, metric: str, title: str = "") -> None:
    """One row an arm but the reference: the mean paired difference, its intervals, the verdict and each seed.

    The band around zero holds the true differences that these seeds had less than an 80 % chance to show. Raises
    ValueError for a comparison with no arm but the reference.
    """
    differences = comparison.differences
    if not differences:
        raise ValueError(f"there is no arm beside the reference {comparison.reference}; one or more are needed")

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        for row, difference in enumerate(differences):
            _difference(axes, difference, row)
        # bands of two seeds would leave no room for what was measured
        axes.set_xlim(*_limits(differences))
        axes.axvline(0.0, color="black", linewidth=1.0, zorder=1)
        _rows(axes, [difference.arm for difference in differences])
        words = axes.secondary_yaxis("right")
        words.set_yticks(range(len(differences)), [difference.verdict for difference in differences], fontsize="small")
        words.tick_params(length=0)
        words.spines["right"].set_visible(False)
        axes.set(
            xlabel=_axis(f"{metric}, arm minus {short(comparison.reference)}", comparison),
            title=title or f"Paired differences from {short(comparison.reference)}",
        )
        seen = {difference.verdict for difference in differences}
        _legend(
            figure,
            [
                *(_line(word, color=VERDICTS[word][0], marker=VERDICTS[word][1]) for word in VERDICTS if word in seen),
                _line(f"{_percent(comparison)} t interval", color=_QUIET, linewidth=2.4),
                _line("bootstrap interval", color=_QUIET, linewidth=0.9, marker="|"),
                _line("one seed", color=_QUIET, marker=".", linestyle=""),
                _line(f"below {POWER * 100:.4g} % power", color=_UNSEEN, linewidth=8),
            ],
        )

    save(draw, _size([difference.arm for difference in differences], right=0.9), path)


def plot_front(
    comparison: Comparison, costs: Mapping[str, float], cost: str, path: Path, metric: str, title: str = ""
) -> None:
    """Mean metric and t interval of each arm against its cost (`costs`: arm -> cost, named `cost`), and the front.

    The cost axis is logarithmic where costs are positive and span more than a factor of ten. Up to twelve arms all have
    their names beside them; of more, those on the front and the reference have numbers, and their names stand at the
    side. Raises ValueError for an arm without a finite cost.
    """
    arms = comparison.arms
    missing = [arm.name for arm in arms if arm.name not in costs]
    if missing:
        raise ValueError(f"there is no {cost} for {', '.join(missing)}; every arm needs one")
    points = {arm.name: (float(costs[arm.name]), arm.mean) for arm in arms}
    front = pareto_front({name: (mean, price) for name, (price, mean) in points.items()}, comparison.goal)
    named = [*front, *(arm.name for arm in arms if arm.name not in front)]
    texts = {name: short(name) for name in named}
    keyed = len(arms) > _MOST_NAMED
    if keyed:
        named = [name for name in named if name in front or name == comparison.reference]
        texts = {name: str(number) for number, name in enumerate(named, start=1)}
    prices = [price for price, _ in points.values()]

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        if min(prices) > 0 and max(prices) > 10 * min(prices):
            axes.set_xscale("log")
        along = [points[name] for name in front]
        # from each arm level to the next one's cost, then up or down to its metric
        corners = [(after[0], before[1]) for before, after in pairwise(along)]
        stairs = [point for pair in zip(along, [*corners, along[-1]], strict=True) for point in pair]
        axes.plot(*zip(*stairs, strict=True), color=_FRONT, linewidth=1.4, zorder=1)
        for arm in arms:
            price, mean = points[arm.name]
            colour = _FRONT if arm.name in front else _QUIET
            if (ends := arm.t_interval) is not None:
                axes.plot([price, price], [ends.low, ends.high], color=colour, linewidth=1.0, alpha=0.7, zorder=2)
            reference = arm.name == comparison.reference
            axes.plot(
                price,
                mean,
                color=colour,
                marker="D" if reference else "o",
                markersize=8 if reference else 6.5,
                markeredgecolor=_REFERENCE if reference else "white",
                markeredgewidth=1.8 if reference else 0.8,
                zorder=3,
            )
        # room for names
        axes.margins(x=0.16, y=0.12)
        axes.grid(visible=True, alpha=0.3)
        axes.set(
            xlabel=f"{cost} (lower is better)",
            ylabel=_axis(metric, comparison),
            title=title or f"{metric} against {cost}",
        )
        _legend(
            figure,
            [
                _line("on the front", color=_FRONT, marker="o", linewidth=1.4),
                _line("dominated", color=_QUIET, marker="o", linestyle=""),
                _line(
                    "reference",
                    color="white",
                    marker="D",
                    linestyle="",
                    markersize=8,
                    markeredgecolor=_REFERENCE,
                    markeredgewidth=1.8,
                ),
                _line(f"{_percent(comparison)} t interval", color=_QUIET, linewidth=1.0),
            ],
        )
        if keyed:
            _key(figure, {number: short(name) for name, number in texts.items()})
        labels = {name: (texts[name], "black" if name in front else "#666666") for name in named}
        bars = [((points[arm.name][0], end), points[arm.name]) for arm in arms for end in _ends(arm)]
        name_points(figure, axes, points, labels, [*pairwise(stairs), *bars])

    if keyed:
        save(draw, (8.6 + _INCHES_A_LETTER * max(len(short(name)) for name in named), max(5.8, 0.2 * len(named))), path)
    else:
        save(draw, (8.6, 5.8), path)


def _mean(axes: "Axes", arm: ArmSummary, row: int, reference: str) -> None:
    ours = arm.name == reference
    colour = _REFERENCE if ours else _MEAN
    if arm.t_interval:
        axes.plot([arm.t_interval.low, arm.t_interval.high], [row, row], color=colour, linewidth=2.0, zorder=3)
    marker, size = ("D", 7.0) if ours else ("o", 6.5)
    axes.plot(arm.mean, row, color=colour, marker=marker, markersize=size, markeredgecolor="white", zorder=4)


def _difference(axes: "Axes", difference: PairedDifference, row: int) -> None:
    colour, marker = VERDICTS[difference.verdict]
    if difference.smallest_shown:
        unseen = difference.smallest_shown
        axes.barh(row, 2 * unseen, left=-unseen, height=0.78, color=_UNSEEN, zorder=0)
    seeds = list(difference.differences.values())
    axes.plot(seeds, [row - 0.24] * len(seeds), color=_QUIET, linestyle="", marker=".", markersize=4, zorder=2)
    if (ends := difference.bootstrap_interval) is not None:
        axes.plot([ends.low, ends.high], [row + 0.24] * 2, color=colour, linewidth=0.9, marker="|", zorder=2)
    if (ends := difference.t_interval) is not None:
        axes.plot([ends.low, ends.high], [row, row], color=colour, linewidth=2.4, zorder=3)
    axes.plot(difference.mean, row, color=colour, marker=marker, markersize=8, markeredgecolor="white", zorder=4)


def _limits(differences: Sequence[PairedDifference]) -> tuple[float, float]:
    """Ends of an axis that holds zero, every seed and every interval, with a margin; bands may reach beyond."""
    numbers = [0.0]
    for difference in differences:
        numbers += difference.differences.values()
        for interval in (difference.t_interval, difference.bootstrap_interval):
            numbers += [] if interval is None else interval.to_json()
    low, high = min(numbers), max(numbers)
    margin = 0.06 * (high - low) or 1.0
    return low - margin, high + margin


def _ends(arm: ArmSummary) -> list[float]:
    return [] if arm.t_interval is None else arm.t_interval.to_json()


def _rows(axes: "Axes", names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [short(name, _LONGEST_ROW) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=True, axis="x", alpha=0.3)


def _size(names: Sequence[str], right: float = 0.0) -> tuple[float, float]:
    """Inches: room for the longest name beside the axes, and a row for each."""
    return 6.4 + right + _INCHES_A_LETTER * max(len(short(name, _LONGEST_ROW)) for name in names), 1.8 + 0.36 * max(
        len(names), 2
    )


def _axis(metric: str, comparison: Comparison) -> str:
    return f"{metric} ({'higher' if comparison.goal == 'maximise' else 'lower'} is better)"


def _percent(comparison: Comparison) -> str:
    return f"{comparison.confidence * 100:.4g} %"


def _line(label: str, **style: Any) -> "Artist":
    from matplotlib.lines import Line2D

    artist: Artist = Line2D([], [], label=label, **style)
    return artist


def _key(figure: "Figure", names: Mapping[str, str]) -> None:
    """What numbers mean, at the right."""
    figure.legend(
        handles=[_line(f"{number}  {name}", linestyle="") for number, name in names.items()],
        loc="outside right upper",
        fontsize="small",
        frameon=False,
        handlelength=0,
        handletextpad=0,
    )


def _legend(figure: "Figure", handles: Sequence["Artist"]) -> None:
    figure.legend(
        handles=handles, loc="outside lower center", ncols=min(len(handles), 4), fontsize="small", frameon=False
    )
