"""Whatever the graph and whatever fails: nothing starts too early, nothing below a failure starts at all."""

from hypothesis import given
from hypothesis import strategies as st

from pipelines.graph import Graph, StageNode
from pipelines.plan import GOOD, Plan
from pipelines.runner import Outcome, StageResult


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 9))
    stages = []
    for index in range(count):
        above = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        fresh = draw(st.booleans())
        stages.append(StageNode(str(index), tuple(str(other) for other in sorted(above)), (), (), fresh, "because"))
    return Graph(tuple(stages))


def node(address: str, *above: str, fresh: bool = False) -> StageNode:
    return StageNode(address, above, (), (), fresh, "nothing changed" if fresh else "code changed: components")


def result(address: str, outcome: Outcome) -> StageResult:
    return StageResult(address, outcome, 1.0, "")


@given(graphs(), st.data())
def test_every_stage_ends_once_and_none_below_a_failure_starts(graph: Graph, data: st.DataObject) -> None:
    plan = Plan(graph)
    started: list[str] = []
    ended: list[str] = []
    while not plan.complete:
        ready = plan.ready()
        assert ready, "the plan stands still"
        stage = data.draw(st.sampled_from(ready))
        assert all(plan.results[above].outcome in GOOD for above in stage.depends_on)
        started.append(stage.address)
        plan.begin(stage.address)
        outcome = Outcome.CACHED if plan.is_cached(stage) else data.draw(st.sampled_from([Outcome.RAN, Outcome.FAILED]))
        ended += [item.address for item in plan.end(result(stage.address, outcome))]
    assert sorted(ended) == sorted(stage.address for stage in graph.stages)
    for stage in graph.stages:
        above = graph.ancestors(stage.address)
        failed = {address for address in above if plan.results[address].outcome is Outcome.FAILED}
        assert (plan.results[stage.address].outcome is Outcome.NOT_RUN) == bool(failed)
        assert (stage.address in started) != bool(failed)
        if plan.results[stage.address].outcome is Outcome.CACHED:
            assert stage.up_to_date
            assert all(plan.results[other].outcome is Outcome.CACHED for other in stage.depends_on)


def test_a_stage_below_one_that_ran_again_is_checked_by_dvc() -> None:
    plan = Plan(Graph((node("a"), node("b", "a", fresh=True), node("c", "b", fresh=True))))
    plan.end(result("a", Outcome.RAN))
    assert not plan.is_cached(plan.graph["b"])
    assert plan.why_run(plan.graph["b"]) == "a ran again"
    # DVC found that b's inputs came out the same, so nothing changed for c
    plan.end(result("b", Outcome.CACHED))
    assert plan.is_cached(plan.graph["c"])


def test_force_runs_what_is_up_to_date() -> None:
    plan = Plan(Graph((node("a", fresh=True),)), force=True)
    assert not plan.is_cached(plan.graph["a"])
    assert plan.why_run(plan.graph["a"]) == "forced"


def test_what_could_not_run_says_why() -> None:
    plan = Plan(Graph((node("a"), node("b", "a"), node("c", "b"), node("d"))))
    ended = plan.end(result("a", Outcome.FAILED))
    assert [(item.address, item.outcome) for item in ended] == [
        ("a", Outcome.FAILED),
        ("b", Outcome.NOT_RUN),
        ("c", Outcome.NOT_RUN),
    ]
    assert plan.results["b"].why == "needs a, which failed"
    assert [stage.address for stage in plan.ready()] == ["d"]
