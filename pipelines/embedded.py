"""Prefect's temporary server, kept out of the way of what a terminal sends.

Where `quintet up` has started no server, Prefect starts one for a flow, in the flow's own process group. Ctrl-C in a
terminal goes to the whole group: the server would end before the flow, and the flow would wait a minute for it and then
die with a traceback, instead of saying that it was interrupted. In a session of its own the server ends when the flow
stops it, or by the watchman's hand.
"""

import functools
import subprocess
from types import SimpleNamespace


def start_server_apart() -> None:
    """Let Prefect start its temporary server in a session of its own; call it before the flow."""
    from prefect.server.api import server

    # Prefect has no setting for it. Only its own view of the module is another one, and a test holds the effect.
    popen = functools.partial(subprocess.Popen, start_new_session=True)
    vars(server)["subprocess"] = SimpleNamespace(**{**vars(subprocess), "Popen": popen})
