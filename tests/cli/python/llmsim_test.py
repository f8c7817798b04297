"""The Python module against the program; the module's folder and the program are the arguments."""

import doctest
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv[1])
PROGRAM = sys.argv[2]

import llmsim  # noqa: E402


def program(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False).stdout


RECORD = {
    "id": "one",
    "model": {"name": "gpt2"},
    "hardware": {"accelerator": "h100", "num_devices": 8},
    "training": {"framework": "megatron-lm", "global_batch": 64, "dp": 8},
}


class Answers(unittest.TestCase):
    def test_predictions_are_those_of_the_program(self):
        expected = json.loads(
            program("predict", "--model", "llama3-8b", "--gpus", "16", "--tp", "2", "--no-tp-overlap", "--format", "json")
        )
        self.assertEqual(llmsim.predict(model="llama3-8b", gpus=16, tp=2, tp_overlap=False), expected)

    def test_tables_are_those_of_the_program(self):
        expected = json.loads(program("compare", "gpt2-h100", "--format", "json"))
        self.assertEqual(llmsim.compare("gpt2-h100"), expected)
        two = llmsim.compare(model=["gpt2", "gpt2-xl"], tp=[1, 2], gpus=8)
        self.assertEqual([cell["column"] for cell in two["cells"]], ["tp 1", "tp 2", "tp 1", "tp 2"])

    def test_plans_are_those_of_the_program(self):
        options = ["--model", "gpt2", "--gpus", "8", "--recompute", "none,full", "--top", "3"]
        expected = json.loads(program("plan", *options, "--format", "json"))
        answer = llmsim.plan(model="gpt2", gpus=8, recompute=["none", "full"], top=3)
        del expected["seconds"], answer["seconds"]
        self.assertEqual(answer, expected)

    def test_a_record_is_a_run_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(RECORD, file)
            expected = json.loads(program("predict", path, "--format", "json"))
        self.assertEqual(llmsim.predict(RECORD)["step_time_s"], expected["step_time_s"])

    def test_a_sweep_has_a_dict_for_each_point(self):
        rows = llmsim.sweep(model="gpt2", gpus=8, tp=[1, 2], micro_batch=[1, 2])
        self.assertEqual([(row["tp"], row["micro_batch"]) for row in rows], [("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")])
        one = llmsim.predict(model="gpt2", gpus=8, tp=2, micro_batch=2)
        self.assertEqual(float(rows[-1]["step_time_s"]), one["step_time_s"])

    def test_rows_are_flat_and_those_of_the_answer(self):
        answer = llmsim.plan(model="llama3-8b", gpus=16, recompute="none", top=3)
        rows = llmsim.rows(answer)
        self.assertEqual([row["step_time_s"] for row in rows], [plan["step_time_s"] for plan in answer["plans"]])
        for row in rows:
            self.assertLess(row["low_s"], row["step_time_s"])
            self.assertLess(row["step_time_s"], row["high_s"])
            self.assertFalse([value for value in row.values() if isinstance(value, (dict, list))])

    def test_a_diagnosis_and_a_difference_are_those_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path, other = os.path.join(folder, "run.json"), os.path.join(folder, "other.json")
            for name, batch in ((path, 64), (other, 128)):
                record = json.loads(json.dumps(RECORD))
                record["training"]["global_batch"] = batch
                with open(name, "w", encoding="utf-8") as file:
                    json.dump(record, file)
            step = os.path.join(folder, "step.json")
            program("trace", path, "--no-operators", "-o", step)
            expected = json.loads(program("diagnose", path, "--profile", step, "--format", "json"))
            answer = llmsim.diagnose(RECORD, profile=step)
            self.assertEqual(answer["profile"], expected["profile"])
            self.assertEqual(llmsim.diff(path, other), json.loads(program("diff", path, other, "--format", "json")))

    def test_the_catalogue_is_a_list(self):
        self.assertIn("gpt2", json.dumps(llmsim.models()))


class Complaints(unittest.TestCase):
    def test_unknown_names_are_errors_with_the_programs_words(self):
        with self.assertRaisesRegex(llmsim.Error, "^--model = gpt9: neither a known model"):
            llmsim.predict(model="gpt9", gpus=8)
        with self.assertRaises(llmsim.Error):
            llmsim.predict(model="gpt2", gpus=8, no_such_option=1)

    def test_what_does_not_fit_has_an_answer(self):
        with self.assertRaisesRegex(llmsim.DoesNotFit, "out of memory: needs .* usable") as no:
            llmsim.predict(model="llama-70b", gpus=8, pp=8, global_batch=8)
        self.assertFalse(no.exception.answer["feasible"])
        self.assertEqual(no.exception.rule, "out of memory")

    def test_an_error_has_the_nearest_names(self):
        with self.assertRaises(llmsim.Error) as unknown:
            llmsim.predict(model="llama-70c", gpus=8)
        self.assertEqual(unknown.exception.nearest[0], "llama-70b")
        self.assertGreater(len(unknown.exception.nearest), 1)

    def test_the_examples_of_the_documentation(self):
        self.assertEqual(doctest.testmod(llmsim).failed, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
