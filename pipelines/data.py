"""The commands `quintet data`: what the catalogue has, what of it is here, getting it, judging it, accepting it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from components.arrays import SPLITS
from components.errors import DataError, QuintetError, UsageError

if TYPE_CHECKING:
    from components.datasets.core.catalogue import Entry
    from components.stages.inspecting import Inspection


def print_catalogue(root: Path, console: Console) -> None:
    """Three lines for each entry: where it is and may be had, what it is, licence; fit for a narrow terminal."""
    from components.datasets.core.catalogue import load_catalogue

    for entry in load_catalogue(root).entries.values():
        size = _size(entry)
        console.print(
            f"[bold]{entry.name}[/bold]  here: {_here(entry, root)}; {size}; from {_kinds(entry)}", highlight=False
        )
        console.print(f"    {entry.title}", markup=False, highlight=False, soft_wrap=True)
        for words, other in (("a subset of", entry.subset_of), ("a stand-in for", entry.stand_in_for)):
            if other:
                console.print(f"    {words} {other}", markup=False, highlight=False, soft_wrap=True)
        console.print(f"    licence: {entry.licence}", markup=False, highlight=False, soft_wrap=True, style="dim")
    console.print(
        "quintet data fetch NAME gets one, quintet data check NAME judges one, quintet data add PATH adds yours"
    )


def fetch_entries(root: Path, names: Sequence[str], console: Console, refresh: bool = False) -> None:
    """Fetch the named entries, or all that the active configuration uses. Raises DataError."""
    from components.datasets.core.catalogue import load_catalogue
    from components.datasets.core.fetching import fetch
    from components.progress import progress

    catalogue = load_catalogue(root)
    for name in names or _configured(root):
        with progress(f"fetching {name}", "bytes") as tell:
            fetched = fetch(catalogue.entry(name), root, refresh=refresh, progress=tell)
        console.print(f"{name}: {fetched.reason}", markup=False, soft_wrap=True)


def check_entries(root: Path, names: Sequence[str], console: Console, files_only: bool = False) -> None:
    """Verify the files of the named entries, then prepare and judge every data set that is made of them.

    Without names: what the active configuration uses. Nothing is fetched, nothing is left behind. All are looked at
    before the first fault is raised, as DataError.
    """
    from components.datasets.core.catalogue import load_catalogue
    from components.datasets.core.fetching import check

    catalogue = load_catalogue(root)
    faults: list[QuintetError] = []
    for name in names or _configured(root):
        entry = catalogue.entry(name)
        try:
            checked = check(entry, root)
            console.print(f"{name}: {checked.reason}", markup=False, soft_wrap=True)
            if checked.present and not files_only:
                _judge(root, entry, console)
        except QuintetError as error:
            console.print(f"{name}: {error}", style="bold red", markup=False, soft_wrap=True)
            faults.append(error)
    if faults:
        raise (
            faults[0]
            if len(faults) == 1
            else DataError(f"{len(faults)} data sets are not in order; the first: {faults[0]}")
        )


def accept_dataset(root: Path, name: str, console: Console) -> None:
    """Make the version that is here the one that later ones are compared with. Raises DataGateError, DataError."""
    from components.datasets.core.catalogue import load_catalogue
    from components.datasets.core.fetching import fetch
    from components.quality.core.profile import profile_path, write_profile
    from components.quality.core.report import require_passed
    from components.stages.inspecting import dataset_named, inspect

    config = dataset_named(root, name)
    entry = load_catalogue(root).entry(config.entry)
    inspection = inspect(root, name, config, entry, fetch(entry, root).paths)
    if inspection.profile is None:
        require_passed(inspection.report)
        raise DataError(f"{name} has no profile; look at `quintet data check {entry.name}`")
    print_inspection(inspection, console)
    write_profile(root / profile_path(name), inspection.profile)
    console.print(f"accepted: {profile_path(name)}; commit it together with what changed", soft_wrap=True)


def print_inspection(inspection: "Inspection", console: Console) -> None:
    """Rows, verdict and profile of one data set."""
    summary, report = inspection.summary, inspection.report
    splits = ", ".join(f"{summary['splits'][split]:,} {split}" for split in SPLITS)
    console.print(f"  {inspection.name}: {summary['rows']:,} rows ({splits})", markup=False, soft_wrap=True)
    for key in ("subset_of", "stand_in_for"):
        if summary.get(key):
            console.print(f"  {key.replace('_', ' ')} {summary[key]}", markup=False, soft_wrap=True)
    console.print(f"  gate: {report.verdict}, {len(report.checks)} checks", markup=False)
    for finding in report.findings:
        console.print(f"  {finding}", style="red", markup=False, soft_wrap=True)
    if inspection.profile is None:
        return
    for name, feature in inspection.profile.features.items():
        total = sum(feature.counts)
        if feature.edges is not None:
            told = f"deciles {', '.join(f'{edge:.4g}' for edge in feature.edges)}"
        else:
            words = sorted(zip(feature.words or (), feature.counts, strict=False), key=lambda item: -item[1])
            told = ", ".join(f"{word} {count / total:.0%}" for word, count in words[:8])
        console.print(f"  {name}: {told}", markup=False, soft_wrap=True)


def _judge(root: Path, entry: "Entry", console: Console) -> None:
    from components.datasets.core.fetching import fetch
    from components.quality.core.report import require_passed
    from components.stages.inspecting import configured_datasets, inspect

    made_of_it = {name: config for name, config in configured_datasets(root).items() if config.entry == entry.name}
    if not made_of_it:
        console.print("  no data set in conf/dataset/ is made of it", markup=False)
    for name, config in made_of_it.items():
        inspection = inspect(root, name, config, entry, fetch(entry, root).paths)
        print_inspection(inspection, console)
        require_passed(inspection.report)


def _configured(root: Path) -> list[str]:
    """Entries of the data sets and encoders that params.yaml names."""
    from components.config import load_config

    config = load_config(root / "params.yaml")
    encoders = [section["compute"]["encoder"].get("entry") for section in config.features.values()]
    return sorted({dataset.entry for dataset in config.datasets.values()} | {name for name in encoders if name})


def _here(entry: "Entry", root: Path) -> str:
    """Where the files are without being fetched; sizes only, `quintet data check` reads them."""
    from components.datasets.core.sources import mirror_folder

    if entry.generated:
        return "generated"
    folder = root / "data" / "raw" / entry.name
    resting = [root / file.sample if file.sample else folder / file.name for file in entry.files]
    if all(path.is_file() for path in resting):
        return "shipped" if entry.shipped else "fetched"
    mirror = mirror_folder(None)
    paths = [getattr(source, "mirror", None) for file in entry.files for source in file.sources]
    mirrored = [path for path in paths if path]
    if mirror and len(mirrored) == len(entry.files) and all((mirror / path).is_file() for path in mirrored):
        return "in the mirror"
    return "in a package" if _packaged(entry) else "no"


def _packaged(entry: "Entry") -> bool:
    from importlib.metadata import PackageNotFoundError, version

    pins = [getattr(source, "package", None) for file in entry.files for source in file.sources]
    wanted = [pin for pin in pins if pin is not None]
    if len(wanted) != len(entry.files):
        return False
    try:
        return all(version(pin.distribution) == pin.version for pin in wanted)
    except PackageNotFoundError:
        return False


def _kinds(entry: "Entry") -> str:
    from components.datasets.core.sources import kind_of_source

    kinds = dict.fromkeys(kind_of_source(source) for file in entry.files for source in file.sources)
    return ", ".join(kinds) or "a generator"


def _size(entry: "Entry") -> str:
    if entry.generated:
        return "no files"
    sizes = [file.bytes for file in entry.files]
    if any(size is None for size in sizes):
        return "not pinned"
    count = sum(size or 0 for size in sizes)
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def require_name(name: str) -> str:
    """Raise UsageError unless `name` is one word of a path, as names in the catalogue are."""
    import re

    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise UsageError(f"name is {name!r}, allowed are small letters, digits and single dashes, such as my-reviews")
    return name
