"""Wall-clock seconds of the parts of a command."""

import time

# when the command began; its first job takes this, since later ones of a sweep wait for no imports
_started: list[float] = []
# what JAX measures of a program on its way to machine code
_COMPILING = ("/jax/core/compile/jaxpr_to_mlir_module_duration", "/jax/core/compile/backend_compile_duration")


def start() -> None:
    """Mark the beginning of a command."""
    _started[:] = [time.perf_counter()]


class Stopwatch:
    """Seconds of the parts of a job, one after the other. The first, `imports`, is what the command did before the job.

    `compiling` are the seconds that programs took to be compiled, or read from the cache, within these parts.
    """

    def __init__(self):
        # commands that compute nothing start without JAX
        from jax import monitoring

        self.compiling = 0.0
        monitoring.register_event_duration_secs_listener(self._compiled)
        self._begin = self._last = time.perf_counter()
        self.seconds = {"imports": self._begin - _started.pop() if _started else 0.0}

    def lap(self, part: str) -> None:
        """Add the time since the last call to a part."""
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now

    def _compiled(self, event: str, duration_secs: float, **_) -> None:
        if event in _COMPILING:
            self.compiling += duration_secs

    def total(self) -> float:
        """Seconds since the command was started."""
        return self.seconds["imports"] + time.perf_counter() - self._begin

    def __str__(self) -> str:
        """The parts that took a twentieth of a second or more, in their order."""
        return ", ".join(f"{part} {taken:.1f}" for part, taken in self.seconds.items() if taken >= 0.05)
