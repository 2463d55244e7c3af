"""Plugins beside the package."""

import sys

from pdefit.cli.runtime import plugins


def test_a_folder_beside_the_package_is_a_plugin(tmp_path, monkeypatch):
    package = tmp_path / "plugins" / "pdefit_mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("SYSTEMS = {}\n")
    monkeypatch.setattr("pdefit._util.plugins._ROOT", tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    # outside a checkout such a folder may belong to anything
    assert "pdefit_mine" not in plugins.plugins()
    (tmp_path / "pyproject.toml").touch()
    try:
        assert {"pdefit_mine", "pdefit_reaction"} <= set(plugins.plugins())
    finally:
        sys.modules.pop("pdefit_mine", None)


def test_the_first_plugin_with_a_proposal_is_asked(tmp_path, monkeypatch):
    assert plugins.proposal("vectors") and plugins.proposal("angles") and plugins.proposal("sounds") == {}
    folders = [tmp_path / name for name in ("first", "second", "third")]
    for folder in folders[1:]:
        (folder / "proposal").mkdir(parents=True)
        (folder / "proposal" / "vectors.yaml").write_text(f"observe: {folder.name}\n")
    monkeypatch.setattr(plugins, "configurations", lambda: [(folder.name, folder) for folder in folders])
    assert plugins.proposal("vectors") == {"observe": "second"}
    assert plugins.proposal("angles") == {}
