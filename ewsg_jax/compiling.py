"""How much XLA optimises: a small program takes longer to compile than most people ever run it.

Measured on two cores of a CPU, steps that touch 2,700 to 80,000 numbers: the loop of a run compiles in 0.4 s for
1.2 to 2.3 (jaxlib 0.10), 0.4 to 0.7 for 1.6 to 7 (0.12). A step then takes 0.6 to 1.2 times as long, in the median
1.03 (1.08): what is saved is lost after millions of steps. Steps of hundreds of chains or of a network take 1.1 to
1.3 times as long, and soon lose it.
"""

from jaxlib.version import __version__ as version

Options = dict[str, bool | int | str]

UNOPTIMISED: Options = {"xla_backend_optimization_level": 0}
"""For small programs that are run once. A step takes six times as long."""
QUICK: Options = {"xla_backend_optimization_level": 1}
"""For small programs that are run often."""
if version.startswith("0.10."):
    # It has a second way to write fused loops; a version that has not raises an error.
    QUICK["xla_cpu_use_fusion_emitters"] = False
