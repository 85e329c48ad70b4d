// Prefetches the next trials with their images.

import { ApiError } from "./api";
import type { Gate } from "./gate";
import { uuid } from "./keep";
import { imageFrom } from "./images";
import { pause } from "./retry";
import type { Session } from "./session";
import type { NextTrial, TrialInfo, TrialKey } from "./wire";

type Next = NextTrial["next"];

/** Number of prefetched trials besides the one shown; the server hands out three in total. */
const AHEAD = 2;
const MOMENT = 1_000;

export interface Ready {
  trial: TrialInfo;
  images: ImageBitmap[];
}

export type Ending = Exclude<Next, "trial" | "wait">;

/** `flush` must wait until the server has every response. */
export class Feed {
  private ready: Ready[] = [];
  private fetching: Promise<Next> | null = null;
  private life = 0;
  // The same key returns the same trial, so a new one is made only after a trial has arrived.
  private key = uuid();

  constructor(
    private readonly session: Session,
    private readonly side: number,
    private readonly gate: Gate,
    private readonly flush: () => Promise<void>,
  ) {}

  /** Prefetch in the background, until enough is ready or the server has no more for now. */
  poke(): void {
    if (this.ready.length >= AHEAD) return;
    this.fetch().then(
      (reply) => {
        if (reply === "trial") this.poke();
      },
      // An error here recurs when the trial is needed, and is reported then.
      () => undefined,
    );
  }

  /** Wait until nothing is being fetched. */
  async rest(): Promise<void> {
    while (this.fetching) await this.fetching.catch(() => undefined);
  }

  /** Discard prefetched trials: they were given to another tab or participant. */
  reset(): void {
    this.life += 1;
    this.fetching = null;
    this.ready = [];
    this.key = uuid();
  }

  /** Return the next trial once it is ready, or how the session ends. */
  async next(): Promise<Ready | Ending> {
    for (let asked = 0; ; asked += 1) {
      const first = this.ready.shift();
      if (first) return first;
      const reply = await this.fetch();
      if (reply === "trial") continue;
      if (reply !== "wait") return reply;
      await this.flush();
      if (asked > 0) await pause(MOMENT);
    }
  }

  // One at a time: two requests with the same key would return the same trial twice.
  private fetch(): Promise<Next> {
    if (!this.fetching) {
      const mine: Promise<Next> = this.fetchOne().finally(() => {
        if (this.fetching === mine) this.fetching = null;
      });
      this.fetching = mine;
    }
    return this.fetching;
  }

  private async fetchOne(): Promise<Next> {
    const life = this.life;
    await this.gate.passed();
    const body: TrialKey = { key: this.key };
    const call = { method: "POST" as const, path: "/api/trials", body, tab: true };
    const reply = await this.session.json<NextTrial>(call);
    if (!reply.trial || life !== this.life) return life === this.life ? reply.next : "wait";
    const ready = await this.fetchImages(reply.trial);
    if (life !== this.life) return "wait";
    this.key = uuid();
    if (ready) this.ready.push(ready);
    return "trial";
  }

  private async fetchImages(trial: TrialInfo): Promise<Ready | null> {
    try {
      const images: ImageBitmap[] = [];
      for (const id of trial.images) {
        const bytes = await this.session.bytes(`/api/images/${encodeURIComponent(id)}`);
        await this.gate.passed();
        images.push(await imageFrom(bytes, this.side));
      }
      return { trial, images };
    } catch (error) {
      // Its lease expired before its image arrived: the server gave it to another participant.
      if (error instanceof ApiError && error.code === "no_image") return null;
      throw error;
    }
  }
}
