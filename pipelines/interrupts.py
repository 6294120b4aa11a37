"""Interrupts that arrive: what a script starts in the background is deaf to them, and so are all its children."""

import signal


def take_interrupts() -> None:
    """Take SIGINT where whoever started this process had it ignored, as a script's `quintet run &` does.

    A run is ended by interrupting DVC, which then gives back what it held; where that is ignored, DVC has to be killed
    and leaves its locks behind. Call it in the main thread, before children are started: they inherit what is ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
