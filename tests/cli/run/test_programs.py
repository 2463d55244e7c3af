"""Programs that a small fit compiles: each costs more than the evaluations of the whole fit."""

import subprocess
import sys

# as counted: lower it when there are fewer
_MOST = 30

_SCRIPT = """
import sys
from jax import monitoring

compiled = []
monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: compiled.append(event) if event.endswith("backend_compile_duration") else None
)
from pdefit.cli.main import main

sys.argv = ["pdefit", "fit", "experiment=populations/hudson_bay_lotka_volterra", "render=false", "hydra.run.dir=run"]
try:
    main()
finally:
    print("compiled", len(compiled))
"""


def test_a_small_fit_compiles_few_programs(tmp_path):
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    count = int(done.stdout.rsplit("compiled", 1)[1])
    assert 0 < count <= _MOST, f"{count} programs, at most {_MOST}: what runs once on small arrays runs in NumPy"
