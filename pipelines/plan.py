"""In what order stages run, which of them need not, and which must not."""

from dataclasses import dataclass, field

from pipelines.graph import Graph, StageNode
from pipelines.runner import Outcome, StageResult

# A stage that ended in one of these has an output that those below it may read.
GOOD = frozenset({Outcome.RAN, Outcome.CACHED, Outcome.RESTORED})


@dataclass
class Plan:
    """The state of one run of the graph. `results` grows until it holds every stage."""

    graph: Graph
    force: bool = False
    results: dict[str, StageResult] = field(default_factory=dict)
    _begun: set[str] = field(default_factory=set)

    def ready(self) -> list[StageNode]:
        """The stages that may start now: not begun, and all that they depend on ended well."""
        return [
            stage
            for stage in self.graph.stages
            if stage.address not in self._begun and all(self._good(above) for above in stage.depends_on)
        ]

    def begin(self, address: str) -> None:
        self._begun.add(address)

    def end(self, result: StageResult) -> list[StageResult]:
        """Take the result of a stage; returns it, and one for each stage that cannot run because of it."""
        self._begun.add(result.address)
        self.results[result.address] = result
        ended = [result]
        if result.outcome in GOOD:
            return ended
        for stage in self.graph.stages:
            if stage.address in self.results or result.address not in self.graph.ancestors(stage.address):
                continue
            why = f"needs {result.address}, which {'failed' if result.outcome is Outcome.FAILED else 'did not run'}"
            ended += self.end(StageResult(stage.address, Outcome.NOT_RUN, 0.0, why))
        return ended

    def is_cached(self, stage: StageNode) -> bool:
        """Whether a stage needs no process: it was up to date, and nothing that it reads was made anew since."""
        return not self.force and stage.up_to_date and not self._rerun_above(stage)

    def why_run(self, stage: StageNode) -> str:
        """Why a stage that is not cached is given to DVC."""
        if self.force:
            return "forced"
        return f"{', '.join(self._rerun_above(stage))} ran again" if stage.up_to_date else stage.reason

    @property
    def complete(self) -> bool:
        return len(self.results) == len(self.graph.stages)

    @property
    def in_order(self) -> list[StageResult]:
        return [self.results[stage.address] for stage in self.graph.stages if stage.address in self.results]

    def _good(self, address: str) -> bool:
        return address in self.results and self.results[address].outcome in GOOD

    def _rerun_above(self, stage: StageNode) -> list[str]:
        return [above for above in stage.depends_on if self.results[above].outcome is not Outcome.CACHED]
