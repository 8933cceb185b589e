<?php

declare(strict_types=1);

namespace Howdah\Demo;

/**
 * The directory that holds everything this site writes: the database, the pictures, the sessions.
 * It lies outside the document root, so nothing in it has an address of its own.
 */
final class Storage
{
    public readonly string $pictures;
    public readonly string $sessions;

    public function __construct(private readonly string $directory)
    {
        $this->pictures = $directory . '/pictures';
        $this->sessions = $directory . '/sessions';
        foreach ([$directory, $this->pictures, $this->sessions] as $each) {
            // A second worker may create it at the same moment: only the result counts.
            if (!is_dir($each) && !@mkdir($each, 0o770, true) && !is_dir($each)) {
                throw self::unusable($each);
            }
        }
        if (!is_writable($directory)) {
            throw self::unusable($directory);
        }
    }

    /** The directory named by HOWDAH_DEMO_VAR, in the environment or as a FastCGI parameter, or $default. */
    public static function choose(Request $request, string $default): self
    {
        $named = $request->server('HOWDAH_DEMO_VAR') ?: (string) getenv('HOWDAH_DEMO_VAR');

        return new self(rtrim($named, '/') ?: $default);
    }

    /** The database, with its tables, and with something to read in it when it is new. */
    public function database(): \PDO
    {
        if (!in_array('sqlite', \PDO::getAvailableDrivers(), true)) {
            throw new \RuntimeException('PHP has no SQLite driver. Install the package php8.2-sqlite3.');
        }
        $database = new \PDO('sqlite:' . $this->directory . '/guestbook.sqlite', options: [
            \PDO::ATTR_ERRMODE => \PDO::ERRMODE_EXCEPTION,
            \PDO::ATTR_DEFAULT_FETCH_MODE => \PDO::FETCH_ASSOC,
            \PDO::ATTR_TIMEOUT => 5,
        ]);
        $database->exec('PRAGMA synchronous = NORMAL');
        if ((int) $database->query('PRAGMA user_version')->fetchColumn() === 0) {
            $this->create($database);
        }

        return $database;
    }

    private function create(\PDO $database): void
    {
        $database->exec('PRAGMA journal_mode = WAL'); // readers do not wait for the writer
        $database->exec('BEGIN IMMEDIATE');
        // Another worker may have been first while this one waited for the lock.
        if ((int) $database->query('PRAGMA user_version')->fetchColumn() === 0) {
            $database->exec(<<<'SQL'
                CREATE TABLE entry (
                    id INTEGER PRIMARY KEY AUTOINCREMENT,
                    name TEXT NOT NULL,
                    message TEXT NOT NULL,
                    created INTEGER NOT NULL,
                    picture TEXT,
                    picture_alt TEXT NOT NULL DEFAULT '',
                    picture_type TEXT,
                    picture_width INTEGER,
                    picture_height INTEGER,
                    picture_bytes INTEGER NOT NULL DEFAULT 0
                );
                CREATE UNIQUE INDEX entry_picture ON entry (picture) WHERE picture IS NOT NULL;
                PRAGMA user_version = 1;
                SQL);
            FirstEntries::write($database, $this->pictures);
        }
        $database->exec('COMMIT');
    }

    private static function unusable(string $directory): \RuntimeException
    {
        $user = function_exists('posix_geteuid') ? ' (user ' . posix_geteuid() . ')' : '';

        return new \RuntimeException("PHP$user cannot write to $directory. Give it to that user, "
            . 'or name another directory in the environment variable HOWDAH_DEMO_VAR.');
    }
}
