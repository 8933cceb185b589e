<?php

declare(strict_types=1);

namespace Howdah\Demo;

/**
 * What the client asked for: the one place that reads the superglobals.
 *
 * Everything in here is a stranger's word. A value of the wrong shape (`page[]=1` where a text is
 * expected) counts as absent.
 */
final class Request
{
    /**
     * @param array<array-key, mixed> $query
     * @param array<array-key, mixed> $post
     * @param array<array-key, mixed> $files
     * @param array<array-key, mixed> $server
     */
    public function __construct(
        public readonly string $method,
        public readonly string $path,
        private readonly array $query,
        private readonly array $post,
        private readonly array $files,
        public readonly array $server,
    ) {
    }

    public static function fromGlobals(): self
    {
        $method = strtoupper((string) ($_SERVER['REQUEST_METHOD'] ?? 'GET'));

        return new self($method, self::pathOf((string) ($_SERVER['REQUEST_URI'] ?? '/')), $_GET, $_POST, $_FILES, $_SERVER);
    }

    public function isRead(): bool
    {
        return $this->method === 'GET' || $this->method === 'HEAD';
    }

    public function query(string $name): string
    {
        return self::text($this->query, $name);
    }

    public function post(string $name): string
    {
        return self::text($this->post, $name);
    }

    public function server(string $name): string
    {
        return self::text($this->server, $name);
    }

    /**
     * An uploaded file as PHP describes it, or null when the field is absent, empty or a list.
     *
     * @return array{tmp_name: string, size: int, error: int}|null
     */
    public function file(string $name): ?array
    {
        $file = $this->files[$name] ?? null;
        if (!is_array($file) || !is_int($file['error'] ?? null) || $file['error'] === UPLOAD_ERR_NO_FILE) {
            return null;
        }

        return ['tmp_name' => (string) $file['tmp_name'], 'size' => (int) $file['size'], 'error' => $file['error']];
    }

    /** PHP drops a form that is larger than post_max_size, silently: the body was there, the fields are not. */
    public function wasTooLargeForPhp(): bool
    {
        return $this->method === 'POST' && $this->post === [] && $this->files === []
            && (int) $this->server('CONTENT_LENGTH') > 0
            && str_starts_with(strtolower($this->server('CONTENT_TYPE')), 'multipart/form-data');
    }

    /** Scheme and authority for absolute links. A Host header that is none is replaced by the server's name. */
    public function origin(): string
    {
        $host = $this->server('HTTP_HOST');
        if (preg_match('/\A(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?\z/', $host) !== 1) {
            $name = $this->server('SERVER_NAME');
            $host = preg_match('/\A[A-Za-z0-9._-]{1,253}\z/', $name) === 1 ? $name : 'localhost';
        }

        return ($this->isSecure() ? 'https://' : 'http://') . $host;
    }

    public function isSecure(): bool
    {
        $https = strtolower($this->server('HTTPS'));

        return $https !== '' && $https !== 'off';
    }

    /** The address' path, decoded once. Bytes that are no UTF-8, and control characters, make it empty: no such page. */
    private static function pathOf(string $uri): string
    {
        $uri = preg_replace('~\Ahttps?://[^/?#]*~i', '', $uri) ?? '';
        $path = rawurldecode(substr($uri, 0, strcspn($uri, '?#')));

        return preg_match('/\A[^\p{Cc}]*\z/u', $path) === 1 ? $path : '';
    }

    /** @param array<array-key, mixed> $from */
    private static function text(array $from, string $name): string
    {
        $value = $from[$name] ?? '';

        return is_scalar($value) ? (string) $value : '';
    }
}
