"""Applications that can stay in memory: one that says hello, and those of tests/e2e/frameworks.

Each has `public/index.php` for the classic mode and a worker script beside it.
"""

import shutil
import subprocess
from pathlib import Path

import machine

SOURCES = Path(__file__).resolve().parents[1] / "tests/e2e/frameworks"
# Requirements of the worker mode of each.
WORKERS = {
    "hello": {"script": "worker.php"},
    "symfony": {"script": "worker.php"},
    "laravel": {"script": "frankenphp-worker.php", "warm_up": "/"},
}
ENVIRONMENT = {"laravel": {"LARAVEL_OCTANE": "1"}}
PACKAGES = {
    "symfony": ("php-symfony-framework-bundle", "php-symfony-runtime", "php-symfony-twig-bundle",
                "php-symfony-security-bundle", "php-symfony-mime", "php-symfony-yaml"),
    "laravel": ("php-laravel-framework",),
}
HELLO = {
    "index.php": "<?php echo 'Hello, world!';",
    "worker.php": "<?php while (frankenphp_handle_request(function () { echo 'Hello, world!'; }));",
}


def make(name, directory):
    """Writes an application below a directory; returns its root."""
    site = directory / f"framework-{name}"
    if site.exists():
        return site / "public"
    if name in PACKAGES:
        shutil.copytree(SOURCES / name, site)
        for path in (SOURCES / "shared").iterdir():
            shutil.copy(path, site)
        for kept in ("sessions", "cache", "views"):
            (site / "var" / kept).mkdir(parents=True)
    else:
        (site / "public").mkdir(parents=True)
        for file, text in HELLO.items():
            (site / "public" / file).write_text(text)
    if user := machine.plain_user():
        subprocess.run(["chown", "-R", f"{user}:{user}", site], check=True)
    # Fills the framework's caches, as a deployment does. A process that compiles them itself keeps the compiler.
    as_user = ["runuser", "-u", user, "--"] if user else []
    subprocess.run([*as_user, f"php{machine.php()}", "index.php"], cwd=site / "public", stdout=subprocess.DEVNULL, check=True)
    return site / "public"
