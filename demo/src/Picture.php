<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** A stored picture: what the database knows about it. Its bytes are in the picture store. */
final class Picture
{
    public function __construct(
        public readonly string $file,
        public readonly string $alt,
        public readonly string $type,
        public readonly int $width,
        public readonly int $height,
        public readonly int $bytes,
    ) {
    }

    public function path(): string
    {
        return '/picture/' . $this->file;
    }
}
