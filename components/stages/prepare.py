"""prepare: from a catalogue entry to the files that everything downstream reads."""

from components.config import DatasetConfig
from components.files import write_json
from components.stages.execution import Context


def run(context: Context) -> None:
    from components.datasets.core.catalogue import load_catalogue
    from components.datasets.core.fetching import fetch
    from components.datasets.preparing import prepare_dataset
    from components.progress import progress

    # all of it but `gate`, on which preparing does not depend
    config = context.section(DatasetConfig, f"datasets.{context.name}")
    entry = load_catalogue(context.root).entry(config.entry)
    with progress(f"fetching {entry.name}", "bytes") as tell:
        fetched = fetch(entry, context.root, progress=tell)
    context.note(source=fetched.source, source_reason=fetched.reason)
    with progress(f"preparing {context.name}") as tell:
        summary = prepare_dataset(context.name, config, entry, fetched.paths, context.folder, tell)
    write_json(context.folder / "summary.json", summary)
    print(f"{summary['rows']} rows of {entry.title}", flush=True)
