<?php

/**
 * One entry on its own page.
 *
 * @var View $view
 * @var Entry $entry
 * @var array{older: ?int, newer: ?int} $neighbours
 * @var bool $owned
 * @var string $token
 * @var int $now
 */

declare(strict_types=1);

namespace Howdah\Demo;

?>
<div class="narrow">
  <p class="trail"><a href="/">← All entries</a></p>
<?= $view->render('card', ['entry' => $entry, 'now' => $now, 'whole' => true]) ?>
<?php if ($owned): ?>
  <form class="own" method="post" action="<?= e($entry->path()) ?>/remove">
    <input type="hidden" name="token" value="<?= e($token) ?>">
    <p class="muted">You wrote this.</p>
    <button class="button quiet" type="submit">Remove it</button>
  </form>
<?php endif ?>
  <nav class="paging" aria-label="Other entries">
<?php if ($neighbours['newer'] !== null): ?>
    <a rel="prev" href="/entry/<?= e($neighbours['newer']) ?>">← Newer</a>
<?php else: ?>
    <span aria-hidden="true">← Newer</span>
<?php endif ?>
    <span class="muted">Entry <?= e($entry->id) ?></span>
<?php if ($neighbours['older'] !== null): ?>
    <a rel="next" href="/entry/<?= e($neighbours['older']) ?>">Older →</a>
<?php else: ?>
    <span aria-hidden="true">Older →</span>
<?php endif ?>
  </nav>
</div>
