<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** Ends a request with a status and a sentence that tells the visitor what to do. */
final class HttpError extends \RuntimeException
{
    /** @param array<string, string> $headers */
    public function __construct(
        public readonly int $status,
        string $message,
        public readonly array $headers = [],
    ) {
        parent::__construct($message);
    }

    public function title(): string
    {
        return match ($this->status) {
            400 => 'That request makes no sense',
            403 => 'Not allowed',
            404 => 'Nothing at this address',
            405 => 'Not that way',
            413 => 'Too large',
            415 => 'Not that kind of content',
            422 => 'Something is missing',
            default => 'Something went wrong',
        };
    }
}
