"""Laravel from Debian's packages in worker mode, by the contract of Octane's script for FrankenPHP."""

from compare import Mask
from resident import Framework

MASKS = (
    Mask(rb"(?<=\w{3}, )\d\d \w{3} \d{4} \d\d:\d\d:\d\d", "dates"),
    Mask(rb"(?<=Max-Age=)\d+", "seconds until the end of a cookie"),
)


def run(session):
    """All of Laravel's steps."""
    Framework(session, "laravel", MASKS, worker={"script": "frankenphp-worker.php", "warm_up": "/"},
              environment={"LARAVEL_OCTANE": "1"}).run()
