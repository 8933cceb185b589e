<?php

/**
 * The latest entries as RSS 2.0.
 *
 * @var string $origin
 * @var list<Entry> $entries
 */

declare(strict_types=1);

namespace Howdah\Demo;

echo '<?xml version="1.0" encoding="UTF-8"?>', "\n";
?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel>
  <title>The Howdah guestbook</title>
  <link><?= e($origin) ?>/</link>
  <description>What visitors wrote.</description>
  <language>en</language>
  <atom:link rel="self" type="application/rss+xml" href="<?= e($origin) ?>/feed"/>
<?php foreach ($entries as $entry): ?>
  <item>
    <title>Entry <?= e($entry->id) ?> by <?= e($entry->name) ?></title>
    <link><?= e($origin . $entry->path()) ?></link>
    <guid><?= e($origin . $entry->path()) ?></guid>
    <dc:creator><?= e($entry->name) ?></dc:creator>
    <pubDate><?= e(gmdate(DATE_RSS, $entry->created)) ?></pubDate>
    <description><?= e(nl2br(e($entry->message), false)) ?></description>
<?php if ($entry->picture !== null): ?>
    <enclosure url="<?= e($origin . $entry->picture->path()) ?>" length="<?= e($entry->picture->bytes) ?>" type="<?= e($entry->picture->type) ?>"/>
<?php endif ?>
  </item>
<?php endforeach ?>
</channel>
</rss>
