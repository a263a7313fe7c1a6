"""What an answer tells, whoever reads it: the standard answer must tell what the provider's own package reads."""

import dataclasses
import json


@dataclasses.dataclass
class Told:
    text: str = ""
    reasoning: str = ""
    calls: list = dataclasses.field(default_factory=list)  # (name, arguments)
    finish: str | None = None
    prompt: int = 0
    completion: int = 0

    def call(self, name, arguments):
        """A call, its arguments read from JSON text if they are text."""
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}")
            except ValueError:
                pass
        self.calls.append((name, {} if arguments is None else arguments))
