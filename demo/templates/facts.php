<?php

/**
 * What server, worker and PHP say about themselves.
 *
 * @var Facts $facts
 */

declare(strict_types=1);

namespace Howdah\Demo;

?>
<h1>Facts</h1>
<p class="lead">What answered this request, and how it is doing. Reload, and another worker may be at your service.</p>
<div class="facts">
<?php foreach ($facts->sections() as $heading => $rows): ?>
  <section class="card">
    <h2><?= e($heading) ?></h2>
    <dl>
<?php foreach ($rows as $name => $value): ?>
      <div><dt><?= e($name) ?></dt><dd><?= e($value) ?></dd></div>
<?php endforeach ?>
    </dl>
  </section>
<?php endforeach ?>
</div>
<section class="card crew" id="crew" hidden>
  <div class="section-head">
    <h2>Who answers?</h2>
    <button class="button" type="button" id="crew-start">Send 60 requests</button>
  </div>
  <p class="muted" id="crew-state" role="status">Sends sixty small requests, six at a time, and counts which worker answered each.</p>
  <ol id="crew-list"></ol>
</section>
<section class="card" aria-labelledby="variables">
  <h2 id="variables">What PHP was told</h2>
  <p class="muted">A selection of <code>$_SERVER</code> for this request. Cookies, credentials, paths and the environment are left out.</p>
  <div class="scroll" tabindex="0" role="region" aria-labelledby="variables">
  <table>
    <thead><tr><th scope="col">Name</th><th scope="col">Value</th></tr></thead>
    <tbody>
<?php foreach ($facts->variables() as $name => $value): ?>
      <tr><th scope="row"><?= e($name) ?></th><td><?= $value === '' ? '<span class="muted">(empty)</span>' : e($value) ?></td></tr>
<?php endforeach ?>
    </tbody>
  </table>
  </div>
</section>
<script src="/assets/facts.js" defer></script>
