"""A video that a browser plays and seeks in: Chromium records it, Howdah serves it in parts.

The colour of the picture tells the time: a frame that is shown after a seek is the one asked for. The index of an
MP4 file may be at its end, so a browser asks for parts before it plays the first frame.
"""

import base64

import machine
from report import check, equal

PAGE = "<!DOCTYPE html><title>Video</title><video id=v src=video.mp4 muted playsinline preload=metadata></video>"

# The time of a frame is its hue: 30 degrees a second. Noise in the lower half makes the file large.
RECORD = """
async seconds => {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [640, 360];
  const picture = canvas.getContext('2d');
  const recorder = new MediaRecorder(canvas.captureStream(20), {
    mimeType: 'video/mp4', videoBitsPerSecond: 6_000_000});
  const parts = [];
  recorder.ondataavailable = event => parts.push(event.data);
  const ended = new Promise(done => recorder.onstop = done);
  const start = performance.now();
  const draw = () => {
    picture.fillStyle = `hsl(${(performance.now() - start) / 1000 * 30} 100% 50%)`;
    picture.fillRect(0, 0, 640, 180);
    for (let n = 0; n < 3000; n++) {
      picture.fillStyle = `rgb(${Math.random() * 255} ${Math.random() * 255} ${Math.random() * 255})`;
      picture.fillRect(Math.random() * 640, 180 + Math.random() * 180, 8, 8);
    }
  };
  draw();
  recorder.start();
  const timer = setInterval(draw, 50);
  await new Promise(done => setTimeout(done, seconds * 1000));
  clearInterval(timer);
  recorder.stop();
  await ended;
  const reader = new FileReader();
  return new Promise(done => {
    reader.onload = () => done(reader.result.split(',')[1]);
    reader.readAsDataURL(new Blob(parts));
  });
}
"""

# Seeks, and returns the time of the frame that is shown then.
SEEK = """
async seconds => {
  const video = document.getElementById('v');
  const shown = new Promise((done, failed) => {
    video.onseeked = done;
    video.onerror = () => failed(new Error(video.error.message));
  });
  video.currentTime = seconds;
  await shown;
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [64, 36];
  const picture = canvas.getContext('2d');
  picture.drawImage(video, 0, 0, 64, 36);
  const [r, g, b] = picture.getImageData(32, 8, 1, 1).data;
  const [high, low] = [Math.max(r, g, b), Math.min(r, g, b)];
  const span = high - low;
  const hue = high === r ? (g - b) / span : high === g ? 2 + (b - r) / span : 4 + (r - g) / span;
  return (hue * 60 + 360) % 360 / 30;
}
"""

PLAY = """
async () => {
  const video = document.getElementById('v');
  const start = video.currentTime;
  await video.play();
  while (video.currentTime < start + 0.5) await new Promise(done => setTimeout(done, 50));
  video.pause();
  return video.currentTime;
}
"""

SECONDS = 8


def run(session):
    """Records, plays and seeks."""
    step = session.report.step
    root = session.directory / "video" / "root"
    root.mkdir(parents=True)
    (root / "index.html").write_text(PAGE)
    machine.give_away(root)
    server = session.under_test("video", root)
    own = f"127.0.0.1:{server.port}"
    page = session.browser.visitor(own)
    answers = []
    page.on("response", lambda answer: answers.append(answer) if answer.url.endswith(".mp4") else None)
    with step("video: the browser records it", needed=True):
        page.goto(f"http://{own}/missing.html")
        video = base64.b64decode(page.evaluate(RECORD, SECONDS))
        check(video[4:8] == b"ftyp", "it is no MP4 file")
        check(len(video) > 1_000_000, f"it has only {len(video)} bytes")
        (root / "video.mp4").write_bytes(video)
        machine.give_away(root)
    with step("video: it plays", needed=True):
        page.goto(f"http://{own}/")
        page.wait_for_function("document.getElementById('v').readyState >= 1")
        check(page.evaluate(PLAY) >= 0.5, "it does not go on")
        equal("type", answers[0].headers.get("content-type"), "video/mp4")
    # A busy machine may record fewer seconds than it has painted.
    duration = page.evaluate("document.getElementById('v').duration")
    for part in (0.9, 0.2, 0.95, 0.5):
        with step(f"video: the frame at {part:.0%} is shown"):
            wanted = part * duration
            shown = page.evaluate(SEEK, wanted)
            check(abs(shown - wanted) < 0.5, f"the frame of {shown:.2f} seconds is shown, not of {wanted:.2f}")
    with step("video: it was sent in parts"):
        session.browser.shot(page, "video")
        statuses = {answer.status for answer in answers}
        equal("statuses", statuses, {206})
        for answer in answers:
            first, rest = answer.headers["content-range"].removeprefix("bytes ").split("-")
            last, size = rest.split("/")
            equal("size", int(size), len(video))
            equal("length", int(answer.headers["content-length"]), int(last) - int(first) + 1)
    with step("video: nothing went wrong"):
        session.browser.expect_no_problems()
