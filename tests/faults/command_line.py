"""Planted faults of the command line: rows of a file, weights in their units, what is printed."""

from tests.faults.fault import Fault
from tests.faults.operators import assume, constant, drop, negate

# fmt: off
FAULTS = [
    Fault("command line: an intercept without the mean of the response", "problem._unscaled", drop("shift"),
          "cli/test_arguments.py::test_unscaled_weights_give_the_same_predictor"),
    Fault("command line: weights of a response that was scaled", "problem._unscaled", drop("scale"),
          "cli/test_arguments.py::test_unscaled_weights_give_the_same_predictor"),
    Fault("command line: a noise scale as if no weight had been fitted", "model._residual_scale", drop("int(rank)"),
          "cli/test_arguments.py::test_the_noise_scale_of_a_linear_model"),
    Fault("command line: other rows than those of the run", "problem.prepare", assume("arguments.checksum not in ('', rows_checksum)", False),
          "cli/test_arguments.py::test_rows_that_have_changed_are_refused"),
    Fault("command line: the response is the last column but one", "design.design", constant(1, 2),
          "cli/test_arguments.py::test_columns_of_a_csv_file"),
    Fault("command line: classes of text in their order backwards", "data_file.coded", negate("codes"),
          "cli/test_arguments.py::test_classes_are_numbers_in_their_order"),
    Fault("command line: a report where none is wanted", "Console.say", assume("not self.is_quiet", True),
          "cli/test_arguments.py::test_quiet_prints_the_answer_alone"),
]
