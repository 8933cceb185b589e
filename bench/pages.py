"""The site that is served: files of three sizes, scripts from trivial to busy, and a certificate for it."""

import subprocess

TEMPLATE = r"""<?php
// A page as template engines make it: records are sorted, grouped, escaped and formatted.
function records(int $count): array
{
    $records = [];
    $seed = 42;
    for ($i = 0; $i < $count; $i++) {
        $seed = ($seed * 1103515245 + 12345) & 0x7fffffff;
        $records[] = [
            'id' => $i,
            'name' => 'Traveller <' . dechex($seed) . '> & company',
            'group' => $seed % 7,
            'price' => ($seed % 100000) / 100,
            'text' => str_repeat(md5((string) $seed) . ' ', 3),
        ];
    }
    return $records;
}

function row(array $record): string
{
    return strtr("<tr class=\"g{group}\"><td>{id}</td><td>{name}</td><td>{price}</td><td>{text}</td></tr>\n", [
        '{id}' => $record['id'],
        '{group}' => $record['group'],
        '{name}' => htmlspecialchars(ucwords($record['name'])),
        '{price}' => number_format($record['price'], 2),
        '{text}' => wordwrap(htmlspecialchars($record['text']), 40, '<br>'),
    ]);
}

$records = records(150);
usort($records, fn ($a, $b) => [$a['group'], $b['price']] <=> [$b['group'], $a['price']]);
$groups = [];
foreach ($records as $record) {
    $groups[$record['group']][] = row($record);
}
echo "<!DOCTYPE html>\n<html lang=\"en\">\n<head><title>Caravan</title></head>\n<body>\n";
foreach ($groups as $number => $rows) {
    printf("<h2>Group %d</h2>\n<table>\n%s</table>\n", $number, implode('', $rows));
}
echo "</body>\n</html>\n";
"""

SCRIPTS = {
    "hello.php": "<?php echo 'Hello, world!';",
    "info.php": "<?php phpinfo();",
    "page.php": TEMPLATE,
    "wait10.php": "<?php usleep(10000); echo 'Hello, world!';",
    "wait5.php": "<?php usleep(5000); echo 'Hello, world!';",
}

FILES = {"small.txt": 13, "medium.bin": 100 * 1024, "large.bin": 1024 * 1024}

# The same settings for every PHP; all others have PHP's default.
PHP_INI = """expose_php = On
error_reporting = E_ALL
display_errors = Off
log_errors = On
memory_limit = 128M
output_buffering = 4096
realpath_cache_size = 4096K
opcache.enable = 1
opcache.memory_consumption = 128
opcache.max_accelerated_files = 10000
opcache.revalidate_freq = 2
session.gc_probability = 0
date.timezone = UTC
"""


def filler(size):
    """Bytes that are the same in every run and do not repeat within a page."""
    if size == 13:
        return b"Hello, world!"
    return b"".join(f"{number:015}\n".encode() for number in range(size // 16 + 1))[:size]


def make(directory):
    """Writes the site; returns its root and its php.ini."""
    root = directory / "site"
    root.mkdir()
    for name, text in SCRIPTS.items():
        (root / name).write_text(text)
    for name, size in FILES.items():
        (root / name).write_bytes(filler(size))
    settings = directory / "php"
    settings.mkdir()
    (settings / "php.ini").write_text(PHP_INI)
    certify(settings)
    return root, settings / "php.ini"


def certify(directory):
    """Makes a certificate with an ECDSA key (P-256), and its key."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "7",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", directory / "key.pem", "-out", directory / "certificate.pem"], check=True, capture_output=True)


WORDPRESS_RULES = r"""<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>
"""


def make_nested_rules(directory):
    """A site with a `.htaccess` file in its root and in each of four nested directories."""
    root = below = directory / "nested-rules"
    root.mkdir()
    for name in ("root", "a", "b", "c", "d"):
        if name != "root":
            below = below / name
            below.mkdir()
        (below / ".htaccess").write_text(f'Header set X-Directory-{name} "1"\n')
    (below / "small.txt").write_bytes(b"Hello, world!")
    return root
