"""The velocity Verlet method."""

from pdefit.integrate.solvers.symplectic import AbstractSymplectic, kick_drift_kick


class VelocityVerlet(AbstractSymplectic):
    """Kick, drift, kick: second order, time-reversible, with a bounded energy error.

    Source: W. C. Swope et al., J. Chem. Phys. 76:637 (1982), doi:10.1063/1.442716.
    """

    def order(self, terms):
        return 2

    def advance(self, acceleration, s, h, x, v):
        return kick_drift_kick(acceleration, s, h, x, v)
