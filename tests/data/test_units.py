import random
import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.data.readers.observations import read_observations
from pdefit.data.units import Conversion, conversion, unit_in_system

AU_KM, DAY_S = 149597870.7, 86400.0


@pytest.mark.parametrize(
    ("unit", "expected", "factor", "offset"),
    [
        ("mm", "mm", 1, 0),
        ("um", "mm", 1e-3, 0),
        ("µm", "mm", 1e-3, 0),
        ("μm", "m", 1e-6, 0),
        ("micrometers", "mm", 1e-3, 0),
        ("10 um", "mm", 1e-2, 0),
        ("inch", "mm", 25.4, 0),
        ("au", "km", AU_KM, 0),
        ("AU", "km", AU_KM, 0),
        ("day", "s", DAY_S, 0),
        ("days", "s", DAY_S, 0),
        ("d", "h", 24, 0),
        ("min", "ms", 6e4, 0),
        ("ms", "s", 1e-3, 0),
        ("msec", "s", 1e-3, 0),
        ("s", "ms", 1e3, 0),
        ("mm/s", "m/s", 1e-3, 0),
        ("mm s-1", "m/s", 1e-3, 0),
        ("mm s^-1", "m/s", 1e-3, 0),
        ("mm·s⁻¹", "m/s", 1e-3, 0),
        ("mm.s-1", "m/s", 1e-3, 0),
        ("mm*s**-1", "m/s", 1e-3, 0),
        ("au/day", "km/s", AU_KM / DAY_S, 0),
        ("km3/s2", "au^3/day^2", DAY_S**2 / AU_KM**3, 0),
        ("mm²/s", "m^2/s", 1e-6, 0),
        ("m/s/s", "mm/s2", 1e3, 0),
        ("W/(m2 K)", "mW m-2 K-1", 1e3, 0),
        ("kg m-2 s-1", "g/(cm^2*s)", 0.1, 0),
        ("1/s", "Hz", 1, 0),
        ("mV", "V", 1e-3, 0),
        ("degC", "K", 1, 273.15),
        ("°C", "K", 1, 273.15),
        ("K", "degC", 1, -273.15),
        ("degF", "degC", 5 / 9, -160 / 9),
        ("%", "1", 0.01, 0),
        ("percent", "1", 0.01, 0),
        # these promise nothing
        (None, "mm", 1, 0),
        ("mm", None, 1, 0),
        ("", "mm", 1, 0),
        ("1", "mm", 1, 0),
        ("counts", "1", 1, 0),
        ("a.u.", "1", 1, 0),
    ],
)
def test_a_unit_that_users_write(unit, expected, factor, offset):
    found = conversion(unit, expected)
    assert found.factor == pytest.approx(factor, rel=1e-12) and found.offset == pytest.approx(offset, rel=1e-12)


@pytest.mark.parametrize(
    ("unit", "length", "time", "expected"),
    [
        ("mm^2/s", "mm", "s", "mm^2/s"),
        # the same units in other words
        ("mm2 sec-1", "mm", "s", "mm2 sec-1"),
        ("days", "um", "day", "days"),
        ("Hz", "um", "s", "Hz"),
        ("mm/frame", "mm", "frame", "mm/frame"),
        # what measures another quantity may differ from the grid
        ("mol/m^3", "um", "s", "mol/m^3"),
        ("cells/mm^2", "um", "s", "cells/mm^2"),
        ("degree/s", "um", "s", "degree/s"),
        # no unit promises nothing
        ("mm^2/s", "1", "s", "mm^2/s"),
        ("mm^2/s", "mm", "1", "mm^2/s"),
        ("knot", "1", "h", "knot"),
        ("length^2/time", "10 um", "s", "(10 um)^2/s"),
        ("L/mol/s", "um", "s", "L/mol/s"),
        ("length/time^2", "m", "min", "m/min^2"),
        ("length^2/time", "1", "s", "1/s"),
        ("length^2/time", "m", "1", "m^2"),
        ("length^2/time", "1", "1", "1"),
    ],
)
def test_a_declared_unit_in_a_system(unit, length, time, expected):
    assert unit_in_system(unit, length, time) == expected


@pytest.mark.parametrize(
    ("unit", "length", "time", "words"),
    [
        ("1/mm^2", "um", "h", ("K is declared in 1/mm^2", "lengths in um and times in h", "declare 1/length^2 and")),
        ("mm^2/s", "10 um", "s", ("lengths in 10 um", "declare length^2/time and")),
        ("mm^2/s", "pixel", "s", ("lengths in pixel",)),
        ("pixel^2/s", "mm", "s", ("lengths in mm", "declare length^2/time and")),
        ("mm/frame", "um", "frame", ("lengths in um", "declare length/time and")),
        ("mm^2/s", "rad", "s", ("lengths in rad",)),
        ("mm^2/s", "mm", "min", ("times in min", "declare length^2/time and")),
        ("mm^2/s", "mm", "frame", ("times in frame",)),
        ("cm^2/ms", "mm", "1", ("the system has lengths in mm;", "declare length^2/time and")),
        ("Hz", "1", "ms", ("the system has times in ms;", "declare (time^-1) and")),
    ],
)
def test_a_declared_unit_that_is_not_the_systems_is_refused(unit, length, time, words):
    with pytest.raises(PdefitError) as error:
        unit_in_system(unit, length, time, "K")
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("unit", "expected", "words"),
    [
        ("m", "s", ("'m'", "'s'", "do not measure the same")),
        ("counts", "mm", ("'counts'", "'mm'")),
        ("a.u.", "mm", ("'a.u.'", "no unit")),
        ("mmm", "mm", ("'mmm'", "no unit")),
        ("mm", "furlong per fortnigth", ("fortnigth", "no unit")),
        # a zero point has no place in a product
        ("W m-2 degC-1", "W m-2 K-1", ("degC-1", "no unit")),
        ("degC/m", "K/m", ("degC/m", "no unit")),
        ("dBm", "mW", ("'dBm'", "no multiple")),
        ("m9999", "m", ("'m9999'", "no unit")),
        ("9**9**9**9**9", "m", ("no unit",)),
        ("m^2^2", "m", ("no unit",)),
        ("m^1.5", "m", ("no unit",)),
        ("0 m", "m", ("no unit",)),
        ("1e999 m", "m", ("no unit",)),
        ("-m", "mm", ("no unit",)),
        ("(m", "mm", ("no unit",)),
        ("m)", "mm", ("no unit",)),
        ("m//s", "m/s", ("no unit",)),
        ("__import__('os')", "m", ("no unit",)),
        ("(" * 100000, "m", ("100000 characters",)),
    ],
)
def test_what_is_no_unit_or_another_is_refused(unit, expected, words):
    with pytest.raises(PdefitError) as error:
        conversion(unit, expected)
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


_PIECES = (
    "mm um s -1 ** ^ 9 99 ( ) / . * degC degF % au e E 1e308 1e-308 ² ⁻ day lambda None import if _ __ K dB pH m kg µ ° Å ! "
    "~ [ ] { } ' \" \\ 0 inf nan for : ; , @ # delta_degC"
).split() + [" ", "\n", "\0", "\t"]


def test_random_texts_are_a_conversion_or_an_error():
    def hung(*_):
        raise AssertionError(f"no answer for {text!r}")

    draw, understood, text = random.Random(0), 0, ""
    conversion("inch", "mm")
    before = signal.signal(signal.SIGALRM, hung)
    for _ in range(400):
        text = "".join(
            draw.choice(_PIECES) if draw.random() < 0.8 else chr(draw.randint(0, 0x3FF))
            for _ in range(draw.randint(1, 40))
        )
        text = text[: draw.choice((3, 8, 100))]
        signal.alarm(60)
        try:
            found = conversion(text, draw.choice(("mm", "K", "s")))
            assert np.isfinite(found.factor) and found.factor > 0 and np.isfinite(found.offset)
            understood += 1
        except PdefitError:
            pass
        finally:
            signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    assert 0 < understood < 400


def test_deviations_have_no_zero_point():
    fahrenheit = conversion("degF", "K")
    np.testing.assert_allclose(fahrenheit.values(np.asarray([32.0, 212.0])), [273.15, 373.15])
    np.testing.assert_allclose(fahrenheit.deviations(np.asarray([1.8])), [1.0])
    assert Conversion(-2.0, 1.0).deviations(np.asarray([1.0])) == [2.0]


@pytest.fixture
def film(tmp_path):
    """Three frames in laboratory units: minutes, degrees Celsius, micrometres."""
    with h5py.File(tmp_path / "film.h5", "w") as file:
        file["time"] = np.asarray([0, 1, 3])
        file["time"].attrs["units"] = "minutes since 2020-01-01 00:00:00"
        file["T"] = np.asarray([[20.0, 21.0], [22.0, np.nan], [24.0, 25.0]])
        file["T"].attrs["units"] = np.bytes_("degC")
        file["T_error"] = np.asarray([0.5, 1.0])
        file["height"] = np.asarray([[1000.0], [2000.0], [3000.0]])
        file["height"].attrs["units"] = np.asarray(["um"], dtype=h5py.string_dtype())
        file["height_error"] = np.asarray([0.05])
        file["height_error"].attrs["units"] = "mm"
    return tmp_path / "film.h5"


UNITS = {"T": "K", "h": "mm"}


def test_values_sigma_and_times_come_out_in_the_units_of_the_model(film):
    seen = read_observations(
        film,
        {"T": "T", "h": "height"},
        sigma={"T": "T_error", "h": "height_error"},
        units=UNITS,
        time_unit="s",
        start=30.0,
        stop=200.0,
    )
    # start and stop are in the model's unit too
    assert seen.ts.tolist() == [30.0, 60.0, 180.0] and seen.first_frame == 1
    seen = seen.from_first_frame
    np.testing.assert_allclose(seen.values["T"], [[295.15, 0.0], [297.15, 298.15]])
    assert np.asarray(seen.mask["T"]).tolist() == [[True, False], [True, True]]
    np.testing.assert_allclose(seen.values["h"], [[2.0], [3.0]])
    # without a unit of its own a sigma has its variable's
    np.testing.assert_allclose(seen.sigma["T"], [[0.5, 1.0]])
    np.testing.assert_allclose(seen.sigma["h"], [[0.05]])


def test_a_sigma_without_unit_has_that_of_its_variable_and_a_number_that_of_the_model(film):
    with h5py.File(film, "r+") as file:
        del file["height_error"].attrs["units"]
    (own,), (number,) = (
        np.ravel(read_observations(film, {"h": "height"}, sigma={"h": s}, units=UNITS).sigma["h"])
        for s in ("height_error", 0.05)
    )
    assert own == pytest.approx(5e-5) and number == 0.05


@pytest.mark.parametrize(
    ("units", "time_unit", "words"),
    [
        ({"T": "mm"}, "s", ("'T'", "film.h5", "degC", "mm")),
        ({"T": "Kelvins!"}, "s", ("'T'", "degC", "Kelvins!")),
        (UNITS, "mm", ("'time'", "minutes", "mm")),
    ],
)
def test_a_unit_that_cannot_be_converted_names_both(film, units, time_unit, words):
    with pytest.raises(PdefitError) as error:
        read_observations(film, {"T": "T"}, units=units, time_unit=time_unit)
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_the_library_is_imported_only_where_units_differ():
    code = (
        "import sys, pdefit.cli.main\nfrom pdefit.data.units import conversion\n"
        "conversion('days', 'day'), conversion('mm', 'mm'), conversion(None, 's'), conversion('%', '1')\n"
        "assert 'pint' not in sys.modules\nconversion('um', 'mm')\nassert 'pint' in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=600)
