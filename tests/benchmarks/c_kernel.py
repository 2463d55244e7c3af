"""The C baseline of the benchmarks, compiled where it runs."""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

_SOURCE = Path(__file__).with_name("bocf_kernel.c")
_ORDER = (
    "u_o u_u theta_v theta_w theta_v_minus theta_o tau_v1_minus tau_v2_minus tau_v_plus tau_w1_minus tau_w2_minus "
    "k_w_minus u_w_minus tau_w_plus tau_fi tau_o1 tau_o2 tau_so1 tau_so2 k_so u_so tau_s1 tau_s2 k_s u_s tau_si "
    "tau_w_inf w_inf_star"
).split()
_floats = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")

Kernel = Callable[..., np.ndarray]


def bocf_kernel() -> Kernel | None:
    """`advance(y, steps, dt, parameters, sharpness, dx, hard)` of the compiled kernel; None where there is no compiler.

    y: (4, ny, nx) of u, v, w, s in float32; the parameters by name, D among them; sharpness in the order theta_v, theta_w,
    theta_v_minus, theta_o. Returns the state after so many explicit Euler steps.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "bocf_kernel.so"
        flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
        done = subprocess.run([compiler, *flags, str(_SOURCE), "-o", str(library), "-lm"], capture_output=True)
        if done.returncode != 0:
            return None
        # the file may go once it is loaded
        function = ctypes.CDLL(str(library)).bocf_euler
    number, flag = ctypes.c_int, ctypes.c_float
    function.argtypes = [number, number, number, flag, _floats, _floats, number, _floats, _floats]
    function.restype = None

    def advance(
        y: np.ndarray,
        steps: int,
        dt: float,
        parameters: Mapping[str, float],
        sharpness: Sequence[float],
        dx: float,
        hard: bool,
    ) -> np.ndarray:
        values = np.asarray([*(parameters[n] for n in _ORDER), parameters["D"] / dx**2], np.float32)
        end = np.array(y, np.float32, order="C")
        _, ny, nx = end.shape
        function(ny, nx, steps, dt, values, np.asarray(sharpness, np.float32), int(hard), end, np.empty_like(end))
        return end

    return advance
