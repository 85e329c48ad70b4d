import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.js";

const { PhaseClock, median } = await load("frames");

const PHASES = (period) => [
  { name: "fixation", ms: 300 },
  { name: "stimulus", ms: 200 },
  { name: "blank", ms: period },
  { name: "mask", ms: 200 },
  { name: "response", ms: 1500 },
];

// frames of a screen, each off its time by up to `jitter` of a frame; some are left out
function play(clock, period, { jitter = 0, missing = () => false } = {}) {
  const frames = {};
  let now = "";
  for (let n = 0; n < 1000; n += 1) {
    if (missing(n)) continue;
    const off = jitter * period * Math.sin(n * 12.9898);
    const timestamp = 1000 + n * period + off;
    const begins = clock.tick(timestamp);
    if (begins) {
      now = begins;
      clock.painted(timestamp + 0.2 * period);
    }
    if (now === "end") return frames;
    (frames[now] ??= []).push(n);
  }
  throw new Error("it never ended");
}

for (const hz of [59.94, 60, 72, 75, 90, 100, 120, 144, 165, 240]) {
  test(`an image of 200 ms lasts the nearest number of frames at ${hz} Hz`, () => {
    const period = 1000 / hz;
    const clock = new PhaseClock(PHASES(period), period);
    const frames = play(clock, period, { jitter: 0.1 });
    assert.equal(frames.stimulus.length, Math.round(200 / period));
    // half-way between two numbers of frames either will do
    assert.ok(Math.abs(frames.fixation.length - 300 / period) <= 0.5 + 1e-9);
    assert.equal(frames.blank.length, 1);
    assert.equal(clock.frames("stimulus"), frames.stimulus.length);
    assert.equal(clock.dropped, 0);
    assert.equal(clock.off("stimulus"), false);
  });
}

test("a period that was measured a little wrong changes nothing", () => {
  const clock = new PhaseClock(PHASES(16.7), 16.7);
  assert.equal(play(clock, 1000 / 60).stimulus.length, 12);
});

test("a frame that is dropped within the image does not lengthen it", () => {
  const period = 1000 / 60;
  const clock = new PhaseClock(PHASES(period), period);
  const frames = play(clock, period, { missing: (n) => n === 24 });
  assert.equal(frames.blank[0] - frames.stimulus[0], 12);
  assert.equal(clock.dropped, 1);
  assert.ok(Math.abs(clock.longest - 2 * period) < 1e-6);
  assert.equal(clock.off("stimulus"), false);
});

test("frames dropped at the end of the image are told, and the mask is no shorter for it", () => {
  const period = 1000 / 60;
  const clock = new PhaseClock(PHASES(period), period);
  const frames = play(clock, period, { missing: (n) => n >= 30 && n < 34 });
  assert.equal(frames.blank[0] - frames.stimulus[0], 16);
  assert.equal(clock.frames("stimulus"), 16);
  assert.equal(clock.off("stimulus"), true);
  assert.equal(frames.response[0] - frames.mask[0], 12);
});

test("an image that is painted late is seen no shorter for it", () => {
  const period = 1000 / 60;
  for (const late of [0, 1, 3]) {
    const clock = new PhaseClock(PHASES(period), period);
    let seen = null;
    let gone = null;
    for (let n = 0, busy = 0; gone === null; n += 1) {
      if (n <= busy) continue;
      const begins = clock.tick(n * period);
      // what is drawn in frame n is seen with frame n + 1, and `late` frames later if it is busy
      if (begins === "stimulus") {
        seen = n + 1 + late;
        busy = n + late;
        clock.painted((n + 0.3 + late) * period);
      } else if (begins) {
        clock.painted((n + 0.3) * period);
      }
      if (begins === "blank") gone = n + 1;
    }
    assert.equal(gone - seen, 12);
    assert.equal(clock.dropped, late);
  }
});

test("without word of the painting, the next frame tells when a phase was seen", () => {
  const period = 10;
  const clock = new PhaseClock(
    [
      { name: "stimulus", ms: 50 },
      { name: "mask", ms: 50 },
    ],
    period,
  );
  assert.equal(clock.tick(0), "stimulus");
  assert.equal(clock.tick(30), null);
  for (const t of [40, 50, 60]) assert.equal(clock.tick(t), null);
  assert.equal(clock.tick(70), "mask");
});

test("an image does not begin with a frame that the browser is late for, but it does begin", () => {
  const phases = [
    { name: "fixation", ms: 20 },
    { name: "stimulus", ms: 50, punctual: true },
  ];
  const clock = new PhaseClock(phases, 10);
  assert.equal(clock.tick(0, 9), "fixation");
  clock.painted(9);
  assert.equal(clock.tick(10, 11), null);
  assert.equal(clock.tick(20, 29), null);
  assert.equal(clock.tick(30, 31), "stimulus");
  const slow = new PhaseClock(phases, 10);
  slow.tick(0);
  const begun = Array.from({ length: 30 }, (_, n) => slow.tick(10 * (n + 1), 10 * (n + 1) + 9));
  assert.equal(begun.filter((name) => name === "stimulus").length, 1);
});

test("phases of no length are left out, and an endless one ends when it is hurried", () => {
  const phases = [
    { name: "fixation", ms: 0 },
    { name: "stimulus", ms: 50 },
    { name: "response", ms: Infinity },
  ];
  const clock = new PhaseClock(phases, 10);
  assert.equal(clock.tick(0), "stimulus");
  clock.painted(1);
  for (let t = 10; t < 50; t += 10) assert.equal(clock.tick(t), null);
  assert.equal(clock.tick(50), "response");
  clock.painted(51);
  assert.equal(clock.tick(1e6), null);
  clock.hurry();
  assert.equal(clock.tick(1e6 + 10), "end");
  assert.deepEqual(
    [...clock.onsets],
    [
      ["stimulus", 0],
      ["response", 50],
      ["end", 1e6 + 10],
    ],
  );
});

test("the median is the middle, or the mean of the two in the middle", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 3, 2]), 2.5);
});
