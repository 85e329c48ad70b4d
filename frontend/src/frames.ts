// Frames of the screen: how long one lasts here, and which phase of a trial each belongs to.

const USUAL = 1000 / 60;
const ENOUGH = 60;
const PATIENCE = 5_000;

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Measure how long a frame lasts, in ms; null if the screen showed too few to tell. */
export function measurePeriod(intervals: number = ENOUGH): Promise<number | null> {
  return new Promise((resolve) => {
    const found: number[] = [];
    let last: number | null = null;
    let handle = 0;
    const stop = (): void => {
      cancelAnimationFrame(handle);
      clearTimeout(timer);
      resolve(found.length >= intervals / 2 ? median(found) : null);
    };
    const timer = setTimeout(stop, PATIENCE);
    const tick = (timestamp: number): void => {
      // some browsers call twice for one frame
      if (last !== null && timestamp > last) found.push(timestamp - last);
      last = timestamp;
      if (found.length >= intervals) stop();
      else handle = requestAnimationFrame(tick);
    };
    handle = requestAnimationFrame(tick);
  });
}

/**
 * A part of a trial and how long it is meant to last, in ms; Infinity: until something happens.
 * `punctual`: begins only with a frame that the browser is not late for.
 */
export interface Phase<Name extends string> {
  name: Name;
  ms: number;
  punctual?: boolean;
}

// a browser that is never on time must not keep the trial from going on
const MOST_WAITS = 10;

// of a frame: the message that it is painted comes a little later than the painting
const SLACK = 0.1;

/**
 * Says at each frame which phase is to be drawn in it, and when it came to the screen.
 *
 * What is drawn in a frame is seen when the next one begins, or later if the browser is busy before
 * it has painted; `painted` tells. A phase is followed by the next as soon as that would be seen at
 * least the phase's length minus half a frame after it was seen itself. So it lasts the nearest
 * whole number of frames, and neither lateness within a phase nor that of its first frame changes
 * how long the others are seen. Phases of no length are left out.
 */
export class PhaseClock<Name extends string> {
  /** When each phase came to the screen, ms since the first one did. */
  readonly onsets = new Map<Name | "end", number>();
  dropped = 0;
  longest = 0;
  private readonly phases: readonly Phase<Name>[];
  private current = -1;
  private first: number | null = null;
  private drawn = 0;
  private onset: number | null = null;
  private last = 0;
  private waits = 0;
  private hurried = false;

  constructor(
    phases: readonly Phase<Name>[],
    readonly period: number = USUAL,
  ) {
    this.phases = phases.filter((phase) => phase.ms > 0);
  }

  get phase(): Name | null {
    return this.phases[this.current]?.name ?? null;
  }

  /** When the phase that runs came to the screen, on the clock of the frames; null: not yet. */
  get seen(): number | null {
    return this.onset;
  }

  /**
   * Take note of a frame that begins at `timestamp` and is worked on since `now`; returns the phase
   * to be drawn in it, "end" after the last, or null if nothing changes.
   */
  tick(timestamp: number, now: number = timestamp): Name | "end" | null {
    if (this.current >= 0) {
      this.watch(timestamp - this.last);
      if (this.onset === null) this.confirm(timestamp);
    }
    this.last = timestamp;
    if (!this.isDue(timestamp)) return null;
    const next = this.phases[this.current + 1];
    if (next?.punctual && now - timestamp > this.period / 2 && this.waits < MOST_WAITS) {
      this.waits += 1;
      return null;
    }
    return this.advance(timestamp);
  }

  /** Tell that the browser has painted the frame in which a phase was drawn. */
  painted(now: number): void {
    if (this.onset !== null) return;
    const frames = Math.max(1, Math.ceil((now - this.drawn) / this.period - SLACK));
    this.confirm(this.drawn + frames * this.period);
  }

  /** End the phase that runs with the next frame, whatever its length. */
  hurry(): void {
    this.hurried = true;
  }

  /** End everything as if the last phase were over. */
  end(timestamp: number): void {
    this.onsets.set("end", timestamp + this.period - (this.first ?? timestamp));
  }

  /** How many frames a phase lasted; null if it did not end. */
  frames(name: Name): number | null {
    const names: (Name | "end")[] = [...this.phases.map((phase) => phase.name), "end"];
    const from = this.onsets.get(name);
    const to = this.onsets.get(names[names.indexOf(name) + 1] ?? "end");
    if (from === undefined || to === undefined) return null;
    return Math.round((to - from) / this.period);
  }

  /** Whether a phase was more than one frame shorter or longer than meant. */
  off(name: Name): boolean {
    const meant = this.phases.find((phase) => phase.name === name)?.ms ?? 0;
    const frames = this.frames(name);
    return frames !== null && Math.abs(frames - Math.round(meant / this.period)) > 1;
  }

  private isDue(timestamp: number): boolean {
    const phase = this.phases[this.current];
    if (!phase || this.onset === null) return this.current < 0;
    if (this.hurried) return true;
    return timestamp + this.period - this.onset >= phase.ms - this.period / 2;
  }

  private advance(timestamp: number): Name | "end" {
    this.current += 1;
    this.drawn = timestamp;
    this.onset = null;
    this.hurried = false;
    if (this.phase === null) {
      this.end(timestamp);
      return "end";
    }
    return this.phase;
  }

  private confirm(onset: number): void {
    this.first ??= onset;
    this.onset = onset;
    if (this.phase !== null) this.onsets.set(this.phase, onset - this.first);
  }

  private watch(gap: number): void {
    this.longest = Math.max(this.longest, gap);
    this.dropped += Math.max(0, Math.round(gap / this.period) - 1);
  }
}

/** Call back once the frame that is being worked on has been painted. */
export function afterPaint(callback: (now: number) => void): void {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => {
    channel.port1.close();
    callback(performance.now());
  };
  // a message comes after the frame's own work, unlike a promise, and sooner than a timer
  channel.port2.postMessage(null);
}
