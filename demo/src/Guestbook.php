<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** The entries: the only class that speaks SQL about them. */
final class Guestbook
{
    public function __construct(private readonly \PDO $database)
    {
    }

    public function count(): int
    {
        return (int) $this->database->query('SELECT count(*) FROM entry')->fetchColumn();
    }

    /** @return list<Entry> the newest first */
    public function page(int $page, int $size): array
    {
        $rows = $this->rows(
            'SELECT * FROM entry ORDER BY id DESC LIMIT :size OFFSET :skip',
            ['size' => $size, 'skip' => ($page - 1) * $size],
        );

        return array_map(Entry::fromRow(...), $rows);
    }

    public function find(int $id): ?Entry
    {
        $rows = $this->rows('SELECT * FROM entry WHERE id = :id', ['id' => $id]);

        return $rows === [] ? null : Entry::fromRow($rows[0]);
    }

    /** @return array{older: ?int, newer: ?int} the entries next to this one */
    public function neighbours(int $id): array
    {
        $row = $this->rows(
            'SELECT (SELECT max(id) FROM entry WHERE id < :id) AS older, (SELECT min(id) FROM entry WHERE id > :id) AS newer',
            ['id' => $id],
        )[0];

        return ['older' => $row['older'], 'newer' => $row['newer']];
    }

    public function picture(string $file): ?Picture
    {
        $rows = $this->rows('SELECT * FROM entry WHERE picture = :picture', ['picture' => $file]);

        return $rows === [] ? null : Entry::fromRow($rows[0])->picture;
    }

    /** @return int the number of the new entry */
    public function add(Draft $draft, int $created, ?Picture $picture): int
    {
        $this->rows(
            'INSERT INTO entry (name, message, created, picture, picture_alt, picture_type, picture_width, picture_height, picture_bytes)
             VALUES (:name, :message, :created, :file, :alt, :type, :width, :height, :bytes)',
            [
                'name' => $draft->name,
                'message' => $draft->message,
                'created' => $created,
                'file' => $picture?->file,
                'alt' => $picture?->alt ?? '',
                'type' => $picture?->type,
                'width' => $picture?->width,
                'height' => $picture?->height,
                'bytes' => $picture?->bytes ?? 0,
            ],
        );

        return (int) $this->database->lastInsertId();
    }

    public function remove(int $id): void
    {
        $this->rows('DELETE FROM entry WHERE id = :id', ['id' => $id]);
    }

    /**
     * Removes the oldest entries beyond so many, and the oldest ones with pictures beyond so many
     * bytes of them: a site that everybody can write to must not fill the disk.
     *
     * @return list<string> the pictures that nobody shows any more
     */
    public function prune(int $entries, int $pictureBytes): array
    {
        $rows = $this->rows(
            'DELETE FROM entry WHERE id IN (
                 SELECT id FROM (
                     SELECT id, picture, row_number() OVER newest AS place, sum(picture_bytes) OVER newest AS bytes
                     FROM entry WINDOW newest AS (ORDER BY id DESC)
                 ) WHERE place > :entries OR (picture IS NOT NULL AND bytes > :bytes)
             ) RETURNING picture',
            ['entries' => $entries, 'bytes' => $pictureBytes],
        );

        return array_values(array_filter(array_column($rows, 'picture'), is_string(...)));
    }

    /**
     * @param array<string, int|string|null> $values
     * @return list<array<string, mixed>>
     */
    private function rows(string $sql, array $values): array
    {
        $statement = $this->database->prepare($sql);
        foreach ($values as $name => $value) {
            $statement->bindValue($name, $value, match (true) {
                is_int($value) => \PDO::PARAM_INT,
                $value === null => \PDO::PARAM_NULL,
                default => \PDO::PARAM_STR,
            });
        }
        $statement->execute();

        return $statement->fetchAll(\PDO::FETCH_ASSOC);
    }
}
