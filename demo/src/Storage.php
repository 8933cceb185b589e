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
        $file = $this->directory . '/guestbook.sqlite';
        if (!is_file($file)) {
            $this->create($file);
        }

        return self::open($file);
    }

    /**
     * Builds the database under another name and moves it into place, one worker at a time: nobody
     * ever opens one that is half built, or that is just being switched to its journal mode.
     */
    private function create(string $file): void
    {
        $lock = fopen($file . '.lock', 'c');
        if ($lock === false || !flock($lock, LOCK_EX)) {
            throw self::unusable($this->directory);
        }
        clearstatcache(true, $file);
        if (!is_file($file)) {
            $new = $file . '.new';
            foreach ([$new, $new . '-wal', $new . '-shm'] as $leftover) {
                @unlink($leftover);
            }
            $database = self::open($new);
            $database->exec('PRAGMA journal_mode = WAL'); // readers do not wait for the writer
            $database->exec(self::TABLES);
            FirstEntries::write($database, $this->pictures);
            // The last one to close it leaves everything in the one file that is moved.
            unset($database);
            rename($new, $file);
        }
        fclose($lock);
    }

    private static function open(string $file): \PDO
    {
        $database = new \PDO('sqlite:' . $file, options: [
            \PDO::ATTR_ERRMODE => \PDO::ERRMODE_EXCEPTION,
            \PDO::ATTR_DEFAULT_FETCH_MODE => \PDO::FETCH_ASSOC,
            \PDO::ATTR_TIMEOUT => 5, // seconds to wait for a writer
        ]);
        $database->exec('PRAGMA synchronous = NORMAL');

        return $database;
    }

    private static function unusable(string $directory): \RuntimeException
    {
        $user = function_exists('posix_geteuid') ? ' (user ' . posix_geteuid() . ')' : '';

        return new \RuntimeException("PHP$user cannot write to $directory. Give it to that user, "
            . 'or name another directory in the environment variable HOWDAH_DEMO_VAR.');
    }

    private const TABLES = <<<'SQL'
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
        SQL;
}
