"""Captions of the pictures of a run, and texts that stand for them where they cannot be seen."""

_CAPTIONS = {
    "parameters": (
        "Estimates: bars are half the 95 % interval, dots the error; both relative to the estimate.",
        "a bar for the interval of each parameter, and a dot at its error where the truth is known",
    ),
    "observations": (
        "What the instrument measured, with one standard deviation of the noise, the prediction, and the residuals beside.",
        "measured values with error bars and the predicted line over time, and the residuals beside them",
    ),
    "fields": (
        "Truth (or what was observed), prediction and their difference. The forecast is marked in orange. Arrows show a "
        "vector, with a length that stands for its size as the arrow in the corner says. Pointed ends of a colour bar mark "
        "values beyond it.",
        "the true or observed fields beside the predicted ones and their difference",
    ),
    "traces": (
        "Values over time where they change most; right of the dashed line the model forecasts.",
        "observed, true and predicted values over time at a few places",
    ),
    "recordings": (
        "One frame of every recording: observed above, predicted below. Spheres are turned into the frame of the force.",
        "the same frame of every recording, observed and predicted",
    ),
    "diagnostics": (
        "Diagnostics of the predicted states (wide) and of the true ones (dashed) over time.",
        "diagnostics of the predicted and the true states over time",
    ),
    "forecast": (
        "Error of the forecast (full) and of its baseline (dashed) against time.",
        "the error of the forecast over time beside that of a baseline",
    ),
    "convergence": (
        "Loss and controls from evaluation to evaluation.",
        "the loss and the controls against the iteration",
    ),
    "misfit": (
        "Mean over the fit of data minus prediction, in standard errors. Noise has the size 1 and no structure; what the "
        "model misses has.",
        "maps of the mean difference of data and prediction",
    ),
    "residuals": (
        "Root mean square residual in standard deviations; 1 is the noise.",
        "the size of residuals over time, in standard deviations of the noise",
    ),
    "posterior": (
        "Estimates of unknown fields with their standard deviation, and the eigenvalues: above 1 the data know more than "
        "the prior.",
        "estimates, standard deviations and their ratio to the prior or to the error, and the spectrum of eigenvalues",
    ),
    "adjoints": (
        "Sensitivity algorithms: error, time and memory of a gradient.",
        "error, time and memory of each sensitivity algorithm",
    ),
    "movie": ("Truth (or what was observed), prediction and error over time.", "the fields moving in time"),
}


def caption_of(stem: str) -> tuple[str, str]:
    """Caption and alternative text of a picture named `stem`, e.g. `fields_voltage`."""
    first, _, rest = stem.partition("_")
    caption, alternative = _CAPTIONS.get(first, ("", first))
    shown = rest.replace("_", " ").strip()
    return (f"{shown}: {caption}", f"{alternative}: {shown}") if shown else (caption, alternative)
