// The queue of responses: stored first, then sent one after the other until confirmed.

import { ApiError } from "./api";
import type { Pending, PendingStore } from "./pending";
import type { Acknowledgement, ResponseBody } from "./wire";

type Send = (trial: string, body: ResponseBody) => Promise<Acknowledgement>;

/** Responses of one participant in one study. `size`: number not yet confirmed. */
export class ResponseQueue {
  size = 0;
  private line: Promise<unknown> = Promise.resolve();

  /** `send` must retry until the server has replied. */
  constructor(
    private readonly store: PendingStore,
    private readonly owner: string,
    private readonly send: Send,
  ) {}

  /** Store a response and send it; null if the server can no longer use it. */
  add(trial: string, body: ResponseBody): Promise<Acknowledgement | null> {
    const pending: Pending = { trial, owner: this.owner, order: Date.now(), body };
    this.size += 1;
    return this.deliver(pending, this.store.put(pending));
  }

  /** Send responses that an earlier page left unsent. */
  async sendKept(): Promise<void> {
    const kept = await this.store.of(this.owner);
    this.size += kept.length;
    const sent = await Promise.allSettled(kept.map((pending) => this.deliver(pending)));
    const failed = sent.filter((each) => each.status === "rejected");
    // They stay stored, and are counted when they are sent the next time.
    this.size -= failed.length;
    if (failed[0]) throw failed[0].reason;
  }

  /** Wait until nothing is being sent. */
  async flush(): Promise<void> {
    let line: Promise<unknown>;
    do {
      line = this.line;
      await line;
    } while (line !== this.line);
  }

  // Enqueue immediately, so that a flush from now on waits for it.
  private deliver(pending: Pending, kept?: Promise<void>): Promise<Acknowledgement | null> {
    const sent = this.line.then(() => kept).then(() => this.trySend(pending));
    this.line = sent.catch(() => undefined);
    return sent;
  }

  private async trySend(pending: Pending): Promise<Acknowledgement | null> {
    try {
      const reply = await this.send(pending.trial, pending.body);
      await this.forget(pending);
      return reply;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status === 401) throw error;
      // The trial expired, has a response or is unknown: retrying would change nothing.
      await this.forget(pending);
      return null;
    }
  }

  private async forget(pending: Pending): Promise<void> {
    await this.store.remove(pending.trial);
    this.size -= 1;
  }
}
