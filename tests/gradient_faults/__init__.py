"""Wrong derivatives of right values, planted in every part that a gradient comes from: what the certificate must refuse.

A fault makes an objective (and the driver that evaluates it) of a small fit; `clean` is the same without the fault. Some
patch a module while they are in force. `explained` says why a fault may pass: it changes nothing that a fit uses, or less
than the certificate resolves.
"""

from gradient_faults import adjoints, controls, hosted, objectives, solvers, systems, twins
from gradient_faults.plant import FAULTS, Planted, certificate, wrong_transpose

__all__ = [
    "FAULTS",
    "Planted",
    "adjoints",
    "certificate",
    "controls",
    "hosted",
    "objectives",
    "solvers",
    "systems",
    "twins",
    "wrong_transpose",
]
