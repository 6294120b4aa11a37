"""Have the files of a catalogue entry, verified; or say in one line why not and how to mend it.

A shipped sample is read where it lies. All else goes to data/raw/ENTRY/, from the first source that yields the
catalogued content. What is there already and right is not fetched again; what is there and wrong is never used.
"""

from dataclasses import dataclass
from pathlib import Path

from components.datasets.core.catalogue import DataFile, Entry, MirrorSource, SampleSource
from components.datasets.core.download import Progress, SourceError
from components.datasets.core.faults import shown_path
from components.datasets.core.live import check_pin, fetch_live
from components.datasets.core.sources import (
    MIRROR_VARIABLE,
    DifferentContentError,
    Place,
    kind_of_source,
    mirror_folder,
    obtain,
    require_content,
    require_packed_content,
)
from components.datasets.readers import reader_named
from components.errors import DataError

RAW_PATH = "data/raw"
GENERATED = "made from its seed when it is prepared, nothing to fetch"


@dataclass(frozen=True)
class FetchedData:
    """The files of an entry in its order, the kind of source they came from, and why that one."""

    name: str
    paths: tuple[Path, ...]
    source: str
    reason: str


@dataclass(frozen=True)
class CheckedData:
    """What lies in the checkout: `present` with the verified files, or not fetched yet. `reason` says it in words."""

    name: str
    present: bool
    paths: tuple[Path, ...]
    reason: str


def fetch(
    entry: Entry, root: Path, mirror: Path | None = None, *, refresh: bool = False, progress: Progress | None = None
) -> FetchedData:
    """The files of `entry` below the checkout `root`, verified.

    `mirror` is a folder of files, by default the one that QUINTET_DATA_MIRROR names. `refresh` fetches a live entry
    again and pins what comes; other entries cannot change and ignore it. Raises DataError, and leaves no half file.
    """
    if entry.generated:
        return FetchedData(entry.name, (), "generator", GENERATED)
    place = Place(root, mirror_folder(mirror), progress)
    if entry.live:
        paths, reason = fetch_live(entry, _folder(entry, root), place, refresh)
        return FetchedData(entry.name, paths, "url", reason)
    had = [_have(entry, file, place) for file in entry.files]
    kinds = dict.fromkeys(kind for _, kind, _ in had)
    reasons = dict.fromkeys(reason for _, _, reason in had)
    return FetchedData(entry.name, tuple(path for path, _, _ in had), ", ".join(kinds), "; ".join(reasons))


def check(entry: Entry, root: Path, mirror: Path | None = None) -> CheckedData:
    """Verify what lies in the checkout, or else in the mirror, fetching nothing.

    Raises DataError where a file is there and wrong, or where only a part of the entry's files is there.
    """
    if entry.generated:
        return CheckedData(entry.name, True, (), GENERATED)
    if entry.live:
        pinned = check_pin(entry, _folder(entry, root))
        return CheckedData(entry.name, True, pinned, "equal to what was pinned") if pinned else _absent(entry)
    resting = _resting_places(entry, root)
    if any(path.exists() for path in resting) or entry.shipped:
        for file, path in zip(entry.files, resting, strict=True):
            _require_here(entry, file, path, None, root)
        return CheckedData(entry.name, True, resting, "equal to the catalogue's sha256, in the checkout")
    mirrored = _mirrored(entry, mirror)
    if any(path.exists() for path, _ in mirrored):
        for file, (path, unpack) in zip(entry.files, mirrored, strict=True):
            _require_here(entry, file, path, unpack, root)
        paths = tuple(path for path, _ in mirrored)
        return CheckedData(entry.name, True, paths, "equal to the catalogue's sha256, in the mirror")
    return _absent(entry)


def _require_here(entry: Entry, file: DataFile, path: Path, unpack: str | None, root: Path) -> None:
    if not path.is_file():
        raise DataError(_told(entry, file, [f"{shown_path(path, root)}: no such file"], root))
    try:
        (require_packed_content if unpack else require_content)(path, file)
    except DifferentContentError as different:
        raise DataError(_explained(entry, file, different, root)) from None


def _absent(entry: Entry) -> CheckedData:
    return CheckedData(entry.name, False, (), f"not fetched yet; `quintet data fetch {entry.name}` does")


def _folder(entry: Entry, root: Path) -> Path:
    return root / RAW_PATH / entry.name


def _resting_place(entry: Entry, file: DataFile, root: Path) -> Path:
    return root / file.sample if file.sample else _folder(entry, root) / file.name


def _resting_places(entry: Entry, root: Path) -> tuple[Path, ...]:
    return tuple(_resting_place(entry, file, root) for file in entry.files)


def _mirrored(entry: Entry, mirror: Path | None) -> tuple[tuple[Path, str | None], ...]:
    """Where the mirror has the entry's files, and how packed; none where it is not set or does not have every file."""
    folder = mirror_folder(mirror)
    sources = [source for file in entry.files for source in file.sources if isinstance(source, MirrorSource)]
    if folder is None or len(sources) != len(entry.files):
        return ()
    return tuple((folder / source.mirror, source.unpack) for source in sources)


def _have(entry: Entry, file: DataFile, place: Place) -> tuple[Path, str, str]:
    """Path, kind of source and reason for one file."""
    path = _resting_place(entry, file, place.root)
    kind = "sample" if file.sample else "raw"
    failures: list[str] = []
    different: DifferentContentError | None = None
    if path.is_file():
        try:
            require_content(path, file)
        except DifferentContentError as error:
            different = error
            failures.append(f"{shown_path(path, place.root)}: {error}")
        else:
            return path, kind, "shipped with the project" if file.sample else "already there, verified"
    elif file.sample:
        failures.append(f"{file.sample}: no such file")
    target = _folder(entry, place.root) / file.name
    for source in file.sources:
        if isinstance(source, SampleSource):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            reason = obtain(source, file, target, place)
        except SourceError as error:
            failures.append(f"{_named(source)}: {error}")
            different = different or (error if isinstance(error, DifferentContentError) else None)
        else:
            return target, kind_of_source(source), "; ".join([*failures, reason])
    if different is not None:
        raise DataError(_explained(entry, file, different, place.root))
    raise DataError(_told(entry, file, failures, place.root))


def _named(source: object) -> str:
    kind = kind_of_source(source)  # type: ignore[arg-type]
    value = getattr(source, kind)
    return f"{kind} {value.distribution}" if kind == "package" else f"{kind} {value}"


def _told(entry: Entry, file: DataFile, failures: list[str], root: Path) -> str:
    return (
        f"{entry.name}: no source yields {file.name} (expected {file.bytes:,} bytes, sha256 {file.sha256}); "
        f"{'; '.join(failures)}; {_mend(entry, file, root)}"
    )


def _explained(entry: Entry, file: DataFile, different: DifferentContentError, root: Path) -> str:
    """Where a file of other content is wrong: by its reader when that finds a fault, else by size and digest."""
    mend = _mend(entry, file, root)
    # a reader of several files finds its fault only among all of them
    paths = [different.path if other == file else _resting_place(entry, other, root) for other in entry.files]
    if all(path.is_file() for path in paths):
        try:
            reader_named(entry.reader)(paths, entry)
        except DataError as located:
            return f"{located} ({entry.name}: {different}; {mend})"
    return (
        f"{shown_path(different.path, root)}: got {different} that reads without fault, allowed is the content that "
        f"{entry.name} catalogues ({file.bytes:,} bytes, sha256 {file.sha256}); {mend}, "
        "or give your data an entry of its own in data/catalogue.yaml"
    )


def _mend(entry: Entry, file: DataFile, root: Path) -> str:
    if file.sample:
        return f"restore it with `git checkout -- {file.sample}`"
    resting = shown_path(_resting_place(entry, file, root), root)
    relative = next((source.mirror for source in file.sources if isinstance(source, MirrorSource)), None)
    by_mirror = f"set {MIRROR_VARIABLE} to a folder with a good {relative}, or " if relative else ""
    return f"mend: {by_mirror}put the file at {resting}, and run `quintet data fetch {entry.name}`"
