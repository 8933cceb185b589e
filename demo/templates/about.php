<?php

/**
 * What this site is for.
 *
 * @var string $origin
 */

declare(strict_types=1);

namespace Howdah\Demo;

?>
<div class="narrow prose">
  <h1>About this site</h1>
  <p class="lead">A guestbook in plain PHP, without a framework, that uses a web server the way real sites do.</p>
  <p>It comes with Howdah, a server for PHP sites, and is what you see when you start Howdah for the
    first time. It runs just as well on other servers: the last line of every page tells which one
    is answering you.</p>
  <h2>What it asks of its server</h2>
  <dl class="features">
    <div><dt>Pretty addresses</dt><dd>There is no file <code>/entry/1</code>. Whatever is no file goes to one script,
      which knows the rest: <a href="/entry/1">the first entry</a>, <a href="/no/such/page">a page that does not exist</a>.</dd></div>
    <div><dt>Forms and sessions</dt><dd>A cookie, a token against forged forms, an answer that survives a reload.</dd></div>
    <div><dt>Uploads</dt><dd>Pictures are checked by what they contain, renamed, kept outside the document root, and
      sent with headers that let no browser take them for a page.</dd></div>
    <div><dt>Output that leaves at once</dt><dd><a href="/live">Server-sent events</a>: each one is on its way the
      moment PHP writes it.</dd></div>
    <div><dt>Programs as visitors</dt><dd>A <a href="/api/entries">JSON interface</a> and a <a href="/feed">feed</a>,
      with conditional requests.</dd></div>
    <div><dt>Workers that stay</dt><dd>Each PHP process answers many requests with its compiled scripts in shared
      memory: <a href="/facts">see which one got yours</a>.</dd></div>
  </dl>
  <h2>Write from a terminal</h2>
  <pre><code>curl -H 'Content-Type: application/json' \
     -d '{"name": "Ada", "message": "Hello from a shell"}' \
     <?= e($origin) ?>/api/entries</code></pre>
</div>
