"""The source of data: its entries, written and read again."""

import dataclasses

import numpy as np
import pytest
import yaml

from pdefit import PdefitError, read_observations
from pdefit.cli.config._reader import read_section
from pdefit.cli.config.sources import DataSettings
from pdefit.data.readers.observations import read_arrays
from pdefit.data.readers.source import DataSource, Wanted, source_of

# an entry of each kind that no default has
SAID = {
    "time": 0.5,
    "sigma": {"u": 0.1, "v": "v_sigma"},
    "crop": ((1, 60), (0, 59)),
    "coordinates": {"x": "lon", "y": None},
    "axes": {"u": ["x", "time"], "wind": ["y", "x"]},
    "select": {"experiment": 2},
    "system": {"sphere.radius": "radius", "wind": "velocity[0]"},
    "long": {},
}
LONG = {"value": "measurement", "time": "t", "observable": "name", "recording": ["subject", "replicate"]}


@pytest.mark.parametrize(
    "said", [{}, SAID, {"time": "t", "sigma": "auto", "select": {"experiment": "1"}}, {"long": LONG}]
)
def test_a_source_is_read_from_the_entries_that_state_it(said):
    source = DataSource("film.h5", {"u": "camera/u", "v": "v[north]"}, **said)
    assert {*source.entries} == {"path", "variables", *said} - {name for name, value in said.items() if value == {}}
    text = yaml.safe_dump({"data": source.entries})
    found = read_section(DataSettings, yaml.safe_load(text)["data"], "data")
    assert found.entries == source.entries
    fields = [f.name for f in dataclasses.fields(DataSource)]
    assert [getattr(found, name) for name in fields] == [getattr(source, name) for name in fields]


def test_every_entry_is_in_the_round_trip():
    assert {f.name for f in dataclasses.fields(DataSource)} == {"path", "variables", *SAID}
    more = DataSettings("film.h5", {"u": "u"}, noise=0.02, truth={"D": 1.0})
    assert read_section(DataSettings, more.entries, "data") == more


def test_entries_by_name_become_the_two_records():
    source, wanted = source_of("a.csv", {"u": "u"}, time="t", stop=2.0, units=None)
    assert (source, wanted) == (DataSource("a.csv", {"u": "u"}, "t"), Wanted(stop=2.0))
    assert source_of(source, {"v": "u"}, crop=((0, 2),))[0] == DataSource("a.csv", {"v": "u"}, "t", crop=((0, 2),))
    with pytest.raises(PdefitError, match="'tme'; did you mean time"):
        source_of("a.csv", {"u": "u"}, tme="t")


def test_python_finds_a_file_where_the_command_line_does():
    path, variables = "solar_system/planets_1970_2040_20d.h5", {"position": "position"}
    found = read_observations(path, variables, sigma={"position": "position_sigma"}, stop=100.0)
    assert found.values["position"].shape[0] == found.ts.size and np.all(found.sigma["position"] > 0)


def test_arguments_of_a_system_may_have_axes_of_their_own(tmp_path):
    """The axes of an array that `system` names are no axes of a field."""
    np.savez(tmp_path / "a.npz", u=np.arange(12.0).reshape(4, 3), t=np.arange(3.0), wind=np.ones((2, 4)))
    path, more = str(tmp_path / "a.npz"), {"system": {"wind": "wind"}, "axes": {"wind": ["y", "x"]}}
    found = read_observations(path, {"u": "u"}, time="t", **more)
    assert found.values["u"].shape == (3, 4) and read_arrays(tmp_path / "a.npz", more["system"])["wind"].shape == (2, 4)
    with pytest.raises(PdefitError, match="'wid'"):
        read_observations(path, {"u": "u"}, time="t", axes={"wid": ["y", "x"]})
