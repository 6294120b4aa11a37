"""One encoded picture to an array of bytes, refusing what is no picture of the wanted shape."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from components.datasets.core.faults import fault

# The pictures' own modes; a palette or transparency would be interpreted, and is refused.
MODES = {1: "L", 3: "RGB"}
FORMATS = ("PNG", "JPEG")


def decode(path: Path, place: str, content: bytes, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """The picture in `content` as (H, W, C) uint8. Raises DataError that names `path` and `place`."""
    height, width, channels = shape
    wanted = f"a {' or '.join(FORMATS)} picture of {height} by {width} pixels in mode {MODES[channels]}"
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
            # the size is in the header: a picture that would swell is not decoded
            if picture.size != (width, height) or picture.mode != MODES[channels]:
                came = f"{picture.size[1]} by {picture.size[0]} pixels in mode {picture.mode}"
                raise fault(path, place, came, wanted)
            array = np.asarray(picture, dtype=np.uint8)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise fault(path, place, f"no readable picture ({' '.join(str(error).split())[:80]})", wanted) from None
    return array.reshape(shape)
