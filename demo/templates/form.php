<?php

/**
 * The form to sign the guestbook.
 *
 * @var Draft $draft
 * @var string $token
 * @var int $limit
 */

declare(strict_types=1);

namespace Howdah\Demo;

$problem = static fn (string $field): string => isset($draft->problems[$field])
    ? '<p class="problem" id="' . $field . '-problem">' . e($draft->problems[$field]) . '</p>'
    : '';
$state = static fn (string $field): string => isset($draft->problems[$field])
    ? ' aria-invalid="true" aria-describedby="' . $field . '-problem"' . ($field === array_key_first($draft->problems) ? ' autofocus' : '')
    : '';
$most = Draft::LONGEST;
?>
<form class="card form" method="post" action="/" enctype="multipart/form-data">
  <h2 id="sign-title">Sign the guestbook</h2>
<?php if ($draft->problems !== []): ?>
  <p class="alert" role="alert">Not yet saved. Please have a look at the marked <?= count($draft->problems) === 1 ? 'field' : 'fields' ?>.</p>
<?php endif ?>
  <input type="hidden" name="token" value="<?= e($token) ?>">
  <div class="field">
    <label for="name">Your name</label>
    <input id="name" name="name" autocomplete="name" required maxlength="<?= e($most['name']) ?>" value="<?= e($draft->name) ?>"<?= $state('name') ?>>
    <?= $problem('name') ?>

  </div>
  <div class="field">
    <label for="message">Your message</label>
    <textarea id="message" name="message" rows="5" required maxlength="<?= e($most['message']) ?>"<?= $state('message') ?>>
<?= e($draft->message) ?></textarea>
    <?= $problem('message') ?>

  </div>
  <div class="field">
    <label for="picture">A picture <span class="muted">(optional, up to <?= e(bytes($limit)) ?>)</span></label>
    <input id="picture" name="picture" type="file" accept="image/jpeg,image/png,image/webp,image/gif"<?= $state('picture') ?>>
    <?= $problem('picture') ?>

<?php if (!PictureStore::reencodes()): ?>
    <p class="hint">It is kept as you send it, with what the camera noted in it.</p>
<?php endif ?>
  </div>
  <div class="field">
    <label for="alt">What the picture shows <span class="muted">(for those who do not see it)</span></label>
    <input id="alt" name="alt" maxlength="<?= e($most['alt']) ?>" value="<?= e($draft->alt) ?>"<?= $state('alt') ?>>
    <?= $problem('alt') ?>

  </div>
  <button class="button" type="submit">Sign</button>
</form>
