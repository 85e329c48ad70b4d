// Display frames: their duration on this screen, and the phase of a trial each belongs to.

const USUAL = 1000 / 60;
const ENOUGH = 60;
const PATIENCE = 5_000;

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Measure the duration of a frame in ms; null if there were too few frames. */
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
      // Some browsers call back twice for one frame.
      if (last !== null && timestamp > last) found.push(timestamp - last);
      last = timestamp;
      if (found.length >= intervals) stop();
      else handle = requestAnimationFrame(tick);
    };
    handle = requestAnimationFrame(tick);
  });
}

/**
 * A phase of a trial and its planned duration in ms; Infinity: until an event ends it.
 * `punctual`: begins only in a frame that is on time.
 */
export interface Phase<Name extends string> {
  name: Name;
  ms: number;
  punctual?: boolean;
}

// A browser that is never on time must not block the trial.
const MOST_WAITS = 10;

// In frames: the message that a frame was painted arrives slightly after the painting.
const SLACK = 0.1;

/**
 * Decides in each frame which phase to draw, and when it appeared on the screen.
 *
 * What is drawn in a frame is visible when the next one begins, or later if the browser is busy
 * before painting; `painted` reports that. The next phase starts as soon as it would be visible at
 * least the phase's duration minus half a frame after the phase itself became visible. So a phase
 * lasts the nearest whole number of frames, and a delay within a phase or in its first frame does
 * not change the duration of the others. Phases of duration 0 are skipped.
 */
export class PhaseClock<Name extends string> {
  /** When each phase became visible, in ms since the first one. */
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

  /** When the current phase became visible, on the frames' clock; null: not yet. */
  get seen(): number | null {
    return this.onset;
  }

  /**
   * Register a frame that begins at `timestamp` and is processed since `now`; returns the phase to
   * draw in it, "end" after the last, or null if nothing changes.
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

  /** Report that the browser has painted the frame in which a phase was drawn. */
  painted(now: number): void {
    if (this.onset !== null) return;
    const frames = Math.max(1, Math.ceil((now - this.drawn) / this.period - SLACK));
    this.confirm(this.drawn + frames * this.period);
  }

  /** End the current phase with the next frame, regardless of its duration. */
  hurry(): void {
    this.hurried = true;
  }

  /** End the trial as if the last phase were over. */
  end(timestamp: number): void {
    this.onsets.set("end", timestamp + this.period - (this.first ?? timestamp));
  }

  /** Number of frames that a phase lasted; null if it did not end. */
  frames(name: Name): number | null {
    const names: (Name | "end")[] = [...this.phases.map((phase) => phase.name), "end"];
    const from = this.onsets.get(name);
    const to = this.onsets.get(names[names.indexOf(name) + 1] ?? "end");
    if (from === undefined || to === undefined) return null;
    return Math.round((to - from) / this.period);
  }

  /** Whether a phase was more than one frame shorter or longer than planned. */
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

/** Call back once the current frame has been painted. */
export function afterPaint(callback: (now: number) => void): void {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => {
    channel.port1.close();
    callback(performance.now());
  };
  // A message arrives after the frame's work, unlike a promise, and sooner than a timer.
  channel.port2.postMessage(null);
}
