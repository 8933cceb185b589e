<?php
/**
 * Translates what Laravel Octane passes to FrankenPHP (its environment and a Caddyfile) to a document of Howdah.
 *
 * A Caddyfile is not interpreted: statements other than those of Octane's own file are refused, so that none is
 * ignored silently.
 */
declare(strict_types=1);

/** Bytes of a Caddyfile that are read. */
const MAX_CADDYFILE_BYTES = 1 << 20;
/** Name of the application in the document of `howdah serve --print-config`. */
const APPLICATION = 'site';
/** Seconds for requests in progress when the server ends, if requests have no time limit. */
const DEFAULT_GRACE = 30;
/** Variables that are settings of this program or of its parents, not of the application. */
const OWN_VARIABLES = '/^(CADDY_.*|HOWDAH_.*|LISTEN_.*|WATCHDOG_.*|NOTIFY_SOCKET|HOME|USER|LOGNAME|PWD|OLDPWD|SHLVL|_)$/';
/** Watched if Octane names no paths; FrankenPHP watches the whole project then. */
const DEFAULT_WATCH = ['app', 'bootstrap', 'config', 'database', 'resources', 'routes', '.env'];
/**
 * Statements of the Caddyfiles of Octane's releases, each after the blocks around it. The document has the same
 * effect, but for `@static`: missing files are answered by the application, as in older releases of Octane.
 */
const KNOWN_STATEMENTS = <<<'END'
    ~^global/(\{\$CADDY_GLOBAL_OPTIONS\}
    |admin\ (localhost|\{\$CADDY_SERVER_ADMIN_HOST\}):\{\$CADDY_SERVER_ADMIN_PORT\}
    |frankenphp/worker\ "\{\$APP_PUBLIC_PATH\}/frankenphp-worker\.php"\ \{\$CADDY_SERVER_WORKER_COUNT\}
    |frankenphp/worker/(file\ "\{\$APP_PUBLIC_PATH\}/frankenphp-worker\.php"
    |\{\$CADDY_SERVER_(WORKER|WATCH)_DIRECTIVES?\}))$
    |^\{\$CADDY_EXTRA_CONFIG\}$
    |^\{\$CADDY_SERVER_SERVER_NAME\}/(log/(level\ \{\$CADDY_SERVER_LOG_LEVEL\}
    |format\ filter/(wrap\ \{\$CADDY_SERVER_LOGGER\}|fields/uri\ query/replace\ authorization\ REDACTED))
    |route/(root\ \*\ "\{\$APP_PUBLIC_PATH\}"|encode(\ (zstd|br|gzip))+|\{\$CADDY_SERVER_EXTRA_DIRECTIVES\}
    |php_server/(index\ frankenphp-worker\.php|try_files\ \{path\}\ frankenphp-worker\.php|resolve_root_symlink)
    |@static/path\ .*|file_server\ @static|handle_errors/(header\ Content-Type|respond)\ .*))$~x
    END;

/** A request that cannot be fulfilled; the message is for the user. */
final class Refusal extends RuntimeException {}

/** The settings that Octane passes, translated to arguments and members of a document. */
final class Settings
{
    public string $program, $base, $public, $warmUp;
    public int $maxRequests, $maxSeconds, $adminPort;
    public bool $logsRequests;
    /** Options of `howdah serve`; paths to watch; addresses; warnings. */
    public array $arguments = ['--worker'], $watch = [], $adminHosts = ['127.0.0.1', '[::1]'], $notes = [];
    private array $unsupported = [];

    public function __construct(private array $environment, string $caddyfile)
    {
        $this->program = find_program('howdah', $this->text('PATH'));
        $this->base = $this->directory('APP_BASE_PATH');
        $this->public = $this->directory('APP_PUBLIC_PATH');
        $this->readCaddyfile($caddyfile);
        $this->readAddress($this->text('CADDY_SERVER_SERVER_NAME'));
        $this->readWorkers();
        $this->readAdmin();
        $this->warmUp = $this->text('HOWDAH_WARM_UP');
        if ($extra = $this->text('CADDY_SERVER_EXTRA_DIRECTIVES')) {
            $this->unsupported[] = str_starts_with($extra, 'mercure')
                ? 'Mercure ("mercure" in config/octane.php)' : 'the directives in CADDY_SERVER_EXTRA_DIRECTIVES';
        }
        if (!in_array($this->text('CADDY_SERVER_LOGGER'), ['', 'json'], true)) {
            $this->unsupported[] = 'the format of the log in CADDY_SERVER_LOGGER';
        }
        foreach (['CADDY_EXTRA_CONFIG', 'FRANKENPHP_CONFIG'] as $name) {
            if ($this->text($name) !== '') {
                $this->unsupported[] = "the configuration in $name";
            }
        }
        if ($this->unsupported) {
            throw new Refusal('Howdah cannot take over from FrankenPHP: ' . implode('; ', $this->unsupported)
                . '. Remove this, or write a document for "howdah serve --config" in place of Octane\'s command.');
        }
    }

    /** The environment of the application: as under FrankenPHP, that of this process. */
    public function applicationEnvironment(): array
    {
        $kept = array_filter($this->environment, fn ($value, $name) => is_string($name) && preg_match('/^\w+$/', $name)
            && !preg_match(OWN_VARIABLES, $name) && preg_match('//u', $value), ARRAY_FILTER_USE_BOTH);
        // The worker script stops at this number; 0 is no limit for Howdah, but for the script no request at all.
        return ['MAX_REQUESTS' => (string) ($this->maxRequests ?: PHP_INT_MAX), 'LARAVEL_OCTANE' => '1'] + $kept;
    }

    /** The environment of the server itself. */
    public function serverEnvironment(): array
    {
        $kept = array_filter($this->environment, fn ($name) => !preg_match('/^(CADDY|HOWDAH|LISTEN|WATCHDOG)_|^NOTIFY_SOCKET$/',
            (string) $name), ARRAY_FILTER_USE_KEY);
        return ['HOWDAH_LOG_FORMAT' => 'json'] + $kept;
    }

    private function text(string $name): string
    {
        return trim((string) ($this->environment[$name] ?? ''));
    }

    private function number(string $name, int $default, int $max): int
    {
        $value = $this->text($name);
        if ($value !== '' && (!preg_match('/^\d{1,9}$/', $value) || (int) $value > $max)) {
            throw new Refusal("$name is \"$value\"; a number from 0 to $max is expected.");
        }
        return $value === '' ? $default : (int) $value;
    }

    private function directory(string $name): string
    {
        $path = $this->text($name);
        if (!str_starts_with($path, '/') || !is_dir($path)) {
            throw new Refusal("$name is \"$path\"; the path of a directory is expected. "
                . 'Octane sets it: php artisan octane:start --server=frankenphp.');
        }
        return $path;
    }

    /** Octane passes "http://:PORT", without the host, or "https://HOST:PORT". */
    private function readAddress(string $name): void
    {
        if (!preg_match('~^(https?)://([A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?/?$~', $name, $part)) {
            throw new Refusal("CADDY_SERVER_SERVER_NAME is \"$name\"; http://:PORT or https://HOST:PORT is expected.");
        }
        [, $scheme, $host] = $part;
        $port = (int) ($part[3] ?? ($scheme === 'https' ? 443 : 80));
        $listen = ['--listen', $this->text('HOWDAH_LISTEN') ?: "*:$port"];
        // As Caddy: a local authority signs for addresses and local names, Let's Encrypt for the others.
        $isAddress = (bool) preg_match('/^([\d.]*|\[.*)$/', $host);
        $isLocal = !str_contains($host, '.') || preg_match('/^[\d.]+$|\.(localhost|local|internal|home\.arpa|test)$/i', $host);
        if ($scheme === 'http') {
            array_push($this->arguments, ...$listen);
            if ($host !== '') {
                $this->unsupported[] = "a site for the host $host alone over http";
            }
        } elseif ($this->text('CADDY_GLOBAL_OPTIONS') !== '') { // "auto_https disable_redirects"
            array_push($this->arguments, ...$listen, ...($isLocal ? ['--tls'] : []), ...($isAddress ? [] : ['--domain', $host]));
        } elseif (!$isLocal && $port === 443) {
            array_push($this->arguments, '--domain', $host); // redirects from port 80
        } else {
            $this->unsupported[] = '--http-redirect, unless the host is a public name and the port 443';
        }
    }

    private function readWorkers(): void
    {
        $directive = $this->text('CADDY_SERVER_WORKER_DIRECTIVE');
        if (!preg_match('/^(?:num\s+(\d+))?$/', $directive, $number)) {
            throw new Refusal("CADDY_SERVER_WORKER_DIRECTIVE is \"$directive\"; \"num NUMBER\" is expected.");
        }
        $this->environment['CADDY_SERVER_WORKER_COUNT'] = $number[1] ?? $this->text('CADDY_SERVER_WORKER_COUNT');
        if ($workers = $this->number('CADDY_SERVER_WORKER_COUNT', 0, 4096)) {
            array_push($this->arguments, '--workers', (string) $workers);
        }
        $this->maxRequests = $this->number('MAX_REQUESTS', 500, 999_999_999);
        $this->maxSeconds = $this->number('REQUEST_MAX_EXECUTION_TIME', 0, 999_999);
        foreach (array_filter(array_map('trim', explode("\n", $this->text('CADDY_SERVER_WATCH_DIRECTIVES')))) as $line) {
            if (!preg_match('~^watch(?:\s+"?(/[^"]*?)"?)?$~', $line, $found)) {
                throw new Refusal("CADDY_SERVER_WATCH_DIRECTIVES has \"$line\"; \"watch PATH\" is expected.");
            }
            $paths = isset($found[1]) ? [$found[1]] : array_map(fn ($name) => "$this->base/$name", DEFAULT_WATCH);
            foreach ($paths as $path) {
                // Directories are watched with those below them, so the part before a pattern is enough.
                $path = rtrim(preg_replace('~/[^/]*[*?\[{].*$~s', '', $path), '/');
                if (file_exists($path)) {
                    $this->watch[] = $path;
                }
            }
        }
    }

    private function readAdmin(): void
    {
        $host = strtolower($this->text('CADDY_SERVER_ADMIN_HOST')) ?: 'localhost';
        if (!preg_match('/^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/', $host)) {
            throw new Refusal("CADDY_SERVER_ADMIN_HOST is \"$host\". The admin address has no password, so it must be of "
                . 'this machine: localhost, 127.0.0.1 or ::1.');
        } elseif ($host !== 'localhost') {
            $this->adminHosts = [str_contains($host, ':') ? '[::1]' : $host];
        }
        $this->adminPort = $this->number('CADDY_SERVER_ADMIN_PORT', 2019, 65535);
        $level = strtoupper($this->text('CADDY_SERVER_LOG_LEVEL')) ?: 'INFO';
        $this->logsRequests = $level === 'INFO' || $level === 'DEBUG';
    }

    private function readCaddyfile(string $path): void
    {
        $text = is_file($path) ? @file_get_contents($path, false, null, 0, MAX_CADDYFILE_BYTES) : false;
        if ($text === false) {
            throw new Refusal("The Caddyfile $path cannot be read.");
        }
        $blocks = $unknown = [];
        foreach (explode("\n", $text) as $index => $line) {
            $line = preg_replace('/\s+/', ' ', trim(preg_replace('/(^|\s)#.*$/', '', $line)));
            if ($line === '}') {
                array_pop($blocks);
            } elseif ($line === '{' || str_ends_with($line, ' {')) {
                $blocks[] = $line === '{' ? 'global' : substr($line, 0, -2);
            } elseif ($line !== '' && !preg_match(KNOWN_STATEMENTS, implode('/', [...$blocks, $line]))) {
                $unknown[] = sprintf('"%s" (line %d)', substr($line, 0, 80), $index + 1);
            }
        }
        $summary = "statements of the Caddyfile $path: " . implode(', ', array_slice($unknown, 0, 5))
            . (count($unknown) > 5 ? ' and ' . count($unknown) - 5 . ' more' : '');
        if ($unknown && str_ends_with($path, '/laravel/octane/src/Commands/stubs/Caddyfile')) {
            $this->notes[] = "Without effect under Howdah: $summary."; // a newer release of Octane
        } elseif ($unknown) {
            $this->unsupported[] = $summary;
        }
    }
}

function find_program(string $name, string $path): string
{
    foreach (explode(':', $path) as $directory) {
        if ($directory !== '' && is_file("$directory/$name") && is_executable("$directory/$name")) {
            return "$directory/$name";
        }
    }
    throw new Refusal("There is no program $name in PATH. Install Howdah, or add its directory to PATH.");
}

/** The document that `howdah serve DIR` would use, with the settings that its command line has no options for. */
function document(Settings $settings, Log $log): array
{
    $command = [$settings->program, 'serve', '--print-config', ...$settings->arguments, $settings->base];
    $environment = array_diff_key($settings->serverEnvironment(), ['HOWDAH_LOG_FORMAT' => '']);
    $process = proc_open($command, [['file', '/dev/null', 'r'], ['pipe', 'w'], ['pipe', 'w']], $pipes, $settings->base, $environment);
    $printed = stream_get_contents($pipes[1]);
    $messages = trim(stream_get_contents($pipes[2]));
    $document = proc_close($process) === 0 ? json_decode($printed, true) : null;
    $application = $document['applications'][APPLICATION] ?? null;
    $script = $application['worker']['script'] ?? '';
    if ($script !== 'frankenphp-worker.php') {
        throw new Refusal($messages ?: "$settings->base is no project with public/frankenphp-worker.php.");
    }
    if (realpath($application['root']) !== realpath($settings->public)) {
        throw new Refusal("The public directory is $settings->public; Howdah supports {$application['root']} only.");
    }
    if ($messages !== '') {
        $log->write('info', $messages);
    }
    $application['worker'] = array_filter(['script' => $script, 'requests' => $settings->maxRequests,
        'watch' => $settings->watch, 'warm_up' => $settings->warmUp], fn ($value) => $value !== [] && $value !== '');
    $application['environment'] += $settings->applicationEnvironment();
    if ($settings->maxSeconds > 0) {
        // The script's own limit counts processor time; this one is real time, as in FrankenPHP, and later.
        $application['limits']['timeout'] = $settings->maxSeconds + 1;
    }
    $document['applications'][APPLICATION] = $application;
    $document['settings']['shutdown_timeout'] = $settings->maxSeconds ?: DEFAULT_GRACE;
    $document['settings']['http']['compression'] = ['compressors' => array_map(
        fn ($encoding) => ['encoding' => $encoding, 'min_length' => 512], ['zstd', 'gzip'])];
    if ($settings->logsRequests) {
        $document['access_log'] = ['path' => '/dev/stdout', 'format' => ['method' => '$method', 'uri' => '$request_uri',
            'host' => '$host', 'remote' => '$remote_addr', 'status' => '$status', 'duration' => '$request_time',
            'size' => '$body_bytes_sent']];
    }
    return $document;
}
