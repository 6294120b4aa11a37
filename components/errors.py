"""The errors that a user may meet: each says what came, what is allowed and how to mend it.

The command line prints these as one line and exits with 1 (`UsageError`: 2); anything else is a defect of
Quintet and keeps its traceback.
"""


class QuintetError(Exception):
    """Base of every error that is the input's fault, not the program's."""


class UsageError(QuintetError):
    """A command was called with an argument that does not exist or does not fit."""


class ConfigError(UsageError):
    """A configuration has an unknown key, a missing key, or a value out of range."""


class DataError(QuintetError):
    """A data file is absent, short, of another content than the catalogue says, or not in its format."""


class GateError(QuintetError):
    """A gate refused what it was given. `findings` holds one line per refusal, the first in the message."""

    def __init__(self, message: str, findings: tuple[str, ...] = ()):
        super().__init__(message)
        self.findings = findings or (message,)


class DataGateError(GateError):
    """A prepared table or array failed its quality suite."""


class ModelGateError(GateError):
    """A trained model is not finite, learned nothing, or is in poor health."""


class CollapseError(ModelGateError):
    """Prototypes, codes or representations have collapsed."""


class ParityError(GateError):
    """An exported model does not answer as the trained one does."""


class NonFiniteError(QuintetError):
    """Training met a loss or a gradient that is not finite and was stopped."""


class BudgetError(QuintetError):
    """A training took longer than it may."""


class ComparisonError(QuintetError):
    """The runs of a study cannot be compared: some are missing, or they differ in what the study does not declare."""


class LockedError(QuintetError):
    """Another run holds this checkout."""


class TrackingError(QuintetError):
    """The tracking store is of a refused kind or cannot be reached."""


class RecordError(QuintetError):
    """A run record or its history is malformed, or two records of one run contradict each other."""


class BundleError(QuintetError):
    """A bundle is incomplete, or a file in it is not the one its manifest names."""


class ServingError(QuintetError):
    """The serving environment cannot be made, or a server cannot be started in it."""
