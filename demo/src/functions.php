<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** Text for HTML and XML, in content and in quoted attributes. */
function e(string|int|float|null $text): string
{
    return htmlspecialchars((string) $text, ENT_QUOTES | ENT_SUBSTITUTE | ENT_XML1, 'UTF-8');
}

/** JSON that is safe to read for people, too. Invalid UTF-8 is replaced, never an exception. */
function json(mixed $value): string
{
    $flags = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRETTY_PRINT
        | JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR;

    return json_encode($value, $flags) . "\n";
}

/** Bytes as people write them: 1.5 MB. */
function bytes(int $count): string
{
    return match (true) {
        $count >= 1 << 20 => round($count / (1 << 20), 1) . ' MB',
        $count >= 1 << 10 => round($count / (1 << 10), 1) . ' KB',
        default => $count . ' bytes',
    };
}

/** How long ago that was, seen from now (both in seconds since 1970). */
function ago(int $then, int $now): string
{
    $seconds = max(0, $now - $then);
    foreach ([86_400 => 'day', 3_600 => 'hour', 60 => 'minute'] as $length => $unit) {
        if ($seconds >= $length) {
            $count = intdiv($seconds, $length);

            return $count > 30 && $unit === 'day'
                ? gmdate('j F Y', $then)
                : $count . ' ' . $unit . ($count === 1 ? '' : 's') . ' ago';
        }
    }

    return 'just now';
}
