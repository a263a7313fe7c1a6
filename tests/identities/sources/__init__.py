"""What is asked of each library. Each module has `SOURCES`: names with a `Source`."""

import dataclasses
import datetime
import typing

# The instant of all signatures of AWS, so that they are the same in each run.
CLOCK = datetime.datetime(2026, 11, 30, 12, 0, 0, tzinfo=datetime.timezone.utc)


@dataclasses.dataclass
class Source:
    """A library's source of an identity, and what it finds around it.

    `obtain` gets the folder with `files`, and returns what the library obtained: a `dict`, `expires_at` in seconds since 1970.
    In `environment` and `files`, `<folder>` is that folder.
    """

    library: str
    about: str
    obtain: typing.Callable
    answers: dict
    environment: dict = dataclasses.field(default_factory=dict)
    files: dict = dataclasses.field(default_factory=dict)
    # What is given to the library by its arguments.
    arguments: dict = dataclasses.field(default_factory=dict)
    # Whether a request is signed with AWS's signature, at `CLOCK`.
    signed: bool = False
