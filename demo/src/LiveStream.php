<?php

declare(strict_types=1);

namespace Howdah\Demo;

/**
 * Server-sent events: each one leaves with flush() at the moment it is written.
 *
 * A stream holds its worker for as long as it lasts, so it ends after some events; the browser comes
 * back by itself and says which event it saw last, and the count goes on from there.
 */
final class LiveStream
{
    public function __construct(private readonly Guestbook $guestbook, private readonly int $requests)
    {
    }

    /** @param int $after the number of the last event the client saw */
    public function response(int $after, int $events, int $pauseMilliseconds): Response
    {
        return new Response(function () use ($after, $events, $pauseMilliseconds): void {
            ini_set('zlib.output_compression', '0');
            while (ob_get_level() > 0) {
                ob_end_flush();
            }
            echo "retry: 1000\n\n";
            for ($number = $after + 1; $number <= $after + $events; $number++) {
                if ($number > $after + 1) {
                    usleep($pauseMilliseconds * 1_000);
                }
                $this->event($number);
                if (connection_aborted() === 1) {
                    return;
                }
            }
        }, 200, [
            'Content-Type' => 'text/event-stream',
            'Cache-Control' => 'no-store',
            'X-Accel-Buffering' => 'no', // nginx collects a response before it sends it, unless told not to
        ]);
    }

    private function event(int $number): void
    {
        $newest = $this->guestbook->page(1, 1)[0] ?? null;
        $data = json_encode([
            'count' => $number,
            'time' => gmdate(DATE_ATOM),
            'pid' => getmypid(),
            'requests' => $this->requests,
            'memory' => memory_get_usage(),
            'entries' => $this->guestbook->count(),
            'newest' => $newest === null ? null : ['name' => $newest->name, 'path' => $newest->path()],
        ], JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE);
        echo "id: $number\nevent: tick\ndata: $data\n\n";
        flush();
    }
}
