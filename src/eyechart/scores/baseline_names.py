"""Names of the built-in baseline tables for CE; the tables are in `baseline_tables`.

This module imports nothing slow, because the command line lists these names at every start.
"""

ALEXNET, NOC_ALEXNET = "alexnet", "noc-alexnet"
ROBUSTBENCH_ALEXNET, ROBUSTBENCH_3DCC = "robustbench-alexnet", "robustbench-alexnet-3dcc"
BASELINES = (ALEXNET, NOC_ALEXNET, ROBUSTBENCH_ALEXNET, ROBUSTBENCH_3DCC)
