// Retries with exponential backoff, cut short when the browser is back online; also reports the
// state of the connection.

import { ApiError } from "./api";

const FIRST = 500;
const LONGEST = 15_000;

type Listener = (lost: boolean) => void;

/** Whether the last request reached the server, with listeners. */
export class Connection {
  lost = false;
  private readonly listeners = new Set<Listener>();

  /** Call `listener` when the connection is lost or restored; returns a function to stop. */
  listen(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  note(lost: boolean): void {
    if (lost === this.lost) return;
    this.lost = lost;
    for (const listener of this.listeners) listener(lost);
  }
}

/** Pause before the next attempt after `failed` failures, in ms, with random jitter. */
export function backOff(failed: number, chance: number = Math.random()): number {
  return Math.min(LONGEST, FIRST * 2 ** (failed - 1)) * (0.75 + chance / 2);
}

/** Wait this many ms, or until the browser is online again. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    window.addEventListener("online", done);
  });
}

/** Return the result of `attempt`, retrying as needed; a permanent error is thrown. */
export async function persist<T>(attempt: () => Promise<T>, connection: Connection): Promise<T> {
  for (let failed = 1; ; failed += 1) {
    try {
      const value = await attempt();
      connection.note(false);
      return value;
    } catch (error) {
      if (error instanceof ApiError && !error.passing) {
        connection.note(false);
        throw error;
      }
      if (!(error instanceof ApiError) && !unreachable(error)) throw error;
      const busy = error instanceof ApiError && error.status === 429;
      if (!busy) connection.note(true);
      const told = error instanceof ApiError ? error.retryAfter : null;
      await pause(told ?? backOff(failed));
    }
  }
}

// fetch throws TypeError for a lost connection, and AbortError after our timeout.
function unreachable(error: unknown): boolean {
  return error instanceof TypeError || error instanceof DOMException;
}
