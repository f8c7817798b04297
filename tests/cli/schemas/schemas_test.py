"""JSON Schemas of the program against what it reads and writes; the program and the root of the project are the arguments."""

import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
except ImportError:  # Debian's package is for Debian's Python
    if sys.executable == "/usr/bin/python3":
        raise
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

PROGRAM, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])


def llmsim(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)


def schema(name):
    return json.loads(llmsim("schema", name).stdout)


def validator(name):
    document = schema(name)
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


def first_error(valid, document):
    """Where and why a document does not validate; none where it does."""
    for error in valid.iter_errors(document):
        return f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"
    return None


def resolved(root, part):
    """The schema behind references, and behind "this or null"."""
    while True:
        if "$ref" in part:
            part = root["$defs"][part["$ref"].rsplit("/", 1)[1]]
        elif "anyOf" in part and any("$ref" in one for one in part["anyOf"]):
            part = next(one for one in part["anyOf"] if "$ref" in one)
        else:
            return part


def kinds(part):
    found = part.get("type", [])
    return [found] if isinstance(found, str) else found


def sample(root, part):
    """A value that a schema takes."""
    part = resolved(root, part)
    if "const" in part:
        return part["const"]
    if "enum" in part:
        return part["enum"][0]
    for one in part.get("anyOf", []):
        if "required" not in one:
            return sample(root, one)
    kind = (kinds(part) or ["string"])[0]
    if kind == "object":
        names = part.get("required", [])
        return {name: sample(root, part["properties"][name]) for name in names}
    if kind == "array":
        return [sample(root, part["items"])]
    if kind in ("integer", "number"):
        return min(max(part.get("minimum", 1), 1), part.get("maximum", float("inf")))
    if kind == "boolean":
        return True
    return {"^[0-9]{4}-[0-9]{2}-[0-9]{2}$": "2025-01-31", "^[a-z0-9_]{1,64}$": "mine"}.get(part.get("pattern"), "text")


def wrong(root, part):
    """A value that it does not take; none where it takes anything."""
    part = resolved(root, part)
    if "anyOf" in part and "type" not in part:
        return 3 if not any("number" in kinds(one) for one in part["anyOf"]) else "text"
    if "enum" in part:
        return "no such word"
    if not kinds(part):
        return None
    if "number" in kinds(part) or "integer" in kinds(part):
        return -7 if part.get("minimum", -8) > -7 else "text"
    return "text" if "string" not in kinds(part) else 3


def places(root, part, path=()):
    """Each key of objects in objects, with its schema."""
    part = resolved(root, part)
    for key, value in part.get("properties", {}).items():
        yield (*path, key), value
        yield from places(root, value, (*path, key))


def put(root, document, path, value):
    """The document with a value at a place, in objects that have what they need."""
    document = copy.deepcopy(document)
    part, where = root, document
    for key in path[:-1]:
        part = resolved(root, resolved(root, part)["properties"][key])
        if not isinstance(where.get(key), dict):
            where[key] = sample(root, part)
        where = where[key]
    where[path[-1]] = value
    return document


class RunFiles(unittest.TestCase):
    """The reader's word is that of `validate`: the reason for which a run is left out."""

    RUN = {"model": {"name": "gpt2"}, "hardware": {"accelerator": "h100", "num_devices": 8}, "training": {"global_batch": 64}}
    MEASURED = {**RUN, "measured": {"step_time_s": 1.0}, "scored": {"step_time": True}}  # so that something is predicted

    @classmethod
    def setUpClass(cls):
        cls.valid = validator("run")
        cls.root = {**schema("run"), **schema("run")["$defs"]["run"]}

    def reasons(self, runs):
        """Why the reader does not take each run, or an empty text."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "runs.json")
            runs = [{**run, "id": f"number {i}"} for i, run in enumerate([*runs, self.MEASURED])]
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"schema": 2, "group": "all", "runs": runs}, file)
            answer = llmsim("validate", path, "--format", "json", "--db", ":memory:")
        reasons = {run["id"]: run["skipped"] or "" for run in json.loads(answer.stdout)["runs"]}
        return [reasons[run["id"]] for run in runs[:-1]]

    def test_measured_runs_validate_in_files_and_alone(self):
        files = sorted((ROOT / "tests/validation/runs").glob("*.json"))
        self.assertGreater(len(files), 20)
        for path in files:
            document = json.loads(path.read_text(encoding="utf-8"))
            self.assertIsNone(first_error(self.valid, document), path.name)
            self.assertIsNone(first_error(self.valid, document["runs"][0]), path.name)

    def test_runs_that_the_reader_refuses_do_not_validate_and_others_do(self):
        checked = 0
        for path in sorted((ROOT / "tests/validation/first_contact").glob("*.json")):
            document = json.loads(path.read_text(encoding="utf-8"))
            refused = [reason for reason in self.reasons(document["runs"]) if "is missing; " in reason]
            self.assertEqual(first_error(self.valid, document) is not None, bool(refused), path.name)
            checked += len(document["runs"])
        self.assertGreater(checked, 100)

    def test_every_key_of_the_schema_is_read(self):
        keys = [(path, part) for path, part in places(self.root, self.root) if path != ("id",)]
        self.assertGreater(len(keys), 250)
        runs = [put(self.root, self.RUN, path, sample(self.root, part)) for path, part in keys]
        for (path, _), run, reason in zip(keys, runs, self.reasons(runs)):
            self.assertIsNone(first_error(self.valid, run), path)
            self.assertNotRegex(reason, "unknown key|is expected|unknown value", path)

    def test_wrong_values_are_refused_by_both(self):
        free = {("schema",), ("inferred",), ("id",)}
        keys = [(path, part) for path, part in places(self.root, self.root) if path not in free]
        runs = [put(self.root, self.RUN, path, wrong(self.root, part)) for path, part in keys]
        for (path, _), run, reason in zip(keys, runs, self.reasons(runs)):
            self.assertIsNotNone(first_error(self.valid, run), path)
            self.assertIn(path[-1], reason, path)

    def test_unknown_keys_are_refused_by_both(self):
        objects = {path[:-1] for path, _ in places(self.root, self.root)}
        runs = [put(self.root, self.RUN, (*path, "no_such_key"), 1) for path in sorted(objects)]
        for run, reason in zip(runs, self.reasons(runs)):
            self.assertIsNotNone(first_error(self.valid, run))
            self.assertIn("no_such_key: unknown key", reason)

    def test_null_is_a_value_that_nobody_states(self):
        runs = [{**self.RUN, "training": {**self.RUN["training"], key: None}} for key in ("tp", "sharding", "recompute", "compile")]
        for run, reason in zip(runs, self.reasons(runs)):
            self.assertIsNone(first_error(self.valid, run))
            self.assertNotIn("is expected", reason)


class HardwareFiles(unittest.TestCase):
    ACCELERATOR = {"id": "mine", "source": "me", "peak_bf16_flops": 5e14, "hbm_bytes": 1e11, "hbm_bytes_per_s": 4e12}
    SYSTEM = {"id": "ours", "source": "us", "accelerator_ids": ["h100_sxm"], "accelerators_per_node": 8}
    COEFFICIENT = {"scope": "device", "id": "h100_sxm", "key": "memory_fraction", "value": 0.9, "source": "own"}

    @classmethod
    def setUpClass(cls):
        cls.root = schema("hardware")
        cls.valid = validator("hardware")

    def refusal(self, document):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mine.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(document, file)
            return llmsim("hardware", "add", path, "--db", ":memory:").stderr

    def cases(self):
        """A list, a right record for it, and the schema of one."""
        for name, record in (("accelerator", self.ACCELERATOR), ("system", self.SYSTEM), ("coefficient", self.COEFFICIENT)):
            yield name + "s", record, {**self.root, **self.root["$defs"][name]}

    def test_examples_validate_and_are_read(self):
        readme = (ROOT / "hwdb/README.md").read_text(encoding="utf-8")
        examples = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", readme, re.S)]
        examples = [one for one in examples if "accelerators" in one]
        examples.append(json.loads((ROOT / "tests/fuzz/corpus/hardware/cluster.json").read_text(encoding="utf-8")))
        for example in examples:
            self.assertIsNone(first_error(self.valid, example))
            self.assertEqual(self.refusal(example), "")
        self.assertGreater(len(examples), 1)

    def test_every_key_of_the_schema_is_read(self):
        known = {"like": "h100_sxm", "default_system": "dgx_h100"}
        for name, record, root in self.cases():
            for path, part in places(root, root):
                value = record.get(path[0]) if len(path) == 1 and path[0] in record else known.get(path[-1], sample(root, part))
                if path == ("like",) and name == "systems":
                    value = "dgx_h100"
                document = {name: [put(root, record, path, value)]}
                self.assertIsNone(first_error(self.valid, document), path)
                self.assertNotRegex(self.refusal(document), "unknown key|number is expected|string is expected|object", path)

    def test_wrong_values_and_unknown_keys_are_refused_by_both(self):
        for name, record, root in self.cases():
            objects = {path[:-1] for path, _ in places(root, root)}
            wrongs = [(path, wrong(root, part)) for path, part in places(root, root)]
            for path, value in [*wrongs, *(((*path, "no_such_key"), 1) for path in objects)]:
                document = {name: [put(root, record, path, value)]}
                self.assertIsNotNone(first_error(self.valid, document), path)
                self.assertIn(path[-1], self.refusal(document), path)

    def test_what_is_needed_is_needed_by_both(self):
        for name, record, _ in self.cases():
            for key in record:
                document = {name: [{other: value for other, value in record.items() if other != key}]}
                self.assertIsNotNone(first_error(self.valid, document), key)
                self.assertNotEqual(self.refusal(document), "", key)


class Questions(unittest.TestCase):
    """Files of --question, with a section for each command."""

    def sections(self, part, words=()):
        for name, inner in part["properties"].items():
            if inner["type"] == "object":
                yield (*words, name), inner
                yield from self.sections(inner, (*words, name))

    def complaint(self, words, key, value):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "question.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"[{'.'.join(words)}]\n{key} = {json.dumps(value)}\n")
            return llmsim("--question", path, "models", "list").stderr

    def test_every_key_is_an_option_and_others_are_none(self):
        valid, keys = validator("question"), 0
        for words, part in self.sections(schema("question")):
            for key, inner in part["properties"].items():
                if inner["type"] == "object":
                    continue
                keys += 1
                value = True if inner["type"] == "boolean" else "1"
                document = {key: value}
                for word in reversed(words):
                    document = {word: document}
                self.assertIsNone(first_error(valid, document), (words, key))
                self.assertNotIn("no option of a command", self.complaint(words, key, value), (words, key))
        self.assertGreater(keys, 300)
        self.assertIn("no option of a command", self.complaint(("plan",), "no-such-key", 1))
        self.assertIsNotNone(first_error(valid, {"plan": {"no-such-key": 1}}))
        self.assertIsNotNone(first_error(valid, {"plan": {"pareto": "yes"}}))


class Answers(unittest.TestCase):
    """Keys that were seen in answers, by the definition and the key."""

    COMMANDS = {
        "prediction": [
            "predict --model gpt2 --gpus 8 --tokens 1T --reported-mfu 0.3",
            "predict --model mixtral-8x7b --gpus 64 --tp 4 --ep 8 --sharding zero1 --memory-timeline --sensitivity --recompute full",
            "predict --model llama-3-70b --gpus 8 --tp 8 --framework megatron-lm --global-batch 8",
            "predict --model llama-3-70b --gpus 16384 --tp 8 --pp 8",
            "predict --model llama-70b --gpus 256 --tp 3",
        ],
        "plan": [
            "plan --model llama-70b --gpus 256",
            "plan --model llama3-8b --gpus 64 --pareto --sensitivity --tokens 1T --risk --top 3",
            "plan --model llama-70b --gpus 1",
            "plan --model gpt2 --gpus 8 --hardware h100,mi300x --top 2",
        ],
        "comparison": ["compare gpt2-h100", "compare --model llama3-8b,llama-405b --hardware h100,mi300x --gpus 8"],
        "explanation": [f"predict --model llama3-8b --gpus 64 --tp 4 --sharding zero1 --explain {what}" for what in ("gemm", "attention", "collective", "memory")],
        "diagnosis": [
            "diagnose {DATA}/run.json --profile {DATA}/step.json",
            "diagnose {DATA}/run.json --log {DATA}/train.log",
        ],
        "difference": ["diff {DATA}/run.json {DATA}/other.json"],
        "validation": [f"validate {ROOT}/tests/validation/runs/llm-train-bench.json"],
    }
    TABLES = ["hardware list", "hardware show h100", "calibrate show", "sweep --model gpt2 --gpus 8 --tp 1,2"]

    @classmethod
    def setUpClass(cls):
        """Two runs, the profile and the log of one: what answers about files are asked with."""
        data = pathlib.Path(os.environ["XDG_DATA_HOME"])
        cls.DATA = str(data)
        for name, batch in (("run", 64), ("other", 128)):
            llmsim("predict", "--model", "llama3-8b", "--gpus", "8", "--global-batch", str(batch), "--format", "json", "-o", f"{data}/{name}.json")
        llmsim("trace", f"{data}/run.json", "--no-operators", "-o", f"{data}/step.json")
        line = "[titan] 2025-01-10 10:00:10,001 - root - INFO - step: {}  loss: 12.2  memory: 47.65GiB(60.2%)  tps: 5,000  tflops: 379.00  mfu: 38.32%\n"
        (data / "train.log").write_text("".join(line.format(step) for step in range(1, 41)), encoding="utf-8")
    # Of machines and clusters that no command here has.
    RARE = {"slow_step_time_s"}
    SECTIONS = {"run", "model", "hardware", "training", "measured", "scored"}  # of run files

    def note(self, root, name, part, value, seen):
        """Adds the keys of an answer that its schema names."""
        if "$ref" in part:
            name = part["$ref"].rsplit("/", 1)[1]
            if name not in self.SECTIONS:
                self.note(root, name, root["$defs"][name], value, seen)
            return
        for one in part.get("anyOf", []):
            if value is not None:
                self.note(root, name, one, value, seen)
        if "if" in part:
            self.note(root, name, part["then" if "keys" in value else "else"], value, seen)
        if isinstance(value, list) and "items" in part:
            for one in value:
                self.note(root, name, part["items"], one, seen)
        for key, inner in part.get("properties", {}).items() if isinstance(value, dict) else ():
            if key in value:
                seen.add((name, key))
                self.note(root, name, inner, value[key], seen)
        others = part.get("additionalProperties")
        for one in value.values() if isinstance(others, dict) and isinstance(value, dict) else ():
            self.note(root, name, others, one, seen)

    def keys(self, name, part):
        for key, value in part.items():
            if key == "properties":
                yield from ((name, one) for one in value)
            if isinstance(value, dict):
                yield from self.keys(name, value)
            for one in value if isinstance(value, list) else ():
                if isinstance(one, dict) and key != "oneOf":
                    yield from self.keys(name, one)

    def test_answers_validate_and_have_every_key(self):
        seen, named = set(), set()
        for name, commands in self.COMMANDS.items():
            valid, root = validator(name), schema(name)
            named.update(self.keys(name, {key: value for key, value in root.items() if key != "$defs"}))
            for other, part in root["$defs"].items():
                if other not in self.SECTIONS:
                    named.update(self.keys(other, part))
            for command in commands:
                answer = json.loads(llmsim(*command.format(DATA=self.DATA).split(), "--format", "json", "--db", ":memory:").stdout)
                self.assertIsNone(first_error(valid, answer), command)
                self.note(root, name, root, answer, seen)
                self.assertIsNotNone(first_error(valid, {**answer, "no_such_key": 1}), command)
        missing = {(name, key) for name, key in named - seen if key not in self.RARE}
        self.assertEqual(missing, set())

    def test_tables_are_lists_of_rows(self):
        for command in self.TABLES:
            answer = json.loads(llmsim(*command.split(), "--format", "json", "--db", ":memory:").stdout)
            self.assertIsInstance(answer, list)
            self.assertIsNone(first_error(validator("table"), answer), command)

    def test_golden_answers_validate(self):
        commands = sorted((ROOT / "tests/golden").glob("*.cmd"))
        self.assertGreater(len(commands), 4)
        kinds = {"predict": "prediction", "plan": "plan", "compare": "comparison"}
        for path in commands:
            line = re.sub("--format [a-z]+", "", path.read_text(encoding="utf-8"))
            name = "explanation" if "--explain" in line else kinds[line.split()[0]]
            answer = json.loads(llmsim(*line.split(), "--format", "json").stdout)
            self.assertIsNone(first_error(validator(name), answer), line)

    def test_every_schema_is_listed_and_names_itself(self):
        listed = [line.split()[0] for line in llmsim("schema").stdout.splitlines()[2:]]
        self.assertEqual(listed, ["run", "hardware", "question", *self.COMMANDS, "table"])
        for name in listed:
            self.assertRegex(schema(name)["$id"], f"^llmsim:{name}:[0-9]+$")

    def test_an_unknown_name_is_an_error_with_the_nearest(self):
        answer = llmsim("schema", "predicton")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("did you mean prediction?", answer.stderr)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as data:
        os.environ["XDG_DATA_HOME"] = data
        unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
