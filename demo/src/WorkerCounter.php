<?php

declare(strict_types=1);

namespace Howdah\Demo;

/**
 * How many requests the process that runs this script has answered.
 *
 * PHP forgets everything at the end of a request, except persistent connections. This one leads to a
 * database in memory, which lives exactly as long as the worker and is seen by nobody else.
 */
final class WorkerCounter
{
    /** @return array{requests: int, since: int} including this request; the time of the first one */
    public static function count(): array
    {
        $memory = new \PDO('sqlite::memory:', options: [
            \PDO::ATTR_PERSISTENT => 'howdah-demo-worker',
            \PDO::ATTR_ERRMODE => \PDO::ERRMODE_EXCEPTION,
        ]);
        $memory->exec('CREATE TABLE IF NOT EXISTS worker (pid INTEGER PRIMARY KEY, since INTEGER, requests INTEGER)');
        // By process, so that a worker forked from one that has counted starts at 1.
        $statement = $memory->prepare(
            'INSERT INTO worker VALUES (?, ?, 1) ON CONFLICT (pid) DO UPDATE SET requests = requests + 1 RETURNING requests, since',
        );
        $statement->execute([getmypid(), time()]);
        $row = $statement->fetch(\PDO::FETCH_ASSOC);

        return ['requests' => (int) $row['requests'], 'since' => (int) $row['since']];
    }
}
