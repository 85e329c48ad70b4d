// Masks computed in advance: one takes about a frame to compute.

import { emptyFields, fieldSize, grayBytes, pinkFields, type Fields } from "./noise";

/** Returns a new mask for every trial; each is used once. */
export class Masks {
  private readonly ready: ImageBitmap[] = [];
  private readonly size: number;
  private readonly space: Fields;

  constructor(
    private readonly side: number,
    private readonly random: () => number = Math.random,
  ) {
    this.size = fieldSize(side);
    this.space = emptyFields(this.size);
  }

  /** Make more if there is none. To be awaited between trials. */
  async prepare(): Promise<void> {
    if (this.ready.length > 0) return;
    for (const field of pinkFields(this.size, this.random, this.space)) {
      const image = new ImageData(grayBytes(field, this.size, this.side), this.side, this.side);
      this.ready.push(await createImageBitmap(image));
    }
  }

  take(): ImageBitmap {
    const mask = this.ready.pop();
    if (!mask) throw new Error("no mask is ready");
    return mask;
  }
}
