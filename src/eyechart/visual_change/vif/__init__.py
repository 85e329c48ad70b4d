"""Visual information fidelity (VIF) in three definitions.

The modules in the order of the computation are `filters`, `pyramid` (number of scales), `mixture`
(model of the clean image), `channel` (model of the corruption) and `fidelity` (information left).
`definitions` contains the parameters of each definition, `pixel` computes the definition without a
pyramid, and `rulers` gives each definition its name and version. `statistics` stores statistics of
clean images for all corruptions, and `maps` shows where information was lost. Modules that end in
`_triton` are CUDA kernels for the same computations.
"""
