"""Programs that a fit will need, compiled by one core while another evaluates what comes before."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from pdefit.cli.config.settings import Settings
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.plan import objectives
from pdefit.inverse.certify.certificate import begin_programs
from pdefit.inverse.objective.compiled import EQUATIONS, VALUE, WEIGHTED
from pdefit.inverse.objective.spread import given_devices
from pdefit.output.store.fit_checkpoint import Saved


@contextmanager
def compiling_ahead(exp: Experiment, settings: Settings, saved: Saved | None) -> Iterator[None]:
    """A block during which a thread compiles what later stages, the certificates and the result will call.

    Only where several cores share the objective. The rest of what is compiled ahead is dropped at the end of the block.

    **Arguments:**

    - `exp`, `settings`: the experiment.
    - `saved`: the checkpoint of a fit that goes on. It is near its end, and compiles what it needs.
    """
    if saved is not None or not given_devices(exp.functional):
        yield
        return
    first, *later = objectives(exp)
    last = [first, *later][-1]
    executor = ThreadPoolExecutor(1)
    try:
        # in the order of their use; the plan compiles the normal equations of the first stage
        if settings.certificate != "end":
            begin_programs(executor, first, first.theta0)
        for objective, stage in zip(later, exp.stages[1:], strict=True):
            if stage.optimizer.tangents:
                EQUATIONS.begin(executor, objective, objective.theta0)
        VALUE.begin(executor, last, last.theta0)
        WEIGHTED.begin(executor, last, last.theta0)
        begin_programs(executor, last, last.theta0)
        yield
    finally:
        executor.shutdown(cancel_futures=True)
