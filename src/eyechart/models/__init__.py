"""From a name, a file or an object to a model: stimulus in, class scores out; defenses.

The evaluation loop and the mapping of labels are not part of this package.
"""
