"""What YAML may hold in a configuration."""

import omegaconf._utils
import pytest
from omegaconf import OmegaConf

from pdefit import PdefitError, load_experiment
from pdefit.cli.config.configuration import MOST_ENTRIES, register_resolvers
from pdefit.cli.config.read import each_recording

# a hundred thousand entries: fewer than would hang without the bound
LAUGHS = "".join(
    f"{key}: &{key} [{', '.join([before] * 10)}]\n"
    for before, key in zip(("x", "*a", "*b", "*c", "*d"), "abcde", strict=True)
)
TEXTS = f"a: &a {'x' * 3000}\nb: [{', '.join(['*a'] * 1000)}]\n"
MERGED = "a: &a {x: 1}\n" + "".join(
    f"{key}: &{key} {{<<: [{', '.join([f'*{before}'] * 10)}]}}\n" for before, key in zip("abcde", "bcdef", strict=True)
)


@pytest.mark.parametrize("text", [LAUGHS, TEXTS, MERGED, "a: &a [*a]\n"], ids=["lists", "texts", "merged", "endless"])
def test_a_few_lines_of_aliases_are_refused_before_they_are_followed(text, tmp_path):
    register_resolvers()
    (tmp_path / "x.yaml").write_text(text)
    for read in (lambda: OmegaConf.load(tmp_path / "x.yaml"), lambda: OmegaConf.create(text)):
        with pytest.raises(PdefitError, match=f"more than {MOST_ENTRIES} entries once its aliases"):
            read()
    assert OmegaConf.create("a: &a {x: [1, 2]}\nb: {<<: *a, y: *a}\n").b.y.x == [1, 2]


@pytest.mark.parametrize("way", ["file", "folder", "run"])
def test_such_aliases_come_in_nowhere(way, tmp_path, pdefit_inside):
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    (tmp_path / "mine" / "experiment" / "own.yaml").write_text(f"# @package _global_\n{LAUGHS}")
    (tmp_path / "run" / ".hydra").mkdir(parents=True)
    (tmp_path / "run" / ".hydra" / "config.yaml").write_text(f"max_iterations: 1\n{LAUGHS}")
    (tmp_path / "run" / "provenance.json").write_text('{"command": ["pdefit", "fit"]}')
    words = {
        "file": ("plan", "mine/experiment/own.yaml"),
        "folder": ("plan", "experiment=own", "--config-dir", "mine"),
        "run": ("resume", "run"),
    }
    code, _, err = pdefit_inside(*words[way])
    assert code == 1 and err.count("error:") == 1 and "once its aliases" in err


def test_a_program_that_imports_pdefit_reads_yaml_as_before(tmp_path, monkeypatch):
    (tmp_path / "own.yaml").write_text(LAUGHS)
    before = omegaconf._utils.get_yaml_loader
    monkeypatch.setattr(omegaconf._utils, "get_yaml_loader", loader := lambda: before())
    with pytest.raises(PdefitError, match="once its aliases"):
        load_experiment(tmp_path / "own.yaml")
    assert omegaconf._utils.get_yaml_loader is loader


@pytest.mark.parametrize("key", ["members", "recordings"])
def test_thousands_of_files_are_refused_before_they_are_read(key):
    node = {"data": None, "seed": 0, "twin": None}
    assert len(each_recording({**node, key: [f"{i}.csv" for i in range(2000)]}, key)) == 2000
    with pytest.raises(
        PdefitError, match=f"{key} expects up to 2000, but got 9000; write one file of them, {key}: AXIS"
    ):
        each_recording({**node, key: [f"{i}.csv" for i in range(9000)]}, key)
