<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** One entry of the guestbook, as it is stored. */
final class Entry
{
    public function __construct(
        public readonly int $id,
        public readonly string $name,
        public readonly string $message,
        public readonly int $created,
        public readonly ?Picture $picture,
    ) {
    }

    /** @param array<string, mixed> $row */
    public static function fromRow(array $row): self
    {
        $picture = $row['picture'] === null ? null : new Picture(
            (string) $row['picture'],
            (string) $row['picture_alt'],
            (string) $row['picture_type'],
            (int) $row['picture_width'],
            (int) $row['picture_height'],
            (int) $row['picture_bytes'],
        );

        return new self((int) $row['id'], (string) $row['name'], (string) $row['message'], (int) $row['created'], $picture);
    }

    public function path(): string
    {
        return '/entry/' . $this->id;
    }

    /** The first letters of up to two words of the name, for the seal beside the entry. */
    public function initials(): string
    {
        preg_match_all('/(?<![\p{L}\p{N}])[\p{L}\p{N}]/u', $this->name, $found);

        return mb_strtoupper(implode('', array_slice($found[0], 0, 2))) ?: '✦';
    }

    /** One of six colours, always the same for a name. */
    public function tone(): int
    {
        return crc32($this->name) % 6;
    }

    /** @return array<string, mixed> what the API tells about it */
    public function forApi(string $origin): array
    {
        return [
            'id' => $this->id,
            'name' => $this->name,
            'message' => $this->message,
            'created' => gmdate(DATE_ATOM, $this->created),
            'url' => $origin . $this->path(),
            'picture' => $this->picture === null ? null : [
                'url' => $origin . $this->picture->path(),
                'alt' => $this->picture->alt,
                'type' => $this->picture->type,
                'width' => $this->picture->width,
                'height' => $this->picture->height,
            ],
        ];
    }
}
