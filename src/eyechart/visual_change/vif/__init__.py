"""Visual information fidelity (VIF) in three definitions.

The modules in the order of the computation are `pyramid` (filters and subbands) and `fidelity`
(models of the clean image and of the corruption, and information left). `statistics` contains the
parameters of each definition, and stores statistics of clean images for all corruptions.
`rulers` gives each definition its name and version, computes the one without a pyramid, and maps
where information was lost. `vif_triton` has CUDA kernels for the same computations.
"""
