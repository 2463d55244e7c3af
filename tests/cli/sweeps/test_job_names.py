"""Names of jobs."""

from pdefit.cli.sweeps.job_names import job_names, swept_values


def test_a_name_holds_what_differs_and_not_the_number_of_the_job():
    jobs = [["experiment=a/b", f"controls.D.guess={d}", f"seed={s}", "dt=0.1"] for d in (0.5, -2.0) for s in (0, 1)]
    names = job_names(jobs)
    assert names == ["D.guess_0.5__seed_0", "D.guess_0.5__seed_1", "D.guess_-2.0__seed_0", "D.guess_-2.0__seed_1"]
    assert job_names(jobs[1:3]) == names[1:3]
    assert swept_values(jobs)[2] == {"controls.D.guess": "-2.0", "seed": "0"}


def test_names_stay_apart_and_are_names_of_folders():
    assert job_names([["seed=0"], ["seed=0"], ["seed=1"]]) == ["seed_0", "seed_0__2", "seed_1"]
    assert job_names([["experiment=a/b", "seed=3"]]) == ["seed_3"] and job_names([["experiment=a/b"]]) == ["job"]
    # equal but for what a folder cannot be called
    first, second = job_names([["data.path=../a b"], ["data.path=..;a b"]])
    assert first != second and first.startswith("path_..-a-b-") and not {*first} & {*"/; =,"}
    # the last part of a key may stand in two sections
    both = job_names([["controls.D=1", "system.D=2"], ["controls.D=3", "system.D=4"]])
    assert both == ["controls.D_1__system.D_2", "controls.D_3__system.D_4"]
    long = job_names([[f"solver={'x' * 300}{i}"] for i in range(2)])
    assert len({*long}) == 2 and all(len(name) < 120 for name in long)
