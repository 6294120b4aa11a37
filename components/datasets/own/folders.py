"""Infer classes and shape of a folder of images, and put it into one archive."""

import zipfile
from collections import Counter
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from components.arrays import SPLITS
from components.datasets.core.faults import fault, shown_path
from components.datasets.images.decoding import FORMATS, MODES
from components.datasets.own.proposal import Proposal, Wishes

# Of each file in the archive: the same folder gives the same bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)
SUFFIXES = (".png", ".jpg", ".jpeg")


def propose_folder(path: Path, wishes: Wishes, scratch: Path) -> Proposal:
    """Classes are the names of the folders, the shape that of the first image. Raises DataError for anything else."""
    del wishes
    files = sorted(file for file in path.rglob("*") if file.is_file() and not _hidden(file.relative_to(path)))
    if not files:
        raise fault(path, "", "no files", "folders of PNG or JPEG images, one for each class")
    strangers = [file for file in files if file.suffix.lower() not in SUFFIXES]
    if strangers:
        raise fault(strangers[0], "", f"a file of type {strangers[0].suffix or 'none'!r}", "PNG or JPEG images only")
    labels = Counter(_label(path, file) for file in files)
    if len(labels) < 2:
        raise fault(path, "", f"images of one class ({', '.join(labels)})", "a folder for each of 2 classes or more")
    shape = _shape(files[0])
    archive = scratch / "images.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as written:
        for file in files:
            info = zipfile.ZipInfo(file.relative_to(path).as_posix(), EPOCH)
            written.writestr(info, file.read_bytes())
    shown = (
        f"{len(files)} images of {shape[0]} by {shape[1]} pixels, {shape[2]} channel{'s' if shape[2] > 1 else ''}",
        f"{len(labels)} classes: " + ", ".join(f"{name} ({labels[name]})" for name in sorted(labels)[:10]),
    )
    options = {"shape": list(shape), "classes": sorted(labels)}
    return Proposal("images", "images", "images-folder", archive, None, len(files), options, shown=shown)


def _hidden(relative: Path) -> bool:
    return any(part.startswith(".") for part in relative.parts)


def _label(root: Path, file: Path) -> str:
    folders = file.relative_to(root).parts[:-1]
    if len(folders) == 2 and folders[0] in SPLITS:
        return folders[1]
    if len(folders) != 1:
        allowed = f"CLASS/NAME or SPLIT/CLASS/NAME, splits {', '.join(SPLITS)}"
        raise fault(file, "", f"a place {len(folders)} folders below {shown_path(root)}", allowed)
    return folders[0]


def _shape(file: Path) -> tuple[int, int, int]:
    try:
        with Image.open(file, formats=FORMATS) as picture:
            channels = {mode: count for count, mode in MODES.items()}
            if picture.mode not in channels:
                raise fault(file, "", f"mode {picture.mode}", f"an image of mode {' or '.join(channels)}")
            return picture.size[1], picture.size[0], channels[picture.mode]
    except (UnidentifiedImageError, OSError) as error:
        raise fault(file, "", f"no readable image ({' '.join(str(error).split())})", "a PNG or JPEG image") from None
