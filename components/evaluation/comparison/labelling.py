"""Names beside the points of a picture, placed so that they hide neither each other nor the points where there is room.

Each name in turn takes the first of a ring of places around its point that is free, else the one that hides least.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.figure import Figure

Point = tuple[float, float]

# Distances from a point, in pixels, and directions, in degrees: right and left before above and below.
_DISTANCES = (13, 24, 38, 58, 82, 110)
_DIRECTIONS = (0, 180, 35, -35, 145, -145, 90, -90)
# Half the side of the square that a marker takes, in pixels.
_MARKER = 9
# Half the breadth of a line, likewise.
_LINE = 1.5
# Names farther away than this have a line to their point.
_BESIDE = 20
_SIZE = "small"


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: "Box") -> float:
        """Area in both."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(width, 0.0) * max(height, 0.0)

    def distance(self, x: float, y: float) -> float:
        """From a point to the nearest of this box."""
        return math.hypot(max(self.left - x, x - self.right, 0.0), max(self.bottom - y, y - self.top, 0.0))


def name_points(
    figure: "Figure",
    axes: "Axes",
    points: Mapping[str, Point],
    named: Mapping[str, tuple[str, str]],
    lines: Sequence[tuple[Point, Point]] = (),
) -> None:
    """Write the texts of `named` (name -> text, colour) beside their points; `points`: name -> (x, y) in data units.

    lines: upright or level lines to keep clear of, from end to end in data units. The order of `named` is the order of
    choice. To be called when all else is drawn: the limits of the axes must not change afterwards.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.patheffects import withStroke

    # settles the layout, so that data have their places in pixels
    figure.draw_without_rendering()
    canvas = figure.canvas
    if not isinstance(canvas, FigureCanvasAgg):
        raise TypeError(f"the figure's canvas is {type(canvas).__name__}; names are placed on an Agg canvas")
    renderer: RendererAgg = canvas.get_renderer()  # type: ignore[no-untyped-call]
    pixels: dict[str, Point] = {}
    for name, point in points.items():
        x, y = axes.transData.transform(point).tolist()
        pixels[name] = (x, y)
    taken = [Box(x - _MARKER, y - _MARKER, x + _MARKER, y + _MARKER) for x, y in pixels.values()]
    for line in lines:
        (x0, y0), (x1, y1) = axes.transData.transform(line).tolist()
        taken.append(Box(min(x0, x1) - _LINE, min(y0, y1) - _LINE, max(x0, x1) + _LINE, max(y0, y1) + _LINE))
    inside = axes.get_window_extent(renderer)
    frame = Box(inside.x0, inside.y0, inside.x1, inside.y1)
    to_points = 72 / figure.dpi
    for name, (words, colour) in named.items():
        written = axes.text(0, 0, words, fontsize=_SIZE, transform=None)
        extent = written.get_window_extent(renderer)
        written.remove()
        box = place(pixels[name], (extent.width, extent.height), taken, frame)
        x, y = pixels[name]
        text = axes.annotate(
            words,
            points[name],
            xytext=((box.left - x) * to_points, (box.bottom - y) * to_points),
            textcoords="offset points",
            fontsize=_SIZE,
            color=colour,
            zorder=5,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
            arrowprops=_leader(box, x) if box.distance(x, y) > _BESIDE else None,
        )
        # a name that counted for the layout would move what it was placed by
        text.set_in_layout(False)
        taken.append(box)


def _leader(box: Box, x: float) -> dict[str, Any]:
    """A thin line from a point at `x` pixels to the nearest part of the middle line of its name."""
    nearest = min(max(x, box.left), box.right)
    share = (nearest - box.left) / (box.right - box.left)
    return {
        "arrowstyle": "-",
        "linewidth": 0.5,
        "color": "#777777",
        "shrinkA": 0,
        "shrinkB": 3,
        "relpos": (share, 0.5),
    }


def place(point: Point, size: tuple[float, float], taken: Sequence[Box], frame: Box) -> Box:
    """Where a box of `size` (width, height) goes beside `point`: the first free place inside `frame`, nearest first.

    A place that reaches beyond the frame is moved inside. Where none is free, the one that hides the least area.
    """
    width, height = size
    boxes = []
    for distance, direction in itertools.product(_DISTANCES, _DIRECTIONS):
        across, up = math.cos(math.radians(direction)), math.sin(math.radians(direction))
        # the box touches the ring with the side or corner that is nearest to the point
        left = point[0] + distance * across + width / 2 * (_side(across) - 1)
        bottom = point[1] + distance * up + height / 2 * (_side(up) - 1)
        left = max(min(left, frame.right - width), frame.left)
        bottom = max(min(bottom, frame.top - height), frame.bottom)
        boxes.append(Box(left, bottom, left + width, bottom + height))
    # the first of the least
    return min(boxes, key=lambda box: sum(box.overlap(other) for other in taken))


def _side(part: float) -> int:
    return 0 if abs(part) < 1e-9 else 1 if part > 0 else -1


def short(name: str, longest: int = 44) -> str:
    """`name`, cut in the middle if longer than `longest`: what tells arms apart is often at both ends."""
    if len(name) <= longest:
        return name
    kept = longest - 1
    return f"{name[: math.ceil(kept / 2)]}…{name[-(kept // 2) :]}"
