<?php

declare(strict_types=1);

namespace Howdah\Demo;

/**
 * What the client gets: a status, headers, and a body that is either a text or a function that
 * writes it piece by piece.
 */
final class Response
{
    /** @param array<string, string> $headers */
    public function __construct(
        public readonly string|\Closure $body,
        private int $status = 200,
        private array $headers = [],
    ) {
    }

    public static function html(string $body, int $status = 200): self
    {
        // Pages carry the visitor's own token and messages: nobody may keep a copy.
        return new self($body, $status, ['Content-Type' => 'text/html; charset=utf-8', 'Cache-Control' => 'no-store']);
    }

    public static function json(mixed $value, int $status = 200): self
    {
        return new self(json($value), $status, ['Content-Type' => 'application/json', 'Cache-Control' => 'no-cache']);
    }

    /** After a form was accepted: the browser fetches $path, and a reload does not send the form again. */
    public static function seeOther(string $path): self
    {
        return new self('', 303, ['Location' => $path, 'Cache-Control' => 'no-store']);
    }

    public static function movedTo(string $path): self
    {
        return new self('', 301, ['Location' => $path]);
    }

    public function with(string $name, string $value): self
    {
        $copy = clone $this;
        $copy->headers[$name] = $value;

        return $copy;
    }

    public function withStatus(int $status): self
    {
        $copy = clone $this;
        $copy->status = $status;

        return $copy;
    }

    public function send(Request $request): void
    {
        $response = $this->orNotModified($request);
        http_response_code($response->status);
        header_remove('X-Powered-By');
        foreach ($response->headers + self::SECURITY as $name => $value) {
            header($name . ': ' . $value);
        }
        if ($response->body instanceof \Closure) {
            if ($request->method !== 'HEAD') {
                ($response->body)();
            }
        } else {
            echo $response->body;
        }
    }

    /** 304 when the client still has exactly this answer (RFC 9110, 13.1.2: weak comparison). */
    private function orNotModified(Request $request): self
    {
        $tag = $this->headers['ETag'] ?? '';
        $known = $request->server('HTTP_IF_NONE_MATCH');
        if ($tag === '' || $known === '' || $this->status !== 200 || !$request->isRead()) {
            return $this;
        }
        foreach (explode(',', $known) as $candidate) {
            $candidate = trim($candidate);
            if ($candidate === '*' || preg_replace('~\AW/~', '', $candidate) === preg_replace('~\AW/~', '', $tag)) {
                $kept = array_intersect_key($this->headers, ['ETag' => 1, 'Cache-Control' => 1, 'Vary' => 1]);

                return new self('', 304, $kept);
            }
        }

        return $this;
    }

    /** No page of this site loads anything from elsewhere, nor runs a script written into it. */
    private const SECURITY = [
        'Content-Security-Policy' => "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; "
            . "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        'Referrer-Policy' => 'same-origin',
        'X-Content-Type-Options' => 'nosniff',
    ];
}
