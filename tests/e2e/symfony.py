"""Symfony from Debian's packages in worker mode, with the loop of its runner for FrankenPHP."""

from compare import Mask
from resident import Framework

MASKS = (
    Mask(rb"(?<=\w{3}, )\d\d \w{3} \d{4} \d\d:\d\d:\d\d", "dates"),
)


def run(session):
    """All of Symfony's steps."""
    Framework(session, "symfony", MASKS).run()
