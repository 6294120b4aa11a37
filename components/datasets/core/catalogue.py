"""`data/catalogue.yaml`: which data sets exist, where their bytes may be had, and which bytes count.

Every file of an entry has one canonical sha256 and size, and a source counts only if it yields them. A *live* entry has
neither, since its publisher changes it daily: what the first fetch gets is pinned in the checkout instead.
"""

import difflib
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationError, model_validator

from components.config import Name, Strict
from components.datasets.readers import READERS
from components.errors import ConfigError, UsageError

CATALOGUE_PATH = "data/catalogue.yaml"


def _inside(path: str) -> str:
    """A relative POSIX path that stays below the folder it is joined to."""
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts or "\\" in path or ":" in path:
        raise ValueError("allowed is a relative path with forward slashes and without '..'")
    return path


def _known_reader(name: str) -> str:
    if name not in READERS:
        raise ValueError(f"allowed are the readers {', '.join(sorted(READERS))}")
    return name


InsidePath = Annotated[str, AfterValidator(_inside)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class SampleSource(Strict):
    """A file that comes with the project, read in place."""

    sample: InsidePath


class OwnSource(Strict):
    """A user's own file, kept in data/raw/ENTRY/ under DVC: `dvc pull` brings it to another checkout."""

    own: InsidePath


class PackedSource(Strict):
    """A source that may hold the file compressed: the catalogued digest is that of the content, however packed."""

    unpack: Literal["gzip"] | None = None


class MirrorSource(PackedSource):
    """A file below the folder that QUINTET_DATA_MIRROR names."""

    mirror: InsidePath


class UrlSource(PackedSource):
    """A file at its publisher's address, with digest and size of its packed form where the publisher states them."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
    packed_sha256: Sha256 | None = None
    packed_bytes: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _only_what_is_packed_has_two_digests(self) -> "UrlSource":
        if self.unpack is None and (self.packed_sha256 is not None or self.packed_bytes is not None):
            raise ValueError("packed_sha256 and packed_bytes belong to a source with `unpack`")
        return self


class PackagePin(Strict):
    """A file inside an installed Python distribution of exactly this version."""

    distribution: str
    version: str
    path: InsidePath


class PackageSource(PackedSource):
    """A file that a pinned Python package carries."""

    package: PackagePin


SOURCE_KINDS = ("sample", "own", "mirror", "url", "package")


def _source_kind(value: Any) -> str | None:
    if isinstance(value, dict):
        return next((kind for kind in SOURCE_KINDS if kind in value), None)
    return next((kind for kind in SOURCE_KINDS if hasattr(value, kind)), None)


Source = Annotated[
    Annotated[SampleSource, Tag("sample")]
    | Annotated[OwnSource, Tag("own")]
    | Annotated[MirrorSource, Tag("mirror")]
    | Annotated[UrlSource, Tag("url")]
    | Annotated[PackageSource, Tag("package")],
    Discriminator(
        _source_kind,
        custom_error_type="source",
        custom_error_message=f"allowed is one of the keys {', '.join(SOURCE_KINDS)}",
    ),
]


class DataFile(Strict):
    """One file of an entry: its name below data/raw/ENTRY/, its content's digest and size, its sources in order."""

    name: FileName
    # which part of the published data the file holds, where the publisher has split them
    split: Literal["train", "validation", "test", "unlabelled"] | None = None
    sha256: Sha256 | None = None
    bytes: int | None = Field(default=None, ge=1)
    # the most that is taken of a live file, whose size nobody knows beforehand
    limit_bytes: int = Field(default=1 << 28, ge=1)
    sources: tuple[Source, ...] = Field(min_length=1)

    @property
    def sample(self) -> str | None:
        """Path of the shipped file below the checkout, where this file is a shipped one."""
        return next((source.sample for source in self.sources if isinstance(source, SampleSource)), None)


class Exclusion(Strict):
    """A row that the publisher's file holds and the strict reader cannot take, left out by name and with its reason."""

    id: int = Field(ge=1)
    reason: str = Field(min_length=1)


class Entry(Strict):
    """One data set, as the configuration may name it."""

    name: Name
    title: str
    description: str
    reader: Annotated[str, AfterValidator(_known_reader)]
    licence: str
    citation: str
    live: bool = False
    # made by a generator from the seed of the configuration: there is nothing to fetch
    generated: bool = False
    subset_of: str | None = None
    stand_in_for: str | None = None
    files: tuple[DataFile, ...] = ()
    exclude: tuple[Exclusion, ...] = ()
    # what the reader must know of these files: names of columns and classes; each reader checks its own
    options: dict[str, Any] = Field(default_factory=dict)

    @property
    def shipped(self) -> bool:
        """Whether some file comes with the project, so that it must be there."""
        return any(file.sample for file in self.files)

    @property
    def exclusions(self) -> dict[int, str]:
        return {exclusion.id: exclusion.reason for exclusion in self.exclude}

    @model_validator(mode="after")
    def _files_are_had_or_generated(self) -> "Entry":
        if self.generated and (self.files or self.live):
            raise ValueError("a generated entry has no files and is not live")
        if not self.generated and not self.files:
            raise ValueError("one file or more is needed, or `generated: true` for data that a generator makes")
        return self

    @model_validator(mode="after")
    def _digests_fit_the_kind(self) -> "Entry":
        for file in self.files:
            pinned = file.sha256 is not None and file.bytes is not None
            if self.live and (file.sha256 is not None or file.bytes is not None):
                raise ValueError(
                    f"{file.name}: a live entry's files have no sha256 and no bytes, they are pinned when fetched"
                )
            if self.live and not all(isinstance(source, UrlSource) for source in file.sources):
                raise ValueError(f"{file.name}: a live entry's sources are addresses (url)")
            if not self.live and not pinned:
                raise ValueError(
                    f"{file.name}: sha256 and bytes are required, or `live: true` for data that changes daily"
                )
        repeated = _repeated([file.name for file in self.files])
        if repeated:
            raise ValueError(f"file names must differ, {', '.join(repeated)} came more than once")
        return self


class Catalogue(Strict):
    """All entries, in the order of the file."""

    format: Literal["quintet-catalogue/1"]
    entries: dict[Name, Entry] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _entries_know_their_names(cls, content: Any) -> Any:
        """In the file the name is the entry's key, so that `dvc.yaml` can depend on one entry alone."""
        if isinstance(content, dict) and isinstance(content.get("entries"), dict):
            entries = content["entries"]
            named = {
                key: {**entry, "name": key} if isinstance(entry, dict) else entry for key, entry in entries.items()
            }
            return {**content, "entries": named}
        return content

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.entries)

    def entry(self, name: str) -> Entry:
        """The entry called `name`. Raises UsageError with the names there are."""
        if name in self.entries:
            return self.entries[name]
        close = difflib.get_close_matches(name, self.names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UsageError(f"there is no data set {name!r} in {CATALOGUE_PATH}; it has: {', '.join(self.names)}{hint}")


def _repeated(names: list[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def load_catalogue(root: Path) -> Catalogue:
    """Read and check the catalogue of the checkout at `root`. Raises ConfigError in one line."""
    path = root / CATALOGUE_PATH
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)  # noqa: S506 - a SafeLoader
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; run from the root of a checkout, or restore the file") from None
    except yaml.YAMLError as error:
        raise ConfigError(
            f"{CATALOGUE_PATH} is not YAML: {' '.join(str(error).split())}; mend it at that place"
        ) from None
    try:
        return Catalogue.model_validate(content)
    except ValidationError as error:
        faults = [f"{_place(fault['loc'])}: {fault['msg']}" for fault in error.errors()]
        raise ConfigError(f"{CATALOGUE_PATH} is refused: {'; '.join(faults)}; mend the entry there") from None


def _place(location: tuple[int | str, ...]) -> str:
    """Where a fault lies; an entry is called by its name."""
    parts = [str(part) for part in location]
    return ".".join(parts[1:] if parts[:1] == ["entries"] and len(parts) > 1 else parts) or "the whole"


class _UniqueKeys(yaml.SafeLoader):
    """A loader that refuses a key which stands twice, where YAML's own would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        repeated = _repeated([str(self.construct_object(key)) for key, _ in node.value])
        if repeated:
            raise yaml.constructor.ConstructorError(None, None, f"{repeated[0]} stands there twice", node.start_mark)
        return super().construct_mapping(node, deep)
