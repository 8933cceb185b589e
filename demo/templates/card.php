<?php

/**
 * One entry.
 *
 * @var Entry $entry
 * @var int $now
 * @var bool $whole on its own page
 */

declare(strict_types=1);

namespace Howdah\Demo;

$heading = $whole ? 'h1' : 'h3';
$picture = $entry->picture;
?>
<article class="card entry" id="entry-<?= e($entry->id) ?>">
  <header>
    <span class="seal tone-<?= e($entry->tone()) ?>" aria-hidden="true"><?= e($entry->initials()) ?></span>
    <<?= $heading ?>><?= e($entry->name) ?></<?= $heading ?>>
    <a class="when" href="<?= e($entry->path()) ?>"><time datetime="<?= e(gmdate(DATE_ATOM, $entry->created)) ?>"><?= e(ago($entry->created, $now)) ?></time></a>
  </header>
  <p class="words"><?= e($entry->message) ?></p>
<?php if ($picture !== null): ?>
  <a class="picture" href="<?= e($whole ? $picture->path() : $entry->path()) ?>"><img src="<?= e($picture->path()) ?>" alt="<?= e($picture->alt ?: 'A picture by ' . $entry->name) ?>" width="<?= e($picture->width) ?>" height="<?= e($picture->height) ?>"<?= $whole ? '' : ' loading="lazy"' ?>></a>
<?php endif ?>
</article>
