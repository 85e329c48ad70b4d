"""What a TensorFlow Lite file computes before it rounds probabilities to steps of 1/256.

In such steps most classes get 0 and many answers are equally good; the logits, in 8 bits too, tell
them apart.
"""

from importlib import import_module
from typing import Any


def with_logits(content: bytes) -> bytes:
    """Return the file with the softmax's input for its output, if it ends with a softmax.

    Steps that only write numbers in another way may follow the softmax. Nothing else is changed,
    and the file has the same length.
    """
    schema: Any = import_module("ai_edge_litert.schema_py_generated")
    held = bytearray(content)
    model = schema.Model.GetRootAs(held, 0)
    graph = model.Subgraphs(0)
    made_by = {
        int(tensor): step
        for step in map(graph.Operators, range(graph.OperatorsLength()))
        for tensor in step.OutputsAsNumpy()
    }
    # A view: what is written here is written into the file.
    outputs = graph.OutputsAsNumpy()
    step = made_by.get(int(outputs[0]))
    while step is not None and _kind(model, step) == schema.BuiltinOperator.QUANTIZE:
        step = made_by.get(int(step.Inputs(0)))
    if step is None or _kind(model, step) != schema.BuiltinOperator.SOFTMAX:
        return content
    options = schema.SoftmaxOptions()
    table = step.BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    if options.Beta() != 1:
        return content
    outputs[0] = step.Inputs(0)
    return bytes(held)


def _kind(model: Any, step: Any) -> int:
    """Return which of TensorFlow Lite's operators a step is."""
    code = model.OperatorCodes(step.OpcodeIndex())
    # Old files have only the one, new files may have only the other.
    return max(int(code.BuiltinCode()), int(code.DeprecatedBuiltinCode()))
