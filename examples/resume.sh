#!/usr/bin/env bash
# A fit that stops early and goes on ends where a fit ends that was never stopped.
set -euo pipefail
cd "$(mktemp -d)"
options="experiment=reaction/fisher_front system.grid.shape=[80] render=false"
fit() { pdefit fit $options certificate=end "$@" &>> log.txt; }
estimates() { cut -d, -f1,5 "$1/parameters.csv" | tail -n +2; }

fit hydra.run.dir=never_stopped
echo "never stopped:" && estimates never_stopped

# two evaluations are too few: the run is complete, but its verdict is "not converged"
fit hydra.run.dir=stopped max_iterations=2
echo "after two evaluations:" && estimates stopped

pdefit resume stopped max_iterations=100 &>> log.txt
echo "resumed:" && estimates stopped
cmp <(estimates never_stopped) <(estimates stopped) && echo "the same to the last digit"
