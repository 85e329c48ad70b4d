// The canvas of a trial: fixation, images side by side, or only the background.

import { make } from "./dom";

/** Gray 0.454 of full scale, as in the laboratory; the style sheet has the same. */
const BACKGROUND = "rgb(116, 116, 116)";
const SHARE_OF_HEIGHT = 0.36;
const SHARE_OF_SPACE = 0.8;

/**
 * Return the width in CSS pixels of one image pixel: a whole number of device pixels, so that no
 * pixel is blurred or doubled, such that the image takes about a third of the window's height;
 * smaller only for images that would not fit into the window.
 */
export function scale(
  size: { width: number; height: number },
  view: { width: number; height: number },
  ratio: number,
): number {
  const wanted = (SHARE_OF_HEIGHT * view.height * ratio) / size.height;
  const crisp = Math.max(1, Math.floor(wanted)) / ratio;
  const across = (SHARE_OF_SPACE * view.width) / size.width;
  const down = (SHARE_OF_SPACE * view.height) / size.height;
  return Math.min(crisp, across, down);
}

/** Draws a row of `count` square images with this side and gap between them, in pixels. */
export class Easel {
  readonly canvas: HTMLCanvasElement;
  private readonly context: CanvasRenderingContext2D;

  constructor(
    readonly side: number,
    count = 1,
    private readonly gap = 0,
  ) {
    const width = count * side + (count - 1) * gap;
    this.canvas = make("canvas", { width: `${width}`, height: `${side}`, class: "easel" });
    const context = this.canvas.getContext("2d", { alpha: false });
    if (!context) throw new Error("this browser has no canvas");
    this.context = context;
    this.clear();
  }

  /** Size the canvas for the current window; call it between trials only. */
  fit(): void {
    const { width, height } = this.canvas;
    const view = { width: innerWidth, height: innerHeight };
    const factor = scale({ width, height }, view, devicePixelRatio);
    this.canvas.style.width = `${width * factor}px`;
    this.canvas.style.height = `${height * factor}px`;
  }

  clear(): void {
    this.context.fillStyle = BACKGROUND;
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
  }

  /** The outline of a white square in the middle. */
  fixation(): void {
    this.clear();
    const { width, height } = this.canvas;
    const line = Math.max(1, Math.round(this.side / 112));
    const box = Math.max(6, 2 * Math.round(this.side / 20));
    this.context.strokeStyle = "rgb(255, 255, 255)";
    this.context.lineWidth = line;
    this.context.strokeRect((width - box) / 2, (height - box) / 2, box, box);
  }

  show(images: readonly ImageBitmap[]): void {
    this.clear();
    images.forEach((image, place) => {
      this.context.drawImage(image, place * (this.side + this.gap), 0, this.side, this.side);
    });
  }
}
