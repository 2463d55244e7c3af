"""The verify verb: tables for what was checked, an error for what failed."""

import io

import jax
import jax.numpy as jnp
import pytest
from rich.console import Console
from small_systems import Decay, State

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.commands import verify as verify_command


class Still(Decay):
    def vector_field(self, t, y, args):
        return State(0 * y.u)


class NoExample(pdefit.AbstractSystem):
    time_unit = "s"

    def vector_field(self, t, y, args):
        return y

    def init(self, key: jax.Array):
        return jnp.zeros(1)


@pytest.fixture
def verify(monkeypatch):
    """What the verb prints."""
    installed = {"small/decay": Decay, "small/still": Still, "small/none": NoExample}
    monkeypatch.setattr(verify_command, "systems", lambda: installed)
    console = Console(file=io.StringIO(), width=200)

    def run(*names):
        verify_command.run_verify(list(names), console)
        return console.file.getvalue()

    run.console = console
    return run


def test_a_system_without_an_example_is_no_failure(verify):
    out = verify("small/none")
    assert "small/none: unverified" in out and "small/still" not in out and "small/decay" not in out


def test_by_default_all_are_verified_and_one_failure_is_an_error(verify):
    with pytest.raises(PdefitError, match="small/still: change over the example"):
        verify()
    out = verify.console.file.getvalue()
    assert {"small/decay", "small/still", "small/none"} <= {
        w for line in out.splitlines() for w in line.replace(":", "").split()
    }
    assert "small/decay (" in out and "order in time" in out and "4 +- 0.2" in out
    (failed,) = [line for line in out.splitlines() if "FAILED" in line]
    assert "change over the example" in failed and "stands still" in out


def test_a_name_that_is_not_installed_is_refused_before_anything_runs(verify):
    with pytest.raises(PdefitError, match="did you mean small/decay"):
        verify("small/still", "small/deca")
    assert verify.console.file.getvalue() == ""
