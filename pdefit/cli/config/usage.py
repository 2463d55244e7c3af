"""What `pdefit --help` prints."""

USAGE = """usage: pdefit VERB [key=value ...]

  fit experiment=NAME        infer the controls of an experiment; leaves a run directory
  fit EQUATION.py EXPERIMENT.yaml   the same for equations and an experiment in files of your own; so can all verbs below
  simulate experiment=NAME   solve its equations forward
  plan experiment=NAME       the cost of its fit beforehand: checkpoints, memory, time, disk
  compare-adjoints experiment=NAME   all sensitivity algorithms on it: accuracy, time, memory, and which one to use
  sensitivity experiment=NAME   which parameters matter: the effect of each, times and over 1.5, on what is observed
  certify experiment=NAME    test the gradient of an experiment at its guess; certify RUN does so at a run's estimate,
                             and with discretisation=true fits once more with half the step, and half the cell width
  doctor experiment=NAME     the first time, field and line at which values or gradients are not finite; or doctor RUN
  resume RUN                 continue a run that was stopped; max_iterations=N extends a finished one
  render RUN                 figures, movie, ParaView's fields.xdmf of a run or a folder of runs; format=svg movie=false
  report RUN                 one page about a run, report.html, that needs no other file
  sweep status SWEEP         the jobs of a sweep (fit -m): state, loss, last sign of life; watch=true goes on showing
  sweep resume SWEEP         run what is missing, failed or was stopped
  sweep collect SWEEP        one table over all jobs: sweep.csv and sweep.h5
  sweep report SWEEP         one page about them, sweep.html
  export RUN                 its fields as format=netcdf, tiff or numpy; fields=[u]
  import KIND FILES out=data.h5   files of an instrument become one data file; pixel=19.53um frame=2ms, or scale=unknown
  check FILE                 what a data file holds, what looks odd, and the lines that fit it; time=NAME picture=false
  list [experiments|systems|solvers|adjoints|drivers|stages]
  new NAME                   write a working plugin of your own into the folder NAME/; new NAME.py writes one file of equations
                             and its experiment
  verify [SYSTEM ...]        test installed systems, or those of EQUATION.py: gradients, orders, conservation, recovery

Every key of an experiment can be overridden: seed=3 max_iterations=50 controls.D.guess=2.0 solver=tsit5
-m runs a sweep: pdefit fit -m experiment=reaction/fisher_front seed=0,1,2      --cfg job shows the configuration
--config-dir FOLDER adds experiments of your own, FOLDER/experiment/NAME.yaml
"""
