// 1/f noise for masks: white noise in the frequency domain, its amplitude divided by the frequency.
// Pure arithmetic; masks.ts turns it into images.

/** In-place unnormalized FFT, e^(−2πi…), of a length that is a power of two. */
export function transform(re: Float64Array, im: Float64Array): void {
  const n = re.length;
  for (let i = 1, j = 0; i < n; i += 1) {
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      [re[i], re[j]] = [re[j]!, re[i]!];
      [im[i], im[j]] = [im[j]!, im[i]!];
    }
  }
  for (let size = 2; size <= n; size <<= 1) {
    const half = size >> 1;
    for (let k = 0; k < half; k += 1) {
      const angle = (-2 * Math.PI * k) / size;
      const cos = Math.cos(angle);
      const sin = Math.sin(angle);
      for (let a = k; a < n; a += size) {
        const b = a + half;
        const x = re[b]! * cos - im[b]! * sin;
        const y = re[b]! * sin + im[b]! * cos;
        re[b] = re[a]! - x;
        im[b] = im[a]! - y;
        re[a] = re[a]! + x;
        im[a] = im[a]! + y;
      }
    }
  }
}

function transformBoth(re: Float64Array, im: Float64Array, size: number): void {
  const row = new Float64Array(size);
  const other = new Float64Array(size);
  for (let y = 0; y < size; y += 1) {
    transform(re.subarray(y * size, (y + 1) * size), im.subarray(y * size, (y + 1) * size));
  }
  for (let x = 0; x < size; x += 1) {
    for (let y = 0; y < size; y += 1) {
      row[y] = re[y * size + x]!;
      other[y] = im[y * size + x]!;
    }
    transform(row, other);
    for (let y = 0; y < size; y += 1) {
      re[y * size + x] = row[y]!;
      im[y * size + x] = other[y]!;
    }
  }
}

/** Return two standard normal numbers. */
function normals(random: () => number): [number, number] {
  const radius = Math.sqrt(-2 * Math.log(1 - random()));
  const angle = 2 * Math.PI * random();
  return [radius * Math.cos(angle), radius * Math.sin(angle)];
}

/** The power of two that holds an image of this side, with a margin against wrap-around. */
export function fieldSize(side: number): number {
  return 2 ** Math.ceil(Math.log2(side + 1));
}

/** Two fields to be filled. */
export type Fields = [Float64Array, Float64Array];

export function emptyFields(size: number): Fields {
  return [new Float64Array(size * size), new Float64Array(size * size)];
}

/**
 * Return two independent fields of size × size with mean 0 and variance 1, whose amplitude falls
 * with 1/f. The real and imaginary parts of a complex field without symmetry are two real ones.
 * They are computed in `space`, which is reused: garbage collection of new buffers could otherwise
 * happen during a trial.
 */
export function pinkFields(
  size: number,
  random: () => number,
  space: Fields = emptyFields(size),
): Fields {
  const [re, im] = space;
  re[0] = im[0] = 0;
  for (let y = 0; y < size; y += 1) {
    const v = Math.min(y, size - y);
    for (let x = 0; x < size; x += 1) {
      const frequency = Math.hypot(v, Math.min(x, size - x));
      if (frequency === 0) continue;
      const [a, b] = normals(random);
      re[y * size + x] = a / frequency;
      im[y * size + x] = b / frequency;
    }
  }
  transformBoth(re, im, size);
  return [standardized(re), standardized(im)];
}

function standardized(field: Float64Array): Float64Array {
  let squares = 0;
  for (const value of field) squares += value * value;
  const deviation = Math.sqrt(squares / field.length);
  for (let i = 0; i < field.length; i += 1) field[i] = field[i]! / deviation;
  return field;
}

/**
 * Return side × side opaque RGBA bytes, the upper left of a field. Two standard deviations on each
 * side of mid-gray fill the range, so that black and white are both reached.
 */
export function grayBytes(
  field: Float64Array,
  size: number,
  side: number,
): Uint8ClampedArray<ArrayBuffer> {
  const bytes = new Uint8ClampedArray(side * side * 4);
  for (let y = 0; y < side; y += 1) {
    for (let x = 0; x < side; x += 1) {
      const at = 4 * (y * side + x);
      bytes[at] = bytes[at + 1] = bytes[at + 2] = 127.5 + 63.75 * field[y * size + x]!;
      bytes[at + 3] = 255;
    }
  }
  return bytes;
}
