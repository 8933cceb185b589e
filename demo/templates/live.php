<?php

/**
 * A counter that the server keeps sending.
 *
 * @var string $origin
 */

declare(strict_types=1);

namespace Howdah\Demo;

?>
<div class="narrow">
  <h1>Live</h1>
  <p class="lead">One long answer. Every second the worker writes a line, and <code>flush()</code> sends it to you at once.</p>
  <section class="card live" aria-label="Live counter">
    <p class="live-state" id="live-state" role="status">This page needs scripts to show the events.</p>
    <p class="live-count" id="live-count" aria-hidden="true">–</p>
    <dl>
      <div><dt>Server time</dt><dd id="live-time">–</dd></div>
      <div><dt>Worker</dt><dd id="live-worker">–</dd></div>
      <div><dt>Its memory</dt><dd id="live-memory">–</dd></div>
      <div><dt>Entries in the book</dt><dd id="live-entries">–</dd></div>
      <div><dt>The newest is by</dt><dd id="live-newest">–</dd></div>
    </dl>
    <p><button class="button" type="button" id="live-switch" hidden>Pause</button></p>
  </section>
  <p class="muted">An answer ends after twenty events, so that nobody keeps a worker for good. The browser then asks again,
    tells the number it saw last, and the count goes on. Sign the guestbook in another window and watch the last two lines.</p>
  <p class="muted">In a terminal: <code>curl -N <?= e($origin) ?>/live/events</code></p>
</div>
<script src="/assets/live.js" defer></script>
