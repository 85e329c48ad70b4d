"""Loggers: store results with MLflow, Weights & Biases or TensorBoard.

`registry` declares them, `log_record` selects what is logged, and one module each stores it.
"""
