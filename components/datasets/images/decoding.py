"""One encoded picture to an array of bytes, refusing what is no picture of the wanted shape."""

import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from components.datasets.core.faults import fault
from components.errors import DataError

# The pictures' own modes; a palette or transparency would have to be interpreted, and is refused.
MODES = {1: "L", 3: "RGB"}
FORMATS = ("PNG", "JPEG")
# A picture that is to be resized may have so many pixels, a third of a gigabyte of decoder's memory at most.
MAX_PIXELS = 1 << 25
RESAMPLING = Image.Resampling.BILINEAR

# What Pillow raises for broken pictures, depending on where they are broken.
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, OverflowError, struct.error, zlib.error)


def decode(
    path: Path, place: str, content: bytes, shape: tuple[int, int, int], *, resize: bool = False
) -> NDArray[np.uint8]:
    """The picture in `content` as (H, W, C) uint8. Raises DataError that names `path` and `place`.

    A picture of another size is refused or, where `resize` says so, resized (bilinear, its proportions are not kept).
    """
    height, width, channels = shape
    of_size = f"at most {MAX_PIXELS:,} pixels" if resize else f"{height} by {width} pixels"
    wanted = f"a {' or '.join(FORMATS)} picture of {of_size} in mode {MODES[channels]}, without transparency"
    with _broken_told(path, place, wanted):
        # the size is in the header: a picture that would swell is not decoded
        _require_fitting(path, place, content, (height, width), MODES[channels], wanted, resize)
        with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
            fitting = picture if picture.size == (width, height) else picture.resize((width, height), RESAMPLING)
            return np.asarray(fitting, dtype=np.uint8).reshape(shape)


def _require_fitting(
    path: Path, place: str, content: bytes, size: tuple[int, int], mode: str, wanted: str, resize: bool
) -> None:
    with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
        came = f"{picture.height} by {picture.width} pixels in mode {picture.mode}"
        fits = picture.width * picture.height <= MAX_PIXELS if resize else (picture.height, picture.width) == size
        if not fits or picture.mode != mode:
            raise fault(path, place, came, wanted)
        if "transparency" in picture.info:
            raise fault(path, place, f"{came} with transparency", wanted)
        frames = getattr(picture, "n_frames", 1)
        if frames != 1:
            raise fault(path, place, f"{came}, {frames} of them", wanted)
        # checks the sums of a PNG's pieces, which decoding does not; the picture must be opened anew after it
        picture.verify()


@contextmanager
def _broken_told(path: Path, place: str, wanted: str) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            # huge pictures are refused by the rule above, and broken notes beside the pixels do not matter
            warnings.simplefilter("ignore")
            yield
    except DataError:
        raise
    except (*_BROKEN, Image.DecompressionBombError) as error:
        reason = " ".join(str(error).split())[:80]
        raise fault(path, place, f"no readable picture ({reason})", wanted) from None
