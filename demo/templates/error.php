<?php

/**
 * What went wrong, and where to go from here.
 *
 * @var HttpError $error
 */

declare(strict_types=1);

namespace Howdah\Demo;

?>
<div class="narrow error">
  <p class="error-status"><?= e($error->status) ?></p>
  <h1><?= e($error->title()) ?></h1>
  <p class="lead"><?= e($error->getMessage()) ?></p>
  <p class="actions"><a class="button" href="/">To the guestbook</a></p>
</div>
