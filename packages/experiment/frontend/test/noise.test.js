import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.js";

const { transform, pinkFields, grayBytes, fieldSize } = await load("noise");

// a generator with a seed (mulberry32), so that a failure can be had again
function seeded(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// amplitude at one frequency, straight from the definition of the Fourier transform
function amplitude(field, size, u, v) {
  let re = 0;
  let im = 0;
  for (let y = 0; y < size; y += 1) {
    for (let x = 0; x < size; x += 1) {
      const angle = (-2 * Math.PI * (u * x + v * y)) / size;
      re += field[y * size + x] * Math.cos(angle);
      im += field[y * size + x] * Math.sin(angle);
    }
  }
  return Math.hypot(re, im);
}

test("the fast transform is the sum that defines it", () => {
  const random = seeded(1);
  const re = Float64Array.from({ length: 64 }, random);
  const im = Float64Array.from({ length: 64 }, random);
  const wanted = Array.from({ length: 64 }, (_, k) => {
    let [a, b] = [0, 0];
    for (let n = 0; n < 64; n += 1) {
      const angle = (-2 * Math.PI * k * n) / 64;
      a += re[n] * Math.cos(angle) - im[n] * Math.sin(angle);
      b += re[n] * Math.sin(angle) + im[n] * Math.cos(angle);
    }
    return [a, b];
  });
  transform(re, im);
  wanted.forEach(([a, b], k) => {
    assert.ok(Math.abs(re[k] - a) < 1e-9 && Math.abs(im[k] - b) < 1e-9);
  });
});

test("the amplitude of a mask falls with one over the frequency", () => {
  const random = seeded(2);
  const size = 64;
  const points = [];
  for (let again = 0; again < 6; again += 1) {
    for (const field of pinkFields(size, random)) {
      for (const f of [1, 2, 4, 8, 16, 31]) {
        for (const [u, v] of [
          [f, 0],
          [0, f],
          [f, 1],
          [1, f],
        ]) {
          points.push([Math.log(Math.hypot(u, v)), Math.log(amplitude(field, size, u, v))]);
        }
      }
    }
  }
  const mean = (at) => points.reduce((sum, point) => sum + point[at], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const slope =
    points.reduce((sum, [a, b]) => sum + (a - x) * (b - y), 0) /
    points.reduce((sum, [a]) => sum + (a - x) ** 2, 0);
  assert.ok(Math.abs(slope + 1) < 0.08, `slope ${slope}`);
});

test("two fields made at once have mean 0, variance 1, and nothing in common", () => {
  const random = seeded(3);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const common = [];
  for (let again = 0; again < 100; again += 1) {
    const [a, b] = pinkFields(32, random);
    for (const field of [a, b]) {
      assert.ok(Math.abs(mean(field)) < 1e-9);
      assert.ok(Math.abs(mean(field.map((value) => value * value)) - 1) < 1e-9);
    }
    common.push(mean(a.map((value, i) => value * b[i])));
  }
  // single pairs are alike by chance, since a few large waves make most of them
  const error = Math.sqrt(mean(common.map((value) => value * value)) / common.length);
  assert.ok(Math.abs(mean(common)) < 4 * error, `correlation ${mean(common)}`);
  assert.ok(error < 0.05);
});

test("a mask is gray, opaque, of high contrast, and reaches black and white", () => {
  const size = fieldSize(224);
  assert.equal(size, 256);
  const [field] = pinkFields(size, seeded(4));
  const bytes = grayBytes(field, size, 224);
  assert.equal(bytes.length, 224 * 224 * 4);
  const levels = [];
  for (let at = 0; at < bytes.length; at += 4) {
    assert.ok(bytes[at] === bytes[at + 1] && bytes[at] === bytes[at + 2] && bytes[at + 3] === 255);
    levels.push(bytes[at]);
  }
  const mean = levels.reduce((sum, level) => sum + level, 0) / levels.length;
  const deviation = Math.sqrt(levels.reduce((sum, l) => sum + (l - mean) ** 2, 0) / levels.length);
  assert.ok(deviation > 45, `deviation ${deviation}`);
  assert.equal(
    levels.reduce((a, b) => Math.min(a, b)),
    0,
  );
  assert.equal(
    levels.reduce((a, b) => Math.max(a, b)),
    255,
  );
});

test("fields made in used space are those made in new space", () => {
  const space = pinkFields(32, seeded(6));
  const used = pinkFields(32, seeded(7), space);
  assert.equal(used[0], space[0]);
  assert.deepEqual(used, pinkFields(32, seeded(7)));
});

test("masks of two trials differ", () => {
  const [a] = pinkFields(32, Math.random);
  const [b] = pinkFields(32, Math.random);
  assert.notDeepEqual(a, b);
});
