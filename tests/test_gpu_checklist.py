"""The checklist for a GPU, on the CPU."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "gpu.py"


@pytest.fixture(scope="module")
def gpu():
    spec = importlib.util.spec_from_file_location("gpu_checklist", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_part_has_a_table(gpu, tmp_path, monkeypatch, capsys):
    told = 'print(\'{"seconds": 2.0, "value": 1.0, "on": "cpu", "detail": "a step 3 ms"}\')'
    words = [sys.executable, "-c", told]
    listed = [gpu.Task("gradient", "64", words), gpu.Task("gradient", "128", words), gpu.Task("field", "256", words)]
    monkeypatch.setattr(gpu, "tasks", lambda quick: listed)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--platform", "cpu", "--out", str(tmp_path / "gpu.md")])
    with pytest.raises(SystemExit) as end:
        gpu.main()
    assert end.value.code == 0 and "3 of 3 as expected" in capsys.readouterr().out
    first, second = (part.splitlines() for part in (tmp_path / "gpu.md").read_text().split("\n\n## "))
    assert first[0] == "## gradient" and second[0] == "field" and first[2].startswith("| task | cpu (s) | CPU (s)")
    assert second[4] == "| 256 | 2 | 2 | 1.00 | a step 3 ms | as expected |" and len(first) == 6


def test_a_part_is_measured():
    words = [sys.executable, SCRIPT, "--measure", "field", "16", "float64"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["seconds"] > 0 and found["value"] > 0 and found["detail"].startswith("a step")


def test_parts_follow_each_other_and_none_takes_longer_than_its_time(gpu):
    listed = [task.part for task in gpu.tasks(quick=False)]
    assert listed == [part for name in dict.fromkeys(listed) for part in listed if part == name]
    sizes = {task.words[-2:][0] for task in gpu.tasks(quick=False) if task.part == "gradient"}
    assert sizes == {"64", "128", "256", "512", "1024", "2048"}
    for platform in ("cuda", "cpu"):
        # no process is started when the time is over
        late = gpu.run(gpu.Task("gradient", "", ["absent"]), platform, "", 0.0)
        assert late.seconds is None and late.detail == "no time left"
        assert gpu.judged(gpu.tasks(quick=True)[0], late, late) == "not measured: no time left"


def test_what_is_slow_or_wrong_is_named(gpu):
    task = gpu.Task("gradient", "gradient", [], 8.0)
    here = gpu.Found(16.0, 1.0, "")
    assert gpu.judged(task, gpu.Found(1.0, 1.0, ""), here) == ""
    assert "at least 8 times faster" in gpu.judged(task, gpu.Found(4.0, 1.0, ""), here)
    # the CPU may have no time left
    assert gpu.judged(task, gpu.Found(4.0, 1.0, ""), gpu.Found(None, None, "", "no time left")) == ""
    assert "another value" in gpu.judged(task, gpu.Found(1.0, 1.1, ""), here)
    assert gpu.judged(task, gpu.Found(None, None, "XlaRuntimeError: x"), here) == "fails: XlaRuntimeError: x"
    assert all(Path(task.words[1]).exists() for task in gpu.tasks(quick=False) if task.words[0] == sys.executable)
