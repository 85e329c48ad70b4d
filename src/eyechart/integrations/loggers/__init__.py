"""Loggers: store results with MLflow, Weights & Biases or TensorBoard.

`registry` declares the loggers, `log_results` selects what is logged, and each logger has a module
that stores it.
"""
