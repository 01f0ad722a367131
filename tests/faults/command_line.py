"""Planted faults of the command line: rows of a file, weights in their units, what is printed."""

from tests.faults.fault import Fault
from tests.faults.operators import assume, constant, drop, negate, rename

# fmt: off
FAULTS = [
    Fault("command line: an intercept without the mean of the response", "problem._unscaled", drop("units.shift"),
          "cli/test_arguments.py::test_unscaled_weights_give_the_same_predictor"),
    Fault("command line: weights of a response that was scaled", "problem._unscaled", drop("units.scale"),
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
    Fault("command line: rows left out where cells are to be filled", "design._without_missing", assume("reading.missing != 'drop'", False),
          "cli/test_tables.py::test_missing_cells_by_their_policy"),
    Fault("command line: groups without the change of variable of their scale", "WeightPrior.__call__", drop("log_scale"),
          "cli/test_regressions.py::test_groups_have_the_density_that_is_written"),
    Fault("command line: a residual of counts without their overdispersion", "CountResidual.__call__", assume("not self.alpha", True),
          "cli/test_regressions.py::test_counts"),
    Fault("command line: the other end of an interval", "TermEstimates.interval", rename("percent", "95"),
          "cli/test_page.py::test_numbers_are_those_of_the_summary"),
]
