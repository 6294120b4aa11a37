"""Pictures of codebooks and trees, as PNG files whose bytes depend on the data alone (see `plots.save`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from components.evaluation.plots import PALETTE, lines, save, series_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_reconstructions(rows: Mapping[str, ArrayLike], path: Path, title: str = "") -> None:
    """Images (N, C, H, W) from 0 to 1 in rows that share their columns: what came in above what came out."""
    shown = {name: np.asarray(images, dtype=np.float64) for name, images in rows.items()}
    shapes = {images.shape for images in shown.values()}
    if len(shapes) != 1 or len(next(iter(shapes), ())) != 4 or next(iter(shapes))[1] not in (1, 3):
        raise ValueError(f"the rows have shapes {sorted(shapes)}; allowed is one shape (N, 1 or 3, H, W) for all rows")
    ((count, channels, _, _),) = shapes

    def draw(figure: "Figure") -> None:
        cells = figure.subplots(len(shown), count, squeeze=False)
        for row, (name, images) in enumerate(shown.items()):
            for column, image in enumerate(images):
                axes = cells[row][column]
                axes.imshow(
                    np.clip(image.transpose(1, 2, 0), 0, 1).squeeze(2 if channels == 1 else ()),
                    cmap="gray",
                    vmin=0.0,
                    vmax=1.0,
                    interpolation="nearest",
                )
                axes.set(xticks=[], yticks=[])
            cells[row][0].set_ylabel(name)
        figure.suptitle(title or "Reconstructions")

    save(draw, (1.0 + 0.75 * count, 0.6 + 0.85 * len(shown)), path)


def plot_codebook(steps: ArrayLike, errors: Mapping[str, ArrayLike], use: Mapping[str, ArrayLike], path: Path) -> None:
    """Errors above (logarithmic), shares of the codebook in use below, over training steps; each (S,)."""
    at, upper = series_at(steps, errors)
    _, lower = series_at(steps, use)

    def draw(figure: "Figure") -> None:
        above, below = figure.subplots(2, 1, sharex=True)
        lines(above, at, upper)
        above.set_yscale("log")
        above.set(ylabel="squared error per pixel", title="Reconstruction error and codebook use")
        lines(below, at, lower, first_colour=2)
        below.set(ylabel="share of the codebook", xlabel="step", ylim=(0.0, 1.05))

    save(draw, (7.2, 5.4), path)


def plot_use_of_codes(shares: ArrayLike, path: Path, title: str = "") -> None:
    """How often each code wins, the busiest first: shares (K,) of all latents, on a logarithmic axis."""
    values = np.sort(np.asarray(shares, dtype=np.float64))[::-1]
    if values.ndim != 1 or len(values) == 0 or (values < 0).any():
        raise ValueError(f"shares have shape {values.shape}; allowed is one number from 0 for each code")

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        axes.bar(np.arange(1, len(values) + 1), np.where(values > 0, values, np.nan), width=1.0, color=PALETTE[0])
        axes.axhline(1 / len(values), color=PALETTE[5], linestyle="--", label="even use")
        axes.set_yscale("log")
        unused = int((values == 0).sum())
        axes.set(xlabel=f"code, the busiest first ({unused} unused)", ylabel="share of all latents", title=title)
        axes.set_xlim(0.5, len(values) + 0.5)
        axes.legend(loc="best", fontsize="small")

    save(draw, (7.2, 3.4), path)


def plot_tree(memberships: Sequence[ArrayLike], sizes: Sequence[ArrayLike], path: Path, title: str = "") -> None:
    """Levels of prototypes, the lowest at the bottom, with lines as thick as a prototype's membership in those above.

    `memberships[l]` (K_l, K_l+1) sums to one over the prototypes above; `sizes[l]` (K_l,) are shares of all tokens,
    shown as the area of a point. One more entry of sizes than of memberships.
    """
    links = [np.asarray(one, dtype=np.float64) for one in memberships]
    areas = [np.asarray(one, dtype=np.float64) for one in sizes]
    fits = len(areas) == len(links) + 1 and all(
        link.shape == (len(lower), len(upper)) for link, lower, upper in zip(links, areas, areas[1:], strict=False)
    )
    if not fits:
        raise ValueError(
            f"memberships have shapes {[link.shape for link in links]} and sizes {[area.shape for area in areas]}; "
            "allowed is one (K_l, K_l+1) between two levels of sizes (K_l,) and (K_l+1,)"
        )
    # each level's prototypes beside those they belong to: by the place of the prototype above, then the busiest first
    places = [np.zeros(0)] * len(areas)
    order = np.argsort(-areas[-1], kind="stable")
    places[-1] = _spread(order)
    for level in range(len(links) - 1, -1, -1):
        above = places[level + 1][links[level].argmax(axis=1)]
        places[level] = _spread(np.lexsort((-areas[level], above)))

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        for level, link in enumerate(links):
            for lower, upper in np.argwhere(link >= LEAST_SHOWN):
                axes.plot(
                    (places[level][lower], places[level + 1][upper]),
                    (level, level + 1),
                    color=PALETTE[int(upper) % len(PALETTE)],
                    linewidth=0.3 + 2.2 * float(link[lower, upper]),
                    alpha=0.2 + 0.6 * float(link[lower, upper]),
                    zorder=1,
                )
        for level, area in enumerate(areas):
            axes.scatter(
                places[level], np.full(len(area), level), s=20 + 900 * area / area.sum(), zorder=2, c="#333333"
            )
            for prototype, place in enumerate(places[level]):
                axes.annotate(
                    str(prototype), (place, level), xytext=(0, 9), textcoords="offset points", ha="center", fontsize=7
                )
        axes.set_yticks(range(len(areas)), [f"level {level + 1}" for level in range(len(areas))])
        axes.set_ylim(-0.3, len(areas) - 0.5)
        axes.set_xticks([])
        axes.set(title=title or "The tree of prototypes")

    save(draw, (max(7.2, 0.2 * max(len(area) for area in areas)), 1.2 + 1.6 * len(areas)), path)


# A membership below this share is not drawn.
LEAST_SHOWN = 0.05


def _spread(order: np.ndarray) -> np.ndarray:
    """Places from 0 to 1 for prototypes that stand in `order`."""
    places = np.zeros(len(order))
    places[order] = (np.arange(len(order)) + 0.5) / len(order)
    return places
