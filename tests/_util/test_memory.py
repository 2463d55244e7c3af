"""What limits the memory of a process: free memory, ulimit, control groups of both versions, SLURM."""

import math
import resource

import pytest

from pdefit._util.memory import available, available_bytes, limits, too_large


def machine(root, free=1000, version=2, path="/queue/job", mounted_from="/", controllers="memory"):
    """The files of a machine, with a control group; returns the folder of the top group."""
    process, top = root / "proc" / "self", root / "cgroup"
    process.mkdir(parents=True)
    (root / "proc" / "meminfo").write_text(f"MemTotal: 9999 kB\nMemAvailable:   {free} kB\n")
    (process / "status").write_text("Name:\tpdefit\nVmSize:\t 300 kB\nVmRSS:\t 100 kB\nVmData:\t 200 kB\n")
    name = f"5:{controllers}" if version == 1 else "0:"
    (process / "cgroup").write_text(f"7:cpu:/elsewhere\n{name}:{path}\n")
    kind = f"cgroup cgroup rw,{controllers}" if version == 1 else "cgroup2 cgroup2 rw"
    (process / "mountinfo").write_text(
        f"22 1 0:20 / /proc rw - proc proc rw\n30 1 0:26 {mounted_from} {top} rw,relatime - {kind}\n"
    )
    top.mkdir()
    return top


def group(folder, version, limit, usage=0, cache=0):
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if version == 1 else ("memory.max", "memory.current")
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(f"inactive_file {cache}\ntotal_inactive_file {cache}\nactive_file 7\n")


def smallest(root, **environment):
    return min(limits(root, environment))


def test_without_limits_it_is_what_is_free(tmp_path):
    machine(tmp_path)
    assert smallest(tmp_path) == (1000 * 1024, "free on this machine")
    assert limits(tmp_path / "nothing", {})[0].name == "that this machine has"
    assert 2**20 < available_bytes() < math.inf


@pytest.mark.parametrize("version", [1, 2])
def test_a_control_group_counts_what_is_used_but_not_its_caches(tmp_path, version):
    top = machine(tmp_path, version=version, controllers="memory,hugetlb")
    group(top / "queue" / "job", version, 50_000, usage=30_000, cache=4_000)
    left, name = smallest(tmp_path)
    assert left == 24_000 and str(top / "queue" / "job" / "memory.") in name
    # a group above allows less
    group(top / "queue", version, 40_000, usage=39_000)
    group(top, version, {1: 2**63 - 4096, 2: "max"}[version])
    left, name = smallest(tmp_path)
    assert left == 1_000 and f"({top / 'queue'}/memory." in name
    # what is overdrawn is none
    group(top / "queue", version, 40_000, usage=41_000)
    assert smallest(tmp_path)[0] == 0


@pytest.mark.parametrize("version", [1, 2])
def test_a_control_group_of_a_container(tmp_path, version):
    """The process is told a path on the host, of which a part is mounted here; or one that is not here at all."""
    top = machine(tmp_path, version=version, path="/docker/abc/inner", mounted_from="/docker/abc")
    group(top / "inner", version, 50_000)
    assert smallest(tmp_path)[0] == 50_000
    other = machine(tmp_path / "other", version=version, path="/../../elsewhere", mounted_from="/")
    group(other, version, 60_000)
    assert smallest(tmp_path / "other")[0] == 60_000


def test_groups_without_a_limit_or_that_do_not_count_memory_say_nothing(tmp_path):
    group(machine(tmp_path, version=1, controllers="cpu"), 1, 10)
    assert len(limits(tmp_path, {})) == 1
    group(machine(tmp_path / "b") / "queue" / "job", 2, "max")
    assert len(limits(tmp_path / "b", {})) == 1


@pytest.mark.parametrize(
    ("environment", "megabytes"),
    [
        ({"SLURM_MEM_PER_NODE": "3"}, 3),
        ({"SLURM_MEM_PER_CPU": "2", "SLURM_CPUS_ON_NODE": "4"}, 8),
        ({"SLURM_MEM_PER_CPU": "2", "SLURM_CPUS_PER_TASK": "3"}, 6),
        ({"SLURM_MEM_PER_CPU": "2"}, 2),
        ({"SLURM_MEM_PER_NODE": "0"}, None),
        ({"SLURM_MEM_PER_NODE": "4G", "SLURM_MEM_PER_CPU": "?"}, None),
    ],
)
def test_a_job_of_slurm(tmp_path, environment, megabytes):
    machine(tmp_path, free=10**9)
    left, name = smallest(tmp_path, **environment)
    if megabytes is None:
        assert name == "free on this machine"
    else:
        assert left == megabytes * 2**20 - 100 * 1024 and "SLURM_MEM_PER_" in name


def test_what_ulimit_leaves_counts_and_is_named(monkeypatch):
    allowed = {resource.RLIMIT_AS: 2**50, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda which: (allowed[which],) * 2)
    used = 2**50 - next(x.left for x in limits() if "ulimit -v" in x.name)
    assert used > 2**20 and not any("ulimit -d" in x.name for x in limits())
    allowed[resource.RLIMIT_DATA] = 5
    assert available() == (0, "that `ulimit -d` (RLIMIT_DATA) leaves")
    assert "0.002 GB (more than the 0 B that `ulimit -d`" in (too_large((250_000,)) or "")
    assert too_large((100,)) is None
