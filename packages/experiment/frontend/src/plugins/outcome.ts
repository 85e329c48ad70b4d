// Shared by both kinds of trial: their outcome, and how they begin.

import type { PhaseClock } from "../frames";
import type { Flag, ResponseBody, Stamp } from "../wire";

/** `stamps` are in ms, except counts of frames. `rt` is in ms. */
export interface Outcome {
  trial_id: string;
  choice: string;
  rt: number | null;
  stamps: ResponseBody["stamps"];
  flags: Flag[];
  [key: string]: unknown;
}

/** Return the onsets of phases, and frame statistics. */
export function stampsOf<Name extends Stamp>(clock: PhaseClock<Name>): ResponseBody["stamps"] {
  const stamps: ResponseBody["stamps"] = {};
  for (const [phase, onset] of clock.onsets) stamps[phase] = tenths(onset);
  const shown = clock.frames("stimulus" as Name);
  if (shown !== null) stamps.stimulus_frames = Math.min(HOUR, shown);
  stamps.frames_dropped = Math.min(HOUR, clock.dropped);
  stamps.longest_frame = tenths(clock.longest);
  stamps.hz = tenths(1000 / clock.period);
  return stamps;
}

/** Start the frame loop once the page's content has been laid out and painted. */
export function settled(tick: (timestamp: number) => void): void {
  requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(tick)));
}

// The server accepts at most an hour, which a tab left open can exceed; the resolution equals
// a browser clock's.
const HOUR = 3_600_000;

export function tenths(value: number): number {
  return Math.min(HOUR, Math.max(0, Math.round(value * 10) / 10));
}
