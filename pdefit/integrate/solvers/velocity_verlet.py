"""The velocity Verlet method."""

from pdefit.integrate.solvers.symplectic import AbstractSymplectic, kick_drift_kick


class VelocityVerlet(AbstractSymplectic):
    """The velocity Verlet method: kick, drift, kick.

    For long motion of bodies whose energy must not drift. Not for forces that depend on velocities, such as friction,
    or where accuracy counts more than speed (`Yoshida4`).

    It is symplectic, of second order and time-reversible, with a bounded energy error. It needs a system with positions
    and velocities (`AbstractMechanical`), and its steps are constant.

    Source: W. C. Swope et al., J. Chem. Phys. 76:637 (1982), doi:10.1063/1.442716.
    """

    def order(self, terms):
        return 2

    def advance(self, acceleration, s, h, x, v):
        return kick_drift_kick(acceleration, s, h, x, v)
