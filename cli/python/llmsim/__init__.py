"""How fast, in how much memory and with which parallelism a model trains.

Each function is a command of the program ``llmsim`` and takes its options as keywords, dashes as
underscores: ``plan(model="llama-70b", gpus=256)`` asks what ``llmsim plan --model llama-70b --gpus
256`` asks and returns what its ``--format json`` prints.  Values may be lists; True and False are
switches (``tp_overlap=False``: ``--no-tp-overlap``); None leaves an option out.

>>> import llmsim
>>> llmsim.predict(model="gpt2", gpus=8)["feasible"]
True
"""

import csv
import json
import os
import re
import tempfile
import threading

from . import _program

__all__ = ["Error", "DoesNotFit", "calibrate", "compare", "diagnose", "diff", "models", "plan", "predict", "rows", "run", "sweep", "validate"]
__version__ = _program.version

_one_at_a_time = threading.Lock()


class Error(Exception):
    """What the program says on standard error: an unknown name, a value out of range."""

    @property
    def nearest(self):
        """The names that it proposes for the one that it does not know."""
        proposed = re.search(r"did you mean ([^?]+)\?", str(self))
        return re.split(r", (?:or )?| or ", proposed.group(1)) if proposed else []


class DoesNotFit(Error):
    """The answer is no; ``answer`` has what the program printed of it, or None."""

    def __init__(self, message, answer=None):
        super().__init__(message)
        self.answer = answer

    @property
    def rule(self):
        """The rule that a run breaks, such as "out of memory"; None of a plan without strategies."""
        return ((self.answer or {}).get("infeasible") or {}).get("rule")


def _text(value):
    if isinstance(value, (list, tuple)):
        return ",".join(_text(part) for part in value)
    return str(value)


def _options(options):
    arguments = []
    for key, value in options.items():
        name = "--" + key.replace("_", "-")
        if value is None:
            continue
        if value is True:
            arguments.append(name)
        elif value is False:
            arguments.append("--no-" + name[2:])
        else:
            arguments += [name, _text(value)]
    return arguments


def run(*arguments):
    """What ``llmsim ARGUMENTS... -o FILE`` writes to its file, as text.

    Raises Error with the program's message where its exit status is 1 or 2, and DoesNotFit where it
    is 3.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result")
        with _one_at_a_time:
            status, messages = _program.run([str(argument) for argument in arguments] + ["-o", path])
        text = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text = file.read()
    message = messages.strip().removeprefix("llmsim: ")
    if status == 3:
        raise DoesNotFit(message, text)
    if status != 0:
        raise Error(message)
    return text or ""


def _json(*arguments):
    try:
        return json.loads(run(*arguments, "--format", "json"))
    except DoesNotFit as no:
        no.answer = json.loads(no.answer) if no.answer else None
        raise


def _with_file(command, record, options, more=()):
    if record is None:
        return _json(command, *_options(options), *more)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(record, file)
        return _json(command, path, *_options(options), *more)


def plan(**options):
    """The best strategies, as a dict: ``plan(...)["plans"][0]``."""
    return _json("plan", *_options(options))


def predict(record=None, **options):
    """One run, of a record (a dict as run files have it) or of options."""
    return _with_file("predict", record, options)


def sweep(**options):
    """A dict for each combination of the values of lists."""
    return list(csv.DictReader(run("sweep", *_options(options)).splitlines()))


def compare(table=None, **options):
    """The cells of a table that ships or of a file, or of the lists of two options."""
    return _json("compare", *([] if table is None else [table]), *_options(options))


def rows(answer):
    """A flat dict for each prediction of an answer of plan or predict, for ``pandas.DataFrame``.

    Times are in seconds, memory in bytes, rates in tokens per second and device or TFLOP/s, ratios
    (mfu, fit_probability) from 0 to 1; low and high hold the measured step time with probability
    interval_level.

    >>> import llmsim
    >>> [row["tp"] for row in llmsim.rows(llmsim.predict(model="gpt2", gpus=8, tp=2))]
    [2]
    """
    predictions = answer["plans"] if "plans" in answer else [answer]
    return [_row(one) for one in predictions]


def _row(prediction):
    low, high = prediction["step_time_interval_s"] or (None, None)
    memory = prediction["memory"] or {}
    training = {key: value for key, value in prediction["run"]["training"].items() if not isinstance(value, (dict, list))}
    return {
        "model": prediction["run"]["model"]["name"],
        "accelerator": prediction["run"]["hardware"]["accelerator"],
        "num_devices": prediction["run"]["hardware"]["num_devices"],
        **training,
        **{key: prediction[key] for key in ("strategy", "feasible", "step_time_s")},
        "low_s": low,
        "high_s": high,
        **{key: prediction[key] for key in ("interval_level", "tokens_per_s_per_device", "tflops_per_device", "mfu", "hfu")},
        **{key: memory.get(key) for key in ("peak_bytes", "capacity_bytes", "fit_probability")},
    }


def diagnose(record=None, profile=(), log=(), **options):
    """Where the time of a measured step went: of files of profiles, of logs, or both."""
    paths = [profile] if isinstance(profile, str) else list(profile)
    logs = [log] if isinstance(log, str) else list(log)
    files = [word for path in paths for word in ("--profile", path)] + [word for path in logs for word in ("--log", path)]
    return _with_file("diagnose", record, options, files)


def diff(first, second):
    """Why one run file is faster or smaller than another, term by term."""
    return _json("diff", first, second)


def validate(*paths, **options):
    """Predicted against measured runs: those of the files."""
    return _json("validate", *paths, *_options(options))


def calibrate(command, *arguments, **options):
    """``calibrate("site", "mine", "a.json")``; the text that it prints."""
    return run("calibrate", command, *arguments, *_options(options))


def models(**options):
    """The catalogue."""
    return _json("models", "list", *_options(options))
