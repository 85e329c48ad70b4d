"""The names of the built-in tables of errors that CE divides by; `baseline_tables` has the tables.

Nothing slow is imported here: the command line lists them.
"""

ALEXNET, NOC_ALEXNET = "alexnet", "noc-alexnet"
ROBUSTBENCH_ALEXNET, ROBUSTBENCH_3DCC = "robustbench-alexnet", "robustbench-alexnet-3dcc"
BASELINES = (ALEXNET, NOC_ALEXNET, ROBUSTBENCH_ALEXNET, ROBUSTBENCH_3DCC)
