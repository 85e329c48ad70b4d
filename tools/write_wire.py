"""Writes the pages' types and their list of recruiters from what the server declares.

    .venv/bin/python tools/write_wire.py           # after a change of server/wire.py or recruiters/
    .venv/bin/python tools/write_wire.py --check   # status 1 if a file is not current

`frontend/src/wire.ts` has the bodies of requests and replies, `frontend/src/recruiters/index.ts`
the recruiters, each of which has a file of that name beside it.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from eyechart.experiment.recruiters import RECRUITERS
from eyechart.experiment.server.wire import REPLIES, REQUESTS

SOURCE = Path(__file__).parent.parent / "frontend" / "src"
HEAD = "// Written by tools/write_wire.py from the server's declarations: not to be edited here.\n"
PLAIN = {
    "string": "string", "integer": "number", "number": "number", "boolean": "boolean",
    "null": "null",
}  # fmt: skip

Schema = Mapping[str, object]


class WireSchema(GenerateJsonSchema):
    """Fields with a default need not be sent to the server, but always come from it."""

    def field_is_required(self, field: Schema, total: bool) -> bool:
        """Return whether a field is always there."""
        return self.mode == "serialization" or super().field_is_required(field, total)


def typescript(schema: Schema) -> str:
    """Return the TypeScript type that a JSON Schema describes."""
    match schema:
        case {"$ref": str(reference)}:
            return reference.rpartition("/")[2]
        case {"const": value}:
            return json.dumps(value)
        case {"enum": [*values]}:
            return " | ".join(json.dumps(value) for value in values)
        case {"anyOf": [*members]}:
            return " | ".join(typescript(member) for member in members)
        case {"type": "array", "items": dict(items)}:
            element = typescript(items)
            return f"({element})[]" if " " in element else f"{element}[]"
        case {"type": "object", "additionalProperties": dict(values)}:
            names = typescript({"type": "string", **schema.get("propertyNames", {})})
            record = f"Record<{names}, {typescript(values)}>"
            # of names that are listed, not every one has to be there
            return record if names == "string" else f"Partial<{record}>"
        case {"type": str(name)} if name in PLAIN:
            return PLAIN[name]
    raise NotImplementedError(f"no TypeScript for {schema}")


def comment(text: str, indent: str = "") -> str:
    """Return a text as a documentation comment."""
    line = " ".join(text.split())
    if len(indent) + len(line) <= 92:
        return f"{indent}/** {line} */\n"
    body = fill(line, 96, initial_indent=f"{indent} * ", subsequent_indent=f"{indent} * ")
    return f"{indent}/**\n{body}\n{indent} */\n"


def declaration(name: str, schema: Schema) -> str:
    """Return the declaration of a type: an object's, or a name for another one."""
    if "properties" not in schema:
        return f"export type {name} = {typescript(schema)};\n"
    required = schema.get("required", ())
    lines = [comment(schema["description"]), f"export interface {name} {{\n"]
    for field, inner in schema["properties"].items():
        if "description" in inner:
            lines.append(comment(inner["description"], "  "))
        lines.append(f"  {field}{'' if field in required else '?'}: {typescript(inner)};\n")
    return "".join([*lines, "}\n"])


def wire_text() -> str:
    """Return the whole of wire.ts."""
    models = [(model, "validation") for model in REQUESTS]
    models += [(model, "serialization") for model in REPLIES]
    _, schema = models_json_schema(models, schema_generator=WireSchema)
    parts = [HEAD]
    parts += [declaration(name, inner) for name, inner in schema["$defs"].items()]
    return "\n".join(parts)


def index_text() -> str:
    """Return the whole of recruiters/index.ts."""
    imports = [f'import {{ {name} }} from "./{name}";\n' for name in RECRUITERS]
    declared = []
    for recruiter in RECRUITERS.values():
        names = ", ".join(json.dumps(parameter) for parameter in recruiter.parameters)
        person = json.dumps(recruiter.person)
        declared.append(
            f"  {recruiter.name}: {{\n    ...{recruiter.name},\n    parameters: [{names}],\n"
            f"    person: {person},\n  }},\n"
        )
    return "".join(
        [
            HEAD,
            '\nimport type { Platform } from "../wire";\n',
            *imports,
            'import type { Declared, Recruiter } from "./recruiter";\n\n',
            comment("What the pages do for a recruiter, and what the server declares of it."),
            "export const RECRUITERS: Record<Platform, Recruiter & Declared> = {\n",
            *declared,
            "};\n",
        ]
    )


def outputs() -> Iterator[tuple[Path, str]]:
    """Yield each file with what it should hold."""
    yield SOURCE / "wire.ts", wire_text()
    yield SOURCE / "recruiters" / "index.ts", index_text()


def main(check: bool) -> int:
    """Write the files, or only look at them; return the exit status."""
    stale = [
        path for path, text in outputs() if not path.exists() or path.read_text("utf-8") != text
    ]
    if check:
        for path in stale:
            print(f"{path} is not current: run tools/write_wire.py.", file=sys.stderr)
        return int(bool(stale))
    for path, text in outputs():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
