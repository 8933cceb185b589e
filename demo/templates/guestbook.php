<?php

/**
 * The entries, and the form to add one.
 *
 * @var View $view
 * @var list<Entry> $entries
 * @var int $count
 * @var int $page
 * @var int $pages
 * @var Draft $draft
 * @var string $token
 * @var int $limit
 * @var int $now
 */

declare(strict_types=1);

namespace Howdah\Demo;

$welcome = $page === 1 && $draft->isAcceptable();
$heading = $welcome ? 'h2' : 'h1';
?>
<?php if ($welcome): ?>
<section class="hero">
  <div class="hero-text">
    <p class="eyebrow">A guestbook</p>
    <h1>Have a seat.</h1>
    <p class="lead">A howdah is the seat on an elephant’s back. This small site sits on a PHP server in
      the same way: comfortably, and without seeing much of what carries it.</p>
    <p class="actions"><a class="button" href="#sign">Sign the guestbook</a>
      <a class="button quiet" href="/facts">Look behind the curtain</a></p>
  </div>
  <img class="hero-picture" src="/assets/caravan.svg" width="640" height="400" alt="An elephant carrying a howdah through dunes at sunrise">
</section>
<?php endif ?>
<div class="columns<?= $draft->isAcceptable() ? '' : ' form-first' ?>">
<section class="entries" aria-labelledby="entries">
  <div class="section-head">
    <<?= $heading ?> id="entries"><?= $page === 1 ? 'Latest entries' : 'Entries, page ' . e($page) ?></<?= $heading ?>>
    <p class="muted"><?= e(number_format($count)) ?> in all</p>
  </div>
<?php foreach ($entries as $entry): ?>
<?= $view->render('card', ['entry' => $entry, 'now' => $now, 'whole' => false]) ?>
<?php endforeach ?>
<?php if ($entries === []): ?>
  <p class="empty">Nobody has written here yet. Be the first.</p>
<?php endif ?>
<?php if ($pages > 1): ?>
  <nav class="paging" aria-label="Pages">
<?php if ($page > 1): ?>
    <a rel="prev" href="/<?= $page > 2 ? '?page=' . e($page - 1) : '' ?>">← Newer</a>
<?php else: ?>
    <span aria-hidden="true">← Newer</span>
<?php endif ?>
    <span class="muted">Page <?= e($page) ?> of <?= e($pages) ?></span>
<?php if ($page < $pages): ?>
    <a rel="next" href="/?page=<?= e($page + 1) ?>">Older →</a>
<?php else: ?>
    <span aria-hidden="true">Older →</span>
<?php endif ?>
  </nav>
<?php endif ?>
</section>
<section class="sign" id="sign" aria-labelledby="sign-title">
<?= $view->render('form', ['draft' => $draft, 'token' => $token, 'limit' => $limit]) ?>
</section>
</div>
