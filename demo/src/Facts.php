<?php

declare(strict_types=1);

namespace Howdah\Demo;

/**
 * What can be said about the server and the worker behind it without helping anybody to break in:
 * no paths, no environment, no credentials, only variables named here.
 */
final class Facts
{
    /** @param array{requests: int, since: int} $worker */
    public function __construct(private readonly Request $request, private readonly array $worker)
    {
    }

    /** @return array<string, mixed> for programs */
    public function all(): array
    {
        return [
            'server' => $this->request->server('SERVER_SOFTWARE'),
            'protocol' => $this->request->server('SERVER_PROTOCOL'),
            'request_id' => $this->requestId(),
            'php' => PHP_VERSION,
            'sapi' => PHP_SAPI,
            'thread_safe' => PHP_ZTS === 1,
            'pid' => getmypid(),
            'requests' => $this->worker['requests'],
            'worker_since' => gmdate(DATE_ATOM, $this->worker['since']),
            'memory' => memory_get_usage(),
            'memory_peak' => memory_get_peak_usage(),
            'seconds' => round(microtime(true) - $this->started(), 6),
            'opcache' => $this->opcache(),
        ];
    }

    /** @return array<string, array<string, string>> by heading, for people */
    public function sections(): array
    {
        $facts = $this->all();
        $cache = $facts['opcache'];

        return [
            'Server' => [
                'Software' => $facts['server'] ?: 'not told',
                'Protocol' => $facts['protocol'] ?: 'not told',
                'Request id' => $facts['request_id'] ?? 'not given by this server',
                'Time until this line' => number_format($facts['seconds'] * 1000, 1) . ' ms',
            ],
            'Worker' => [
                'Process' => (string) $facts['pid'],
                'Requests answered' => number_format($facts['requests']),
                'At work since' => gmdate('j F Y, H:i:s', $this->worker['since']) . ' UTC',
                'Memory now' => bytes($facts['memory']),
                'Memory at most' => bytes($facts['memory_peak']),
            ],
            'PHP' => [
                'Version' => $facts['php'],
                'Interface (SAPI)' => $facts['sapi'],
                'Thread safe build' => $facts['thread_safe'] ? 'yes' : 'no',
                'Memory limit' => (string) ini_get('memory_limit'),
                'Largest upload' => bytes(PictureStore::limit()),
                'Pictures' => PictureStore::reencodes() ? 'checked and encoded anew (GD)' : 'checked, kept as sent (no GD)',
            ],
            'OPcache' => $cache['enabled'] ? [
                'State' => $cache['full'] ? 'on, but full' : 'on',
                'Hits' => number_format($cache['hits']),
                'Misses' => number_format($cache['misses']),
                'Hit rate' => number_format($cache['hit_rate'], 2) . ' %',
                'Scripts' => number_format($cache['scripts']),
                'Memory used' => bytes($cache['memory_used']),
                'JIT' => $cache['jit'] ? 'on' : 'off',
            ] : ['State' => $cache['reason']],
        ];
    }

    /** @return array<string, string> the named variables of `$_SERVER`, as the server set them for this request */
    public function variables(): array
    {
        $shown = [];
        foreach (self::VARIABLES as $name) {
            $value = $this->request->server[$name] ?? null;
            if (is_scalar($value)) {
                $shown[$name] = mb_strimwidth(mb_scrub((string) $value), 0, 200, '…');
            }
        }

        return $shown;
    }

    private function requestId(): ?string
    {
        foreach (['REQUEST_ID', 'UNIQUE_ID', 'HTTP_X_REQUEST_ID'] as $name) {
            if ($this->request->server($name) !== '') {
                return mb_strimwidth(mb_scrub($this->request->server($name)), 0, 128);
            }
        }

        return null;
    }

    private function started(): float
    {
        $time = $this->request->server['REQUEST_TIME_FLOAT'] ?? null;

        return is_numeric($time) ? (float) $time : microtime(true);
    }

    /** @return array<string, mixed> */
    private function opcache(): array
    {
        if (!function_exists('opcache_get_status')) {
            return ['enabled' => false, 'reason' => 'not installed'];
        }
        // Warns where opcache.restrict_api keeps it from scripts like this one.
        $status = @opcache_get_status(false);
        if (!is_array($status) || ($status['opcache_enabled'] ?? false) !== true) {
            return ['enabled' => false, 'reason' => is_array($status) ? 'off' : 'off, or not for this script to see'];
        }
        $statistics = $status['opcache_statistics'];

        return [
            'enabled' => true,
            'full' => (bool) $status['cache_full'],
            'hits' => (int) $statistics['hits'],
            'misses' => (int) $statistics['misses'],
            'hit_rate' => round((float) $statistics['opcache_hit_rate'], 2),
            'scripts' => (int) $statistics['num_cached_scripts'],
            'memory_used' => (int) $status['memory_usage']['used_memory'],
            'jit' => (bool) ($status['jit']['on'] ?? false),
        ];
    }

    private const VARIABLES = [
        'REQUEST_METHOD', 'REQUEST_URI', 'QUERY_STRING', 'SCRIPT_NAME', 'PATH_INFO', 'PHP_SELF', 'SERVER_PROTOCOL',
        'REQUEST_ID', 'REQUEST_SCHEME', 'HTTPS', 'SERVER_NAME', 'SERVER_PORT', 'SERVER_ADDR', 'REMOTE_ADDR', 'REMOTE_PORT',
        'GATEWAY_INTERFACE', 'HTTP_HOST', 'HTTP_USER_AGENT', 'HTTP_ACCEPT', 'HTTP_ACCEPT_LANGUAGE',
        'HTTP_ACCEPT_ENCODING', 'HTTP_CONNECTION', 'REQUEST_TIME_FLOAT',
    ];
}
