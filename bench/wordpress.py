"""WordPress from Debian's package with a MariaDB of its own, installed and filled without a browser."""

import os
import shutil
import subprocess
from pathlib import Path

import machine
from processes import Unusable

from peers.mariadb import MariaDb

SOURCE = Path("/usr/share/wordpress")
# Its scheduler must not start requests of its own, and it must not contact other people's servers.
CONFIGURATION = """<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'bench');
define('DB_PASSWORD', 'bench');
define('DB_HOST', 'localhost:{socket}');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('AUTH_KEY', 'a');
define('SECURE_AUTH_KEY', 'b');
define('LOGGED_IN_KEY', 'c');
define('NONCE_KEY', 'd');
define('AUTH_SALT', 'e');
define('SECURE_AUTH_SALT', 'f');
define('LOGGED_IN_SALT', 'g');
define('NONCE_SALT', 'h');
// Behind Debian's nginx the host comes without its port.
$_SERVER['HTTP_HOST'] = '127.0.0.1:' . ($_SERVER['SERVER_PORT'] ?? 80);
define('WP_HOME', 'http://' . $_SERVER['HTTP_HOST']);
define('WP_SITEURL', WP_HOME);
define('DISABLE_WP_CRON', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_DEBUG', false);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) {{
    define('ABSPATH', __DIR__ . '/');
}}
require_once ABSPATH . 'wp-settings.php';
"""

INSTALLER = r"""<?php
define('WP_INSTALLING', true);
$_SERVER['HTTP_HOST'] = '127.0.0.1';
$_SERVER['REQUEST_URI'] = '/';
$_SERVER['SERVER_SOFTWARE'] = 'Apache';
require __DIR__ . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
add_filter('pre_wp_mail', '__return_true');
wp_install('The Caravan', 'mahout', 'mahout@example.org', true, '', 'eleven quiet elephants');
global $wp_rewrite;
$wp_rewrite->set_permalink_structure('/%postname%/');
$wp_rewrite->flush_rules(false);
$text = str_repeat('<p>We left before sunrise, and by noon the wind had drawn new lines across the sand.</p>', 12);
for ($i = 1; $i <= 20; $i++) {
    wp_insert_post([
        'post_title' => "Day $i of the caravan", 'post_name' => "day-$i", 'post_content' => $text,
        'post_status' => 'publish', 'post_date' => sprintf('2025-03-%02d 08:00:00', $i), 'post_author' => 1,
    ]);
}
echo 'installed';
"""

# The requests of a visitor's browser while walking through the site.
ADDRESSES = ("/", "/day-1/", "/day-7/", "/day-20/", "/2025/03/", "/?s=sand", "/feed/",
             "/wp-includes/css/dist/block-library/style.min.css", "/wp-includes/js/jquery/jquery.min.js",
             "/wp-includes/images/w-logo-blue.png")


class WordPress:
    """An installed site and its database."""

    def __init__(self, directory):
        directory.mkdir()
        self.database = self.start_database(directory)
        try:
            self.root = directory / "site"
            # The package has links to other packages; servers should find plain files.
            shutil.copytree(SOURCE, self.root, ignore_dangling_symlinks=True,
                            ignore=shutil.ignore_patterns("wp-config.php", ".htaccess"))
            (self.root / "wp-config.php").write_text(CONFIGURATION.format(socket=self.socket))
            installer = self.root / "install-bench.php"
            installer.write_text(INSTALLER)
            done = subprocess.run([f"php{machine.php()}", "-d", "display_errors=stderr", installer], cwd=self.root,
                                  capture_output=True, text=True, check=False)
            installer.unlink()
            if not done.stdout.endswith("installed"):
                raise Unusable(f"WordPress cannot be installed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        except BaseException:
            self.stop()
            raise

    def start_database(self, directory):
        """MariaDB with its data, socket and log below a directory."""
        database = MariaDb(directory, ["wordpress"], "bench", "bench",
                           ["--innodb-buffer-pool-size=256M", "--max-connections=400"])
        self.socket = database.socket
        return database.process

    def pids(self):
        """The database's processes, which serve every server alike."""
        return [self.database.child.pid] if os.path.exists(f"/proc/{self.database.child.pid}") else []

    def stop(self):
        """Ends the database."""
        self.database.stop()
