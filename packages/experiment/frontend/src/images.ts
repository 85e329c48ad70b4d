// Images as sent by the server, RGB bytes, converted so that they can be drawn immediately.

/** Return opaque RGBA bytes from RGB bytes. */
export function withAlpha(rgb: Uint8Array): Uint8ClampedArray<ArrayBuffer> {
  const rgba = new Uint8ClampedArray((rgb.length / 3) * 4);
  for (let from = 0, to = 0; from < rgb.length; from += 3, to += 4) {
    rgba[to] = rgb[from]!;
    rgba[to + 1] = rgb[from + 1]!;
    rgba[to + 2] = rgb[from + 2]!;
    rgba[to + 3] = 255;
  }
  return rgba;
}

/** Return a square image that is already decoded. */
export function imageFrom(bytes: ArrayBuffer, side: number): Promise<ImageBitmap> {
  if (bytes.byteLength !== side * side * 3) throw new Error("received an image of the wrong size");
  const image = new ImageData(withAlpha(new Uint8Array(bytes)), side, side);
  return createImageBitmap(image, { premultiplyAlpha: "none", colorSpaceConversion: "none" });
}
