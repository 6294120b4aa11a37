"""The errors of this package. Each message is one sentence: what came, what is allowed, how to mend it."""


class ServingError(Exception):
    """Nothing can be served; the command prints the message as one line and exits with 1."""


class BundleError(ServingError):
    """The bundle is incomplete, or a file in it is not the one that its manifest names."""


class ProviderError(ServingError):
    """ONNX Runtime is not installed properly, or does not run on the device that was asked for."""


class RequestError(Exception):
    """A request does not fit the schema; the client gets the message with a 4xx status."""
