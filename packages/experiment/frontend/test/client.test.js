import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.js";

const { arrival } = await load("recruit");
const { backOff } = await load("retry");
const { withAlpha } = await load("images");
const { scale } = await load("easel");
const { uuid } = await load("keep");
const { BLOCK, choicesOf, placeOf } = await load("keys");
const { ResponseQueue } = await load("queue");
const { inMemory } = await load("pending");

test("a plain link is known by the browser's own name", () => {
  const who = arrival("/s/blur-1", "?x=1", "me");
  assert.deepEqual(who, {
    study: "blur-1",
    platform: "link",
    ids: { client: "me" },
    person: "me",
    errand: "",
    preview: false,
  });
});

test("Mechanical Turk's ids are taken, nothing else, and a preview is known as one", () => {
  const query = "?assignmentId=A&hitId=H&workerId=W&turkSubmitTo=https%3A%2F%2Fwww.mturk.com&x=1";
  const who = arrival("/s/blur/", query, "me");
  assert.equal(who.study, "blur");
  assert.equal(who.platform, "mturk");
  assert.deepEqual(who.ids, {
    assignmentId: "A",
    hitId: "H",
    workerId: "W",
    turkSubmitTo: "https://www.mturk.com",
  });
  assert.deepEqual([who.person, who.errand, who.preview], ["W", "A", false]);
  const look = arrival("/s/blur", "?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=H", "me");
  assert.equal(look.preview, true);
});

test("Prolific's ids are taken", () => {
  const who = arrival("/s/blur", "?PROLIFIC_PID=P&STUDY_ID=S&SESSION_ID=T", "me");
  assert.deepEqual(who.ids, { PROLIFIC_PID: "P", STUDY_ID: "S", SESSION_ID: "T" });
  assert.deepEqual([who.platform, who.person, who.errand], ["prolific", "P", "T"]);
});

test("pauses between attempts double up to a quarter of a minute", () => {
  const pauses = [1, 2, 3, 4, 5, 6, 7, 30].map((failed) => backOff(failed, 0.5));
  assert.deepEqual(pauses, [500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
  assert.ok(backOff(1, 0) < backOff(1, 1));
});

test("red, green and blue stay where they are", () => {
  assert.deepEqual(
    [...withAlpha(new Uint8Array([1, 2, 3, 4, 5, 6]))],
    [1, 2, 3, 255, 4, 5, 6, 255],
  );
});

test("an image's pixels are whole numbers of the screen's, and it fits into the window", () => {
  const square = { width: 224, height: 224 };
  assert.equal(scale(square, { width: 1024, height: 700 }, 1), 1);
  assert.equal(scale(square, { width: 3840, height: 2160 }, 1), 3);
  for (const ratio of [1, 1.25, 1.5, 2, 3]) {
    const factor = scale(square, { width: 1440, height: 900 }, ratio);
    assert.ok(Math.abs(factor * ratio - Math.round(factor * ratio)) < 1e-9);
    assert.ok(factor * 224 <= 900);
  }
  const large = scale({ width: 2048, height: 1000 }, { width: 1024, height: 700 }, 1);
  assert.ok(large * 2048 <= 0.8 * 1024 + 1e-9 && large * 1000 <= 0.8 * 700 + 1e-9);
});

test("random names are valid and differ", () => {
  const names = new Set(Array.from({ length: 200 }, uuid));
  assert.equal(names.size, 200);
  for (const name of names) {
    assert.match(name, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  }
});

test("keys count by their place, not with others held, and not when they repeat", () => {
  const press = (more) => placeOf({ code: "", key: "", ...more }, BLOCK);
  assert.equal(press({ code: "Digit1", key: "&" }), 0);
  assert.equal(press({ code: "KeyZ", key: "y" }), 3);
  assert.equal(press({ code: "Digit2", key: "2" }), 4);
  assert.equal(press({ key: "v" }), 15);
  assert.equal(press({ code: "KeyP", key: "p" }), -1);
  assert.equal(press({ code: "KeyQ", ctrlKey: true }), -1);
  assert.equal(press({ code: "KeyQ", repeat: true }), -1);
});

test("a response is kept before it is sent, forgotten once confirmed, and a flush waits for it", async () => {
  const store = inMemory();
  const seen = [];
  let confirm;
  const queue = new ResponseQueue(store, "me", async (trial) => {
    seen.push([trial, (await store.of("me")).map((each) => each.trial)]);
    await new Promise((resolve) => (confirm = resolve));
    return { stored: true };
  });
  const first = queue.add("a", {});
  let flushed = false;
  const flush = queue.flush().then(() => (flushed = true));
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(seen, [["a", ["a"]]]);
  assert.equal(flushed, false);
  assert.equal(queue.size, 1);
  confirm();
  assert.deepEqual(await first, { stored: true });
  await flush;
  assert.deepEqual(await store.of("me"), []);
  assert.equal(queue.size, 0);
});

test("what an earlier page kept is sent in its order, and only one's own", async () => {
  const store = inMemory();
  await store.put({ trial: "b", owner: "me", order: 2, body: {} });
  await store.put({ trial: "a", owner: "me", order: 1, body: {} });
  await store.put({ trial: "c", owner: "you", order: 0, body: {} });
  const sent = [];
  const queue = new ResponseQueue(store, "me", async (trial) => {
    sent.push(trial);
    return { stored: true };
  });
  await queue.sendKept();
  assert.deepEqual(sent, ["a", "b"]);
  assert.deepEqual((await store.of("you")).length, 1);
});

test("keys are labeled as on the usual keyboard of the study's language", async () => {
  const study = { kind: "categorise", choices: BLOCK.map(() => "cat") };
  const labels = async () => (await choicesOf(study)).map((choice) => choice.printed).join("");
  // as in a browser that does not tell the layout
  Object.defineProperty(globalThis, "navigator", { value: {}, configurable: true });
  assert.equal(await labels(), "1QAZ2WSX3EDC4RFV");
  globalThis.document = { documentElement: { lang: "de" } };
  try {
    assert.equal(await labels(), "1QAY2WSX3EDC4RFV");
    const typed = { code: "", key: "y" };
    assert.equal(BLOCK[placeOf(typed, BLOCK)], "KeyZ");
  } finally {
    delete globalThis.document;
  }
});
