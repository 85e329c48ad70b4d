"""Visual information fidelity in three definitions.

From an image to a number: `filters`, `pyramid` (number of scales), `mixture` (model of the clean
image), `channel` (model of the corruption), `fidelity` (information left). `definitions` are the
variants in use, `pixel` is the one without a pyramid, `rulers` gives each its name and version.
`statistics` of clean images are kept for all corruptions, `maps` show where information was lost.
The modules that end in `_triton` are the same computations as kernels for CUDA.
"""
