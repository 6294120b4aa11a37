"""The one door to Great Expectations: declared requirements on small frames in, checks and Data Docs out.

Every call makes a context of its own in memory, so that a second call meets no name of the first. Great Expectations
drops nulls before it compares, and then finds nothing wrong with a column that has no value at all; here a check that
compared nothing is refused. Its import takes seconds and is therefore made inside the functions.
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.files import replacing_folder
from components.quality.core.report import Check

if TYPE_CHECKING:
    import pandas as pd

# So many places are named in a finding; the others are counted.
PLACES_NAMED = 3
DOCS_SITE = "data_docs"
# These may find nothing to compare and yet be right: they ask about nulls or about the table as a whole.
ASKS_ABOUT_ABSENCE = frozenset({"ExpectColumnValuesToNotBeNull"})


@dataclass(frozen=True)
class Requirement:
    """One expectation by its class name and arguments, with the words for a reader.

    `about` names what to show of a refused row, where the expectation looks at a column made for it.
    """

    name: str
    expectation: str
    arguments: Mapping[str, Any]
    expected: str
    mend: str = ""
    about: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where a fault is, and what stands there."""

    where: str
    shown: str


@dataclass(frozen=True)
class Suite:
    """Requirements on one frame with a plain 0..n-1 index. `locate` names a row of it in the reader's terms."""

    name: str
    frame: "pd.DataFrame"
    requirements: tuple[Requirement, ...]
    locate: Callable[[int, Requirement], Place] = field(default=lambda row, _: Place(f"row {row}", "this row"))


def run_suites(subject: str, suites: tuple[Suite, ...], docs_folder: Path | None = None) -> list[Check]:
    """Check every suite and return one check per requirement, in the order given.

    With `docs_folder`, the results are also written there as HTML (Data Docs), in place of what was there.
    Raises ValueError when two requirements of a suite share a name, or an expectation does not exist.
    """
    checks: list[Check] = []
    with _context() as context:
        for suite in suites:
            checks.extend(_run_suite(context, subject, suite))
        if docs_folder is not None:
            _write_docs(context, docs_folder, [suite.name for suite in suites])
    return checks


def drop_docs(docs_folder: Path) -> None:
    """Remove pages of an earlier run, so that nobody reads them as the present one's."""
    shutil.rmtree(docs_folder, ignore_errors=True)


@contextmanager
def _context() -> Iterator[Any]:
    # read at import, so it must be set before
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx

    # a refused expectation is reported by the check, the library logs it once more; the second has a level of its own
    loggers = [logging.getLogger(name) for name in ("great_expectations", "great_expectations.data_context.types.base")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        context: Any = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        yield context
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _run_suite(context: Any, subject: str, suite: Suite) -> list[Check]:
    import great_expectations as gx

    names = [requirement.name for requirement in suite.requirements]
    if len(set(names)) != len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"suite {suite.name!r} names {repeated} twice; every requirement needs a name of its own")
    expectations = [_expectation(gx, requirement) for requirement in suite.requirements]
    batch = (
        context.data_sources.add_pandas(suite.name)
        # the name becomes part of a page's file name, where a separator is refused
        .add_dataframe_asset(subject.replace("/", "."))
        .add_batch_definition_whole_dataframe("whole")
    )
    added = context.suites.add(gx.ExpectationSuite(name=suite.name, expectations=expectations))
    definition = context.validation_definitions.add(gx.ValidationDefinition(name=suite.name, data=batch, suite=added))
    outcome = definition.run(
        batch_parameters={"dataframe": suite.frame},
        result_format={"result_format": "COMPLETE", "include_unexpected_rows": False},
    )
    # results come in an order of their own
    results = {result.expectation_config.meta["check"]: result for result in outcome.results}
    return [_check(suite, requirement, results.get(requirement.name)) for requirement in suite.requirements]


def _expectation(gx: Any, requirement: Requirement) -> Any:
    kind = getattr(gx.expectations, requirement.expectation, None)
    if kind is None:
        raise ValueError(f"{requirement.name}: Great Expectations has no {requirement.expectation!r}")
    return kind(**requirement.arguments, meta={"check": requirement.name})


def _check(suite: Suite, requirement: Requirement, result: Any) -> Check:
    passed, observed, detail = _answer(suite, requirement, result)
    return Check(requirement.name, passed, observed, requirement.expected, detail, "" if passed else requirement.mend)


def _answer(suite: Suite, requirement: Requirement, result: Any) -> tuple[bool, str, str]:
    if result is None:
        return False, "no answer", "was not evaluated"
    fault = _exception(result.exception_info)
    if fault:
        return False, f"an error ({fault})", "could not be evaluated"
    content = result.result
    rows = [int(row) for row in content.get("unexpected_index_list") or ()]
    if "element_count" not in content:
        return bool(result.success), str(content.get("observed_value")), ""
    compared = int(content["element_count"]) - int(content.get("missing_count", 0))
    if compared < 1 and (requirement.expectation not in ASKS_ABOUT_ABSENCE or not content["element_count"]):
        return False, "no value to compare", ""
    if result.success:
        return True, f"{compared} values, {content.get('unexpected_count', 0)} against it", ""
    places = [suite.locate(row, requirement) for row in sorted(rows)[:PLACES_NAMED]]
    if not places:
        return False, f"{content.get('unexpected_count')} of {compared} values", ""
    shown = " and ".join(dict.fromkeys(place.shown for place in places))
    return False, shown, _where(places, len(rows))


def _where(places: list[Place], total: int) -> str:
    others = [place.where for place in places[1:]]
    uncounted = total - len(places)
    if uncounted:
        others.append(f"{uncounted} more")
    return f"{places[0].where} (also {'; '.join(others)})" if others else places[0].where


def _exception(info: Mapping[str, Any]) -> str:
    """First error message of a result; the structure differs between errors of one metric and of the whole."""
    entries = [info] if "raised_exception" in info else list(info.values())
    messages = [str(entry.get("exception_message")) for entry in entries if entry.get("raised_exception")]
    return " ".join(messages[0].split()) if messages else ""


def _write_docs(context: Any, folder: Path, names: list[str]) -> None:
    with replacing_folder(folder) as fresh:
        context.add_data_docs_site(
            DOCS_SITE,
            {
                "class_name": "SiteBuilder",
                "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
                "store_backend": {
                    "class_name": "TupleFilesystemStoreBackend",
                    "base_directory": str(fresh.resolve()),
                },
            },
        )
        # an ephemeral context brings a second site, in the system's temporary folder, which must not be built
        context.build_data_docs(site_names=[DOCS_SITE])
        # the library prints a failure to render and goes on; a missing page would look like a check never made
        missing = [name for name in names if not list((fresh / "validations" / name).rglob("*.html"))]
        if missing:
            raise RuntimeError(f"Data Docs have no page for {', '.join(missing)}; its message above says why")
