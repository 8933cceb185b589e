<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** What a new guestbook holds before anybody has written in it. */
final class FirstEntries
{
    public static function write(\PDO $database, string $pictures): void
    {
        $guestbook = new Guestbook($database);
        $now = time();
        foreach (self::ENTRIES as [$minutesAgo, $name, $message, $alt]) {
            $picture = $alt === ''
                ? null
                : (new PictureStore($pictures))->keep(dirname(__DIR__) . '/seed/oasis.png', $alt);
            $guestbook->add(Draft::of($name, $message), $now - 60 * $minutesAgo, $picture);
        }
    }

    /** Minutes ago, name, message, and what the picture shows (no picture when empty). The oldest first. */
    private const ENTRIES = [
        [11_900, 'Gajapati', "How it began: somebody put a chair on an elephant.\nEverything since has been refinement.", ''],
        [10_310, 'Noor Jahan', 'A good seat is one that you do not notice. The same goes for a server.', ''],
        [8_640, 'Ambrose', 'Signed from a terminal: the guestbook takes JSON at /api/entries, and says 422 and why if you forget your name.', ''],
        [7_020, 'Meera Pillai', 'Reading this on a telephone in a train, between two tunnels. The page was there before the second one.', ''],
        [4_330, 'Teodor', "I turned scripts off to see what breaks.\n\nNothing broke.", ''],
        [2_890, 'Lakshmi & Ravi', 'We subscribed to the feed, so be nice: we read everything.', ''],
        [1_260, 'Odile Marchand', 'Tried to sign with <b>bold</b> & "quotes". They came out as I typed them, which is just right.', ''],
        [95, 'The mahout', "Welcome aboard.\n\nWrite a line, add a picture if you have one, and look behind the curtain: the pages "
            . '“Facts” and “Live” show which worker answered you and what it has been doing.', 'Two tents and a fire beside a small oasis, under a crescent moon'],
    ];
}
