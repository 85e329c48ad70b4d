"""From a name, a file or an object to a model: stimulus in, class scores out; defences.

No evaluation loop and no label mapping.
"""
