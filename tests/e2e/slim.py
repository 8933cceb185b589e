"""Slim from Debian's packages in worker mode: a loop for PSR-7 messages, with PHP's own sessions."""

from compare import Accepted
from resident import Framework

ACCEPTED = (
    Accepted("^GET /disturb/broken-(buffer|header)$", "status 200",
             "the worker goes on after an exception in such a function, which is logged; its answer has begun"),
)


def run(session):
    """All of Slim's steps."""
    Framework(session, "slim", accepted=ACCEPTED).run()
