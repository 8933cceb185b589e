<?php

/**
 * The frame of every page.
 *
 * @var string $title
 * @var string $here the path of this page
 * @var string $content HTML
 * @var string $software
 * @var string $message
 */

declare(strict_types=1);

namespace Howdah\Demo;

$links = ['/' => 'Guestbook', '/live' => 'Live', '/facts' => 'Facts', '/about' => 'About'];
?>
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="A small guestbook in PHP and SQLite, and a look behind its server.">
<title><?= e($title) ?> – Howdah</title>
<link rel="stylesheet" href="/assets/site.css">
<link rel="icon" href="/assets/logo.svg" type="image/svg+xml">
<link rel="alternate" type="application/rss+xml" title="The guestbook" href="/feed">
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="bar">
  <div class="bar-inner">
    <a class="brand" href="/"><img src="/assets/logo.svg" alt="" width="40" height="40"><span>Howdah</span></a>
    <nav aria-label="Main">
<?php foreach ($links as $path => $name): ?>
      <a href="<?= e($path) ?>"<?= $here === $path ? ' aria-current="page"' : '' ?>><?= e($name) ?></a>
<?php endforeach ?>
    </nav>
  </div>
</header>
<main id="content">
<?php if ($message !== ''): ?>
<p class="flash" role="status"><?= e($message) ?></p>
<?php endif ?>
<?= $content ?>
</main>
<footer class="foot">
  <p>Served by <strong><?= e($software) ?></strong> with PHP <?= e(PHP_VERSION) ?>, worker <?= e(getmypid()) ?>.</p>
  <p><a href="/feed">Feed</a> <a href="/api/entries">API</a> <a href="/facts">Facts</a></p>
</footer>
</body>
</html>
