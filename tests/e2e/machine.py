"""Requirements of the machine: packages, the browser driver, a plain user."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from peers import Unusable, php, plain_user  # noqa: E402, F401

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".build" / "e2e-venv"
REQUIREMENTS = Path(__file__).resolve().parent / "requirements.txt"

# Packages for all applications; libphpX.Y-embed has the PHP of Howdah.
COMMON = ("libphpX.Y-embed", "phpX.Y-opcache", "phpX.Y-xml", "phpX.Y-mbstring")
# The applications in a browser, their extensions of PHP, the server for comparison, and their database.
IN_BROWSER = (
    "wordpress", "wordpress-theme-twentytwentythree", "dokuwiki", "adminer",
    "phpX.Y-mysql", "phpX.Y-gd", "phpX.Y-curl", "phpX.Y-fpm",
    "apache2", "libapache2-mod-phpX.Y", "mariadb-server-core", "chromium",
)
# Those of further applications in a browser.
PACKAGES = {
    "mediawiki": ("mediawiki", "phpX.Y-cli", "phpX.Y-sqlite3", "phpX.Y-intl"),
    "phpmyadmin": ("dbconfig-no-thanks", "phpmyadmin"),
    "roundcube": ("dbconfig-no-thanks", "roundcube-sqlite3", "roundcube-core", "phpX.Y-intl"),
    "shaarli": ("shaarli", "phpX.Y-intl"),
    "simplesamlphp": ("simplesamlphp",),
    "ttrss": ("dbconfig-no-thanks", "tt-rss", "mariadb-client-core", "phpX.Y-intl"),
    "phpliteadmin": ("phpliteadmin", "phpX.Y-sqlite3"),
}
FRAMEWORKS = {
    "symfony": ("php-symfony-framework-bundle", "php-symfony-runtime", "php-symfony-twig-bundle",
                "php-symfony-security-bundle", "php-symfony-mime", "php-symfony-yaml"),
    "laravel": ("php-laravel-framework",),
    "slim": ("php-slim", "php-guzzlehttp-psr7"),
}


def give_up(message):
    """Ends the run because no test can run."""
    print(message, file=sys.stderr)
    sys.exit(2)


def prepare(applications):
    """Installs missing packages. Returns whether a browser is needed."""
    packages = list(COMMON)
    browser = any(name not in FRAMEWORKS for name in applications)
    if browser:
        packages += IN_BROWSER
        try:
            import ensurepip  # noqa: F401 - Debian ships it apart from Python
        except ImportError:
            packages.append("python3-venv")
    for name in applications:
        packages += FRAMEWORKS.get(name, ()) or PACKAGES.get(name, ())
    if subprocess.run([ROOT / "tools" / "require.sh", *packages], check=False).returncode:
        give_up("The packages above are needed.")
    if browser:
        install_driver()
    return browser


def install_driver():
    """Installs the browser driver into its environment, unless it is there."""
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    stamp = ENVIRONMENT / "installed"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    print(f"Installing the browser driver into {ENVIRONMENT.relative_to(ROOT)}", file=sys.stderr)
    # An environment that an interrupted run left half made is not worth repairing.
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    pip = [ENVIRONMENT / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*pip, "-r", REQUIREMENTS], check=False).returncode:
        give_up("The browser driver could not be installed; see pip's message above.")
    stamp.write_text(wanted)


def enter_environment():
    """Continues inside the Python environment that has the browser driver."""
    if Path(sys.prefix) == ENVIRONMENT:
        return
    python = ENVIRONMENT / "bin" / "python"
    sys.stdout.flush()
    os.execv(python, [python, *sys.argv])


def give_away(path):
    """Makes the servers' user the owner of a tree, so that applications can write in it."""
    user = plain_user()
    if user:
        subprocess.run(["chown", "-R", f"{user}:{user}", path], check=True)
