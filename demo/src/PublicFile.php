<?php

declare(strict_types=1);

namespace Howdah\Demo;

/**
 * The files of public/, for PHP's built-in server, which sends every address here. A real server
 * sends files itself, and this class has nothing to do.
 */
final class PublicFile
{
    public static function answer(Request $request, string $directory): ?Response
    {
        if (PHP_SAPI !== 'cli-server' || !$request->isRead() || preg_match(self::NAME, $request->path, $found) !== 1) {
            return null;
        }
        $file = $directory . $request->path;
        if (!is_file($file)) {
            return null;
        }

        return new Response((string) file_get_contents($file), 200, ['Content-Type' => self::TYPES[$found[1]]]);
    }

    /** No dot in it but one: neither a parent directory nor a hidden file. */
    private const NAME = '~\A(?:/[a-z0-9_-]+)+\.(css|js|svg|txt)\z~';
    private const TYPES = [
        'css' => 'text/css; charset=utf-8',
        'js' => 'text/javascript; charset=utf-8',
        'svg' => 'image/svg+xml',
        'txt' => 'text/plain; charset=utf-8',
    ];
}
