// The next trials with their pictures, fetched before they are needed.

import { ApiError } from "./api";
import type { Gate } from "./gate";
import { uuid } from "./keep";
import { pictureFrom } from "./pictures";
import { pause } from "./retry";
import type { Session } from "./session";
import type { NextTrial, TrialInfo, TrialKey } from "./wire";

type Next = NextTrial["next"];

/** How many trials are kept ready beside the one that is shown; the server lends three in all. */
const AHEAD = 2;
const MOMENT = 1_000;

export interface Ready {
  trial: TrialInfo;
  pictures: ImageBitmap[];
}

export type Ending = Exclude<Next, "trial" | "wait">;

/** `flush` is to wait until the server has every answer that was given. */
export class Feed {
  private ready: Ready[] = [];
  private fetching: Promise<Next> | null = null;
  private life = 0;
  // the same key again gets the same trial: a new one only once a trial has come
  private key = uuid();

  constructor(
    private readonly session: Session,
    private readonly side: number,
    private readonly gate: Gate,
    private readonly flush: () => Promise<void>,
  ) {}

  /** Fetch ahead in the background, until enough is ready or the server has no more for now. */
  poke(): void {
    if (this.ready.length >= AHEAD) return;
    this.fetch().then(
      (said) => {
        if (said === "trial") this.poke();
      },
      // what goes wrong here goes wrong again when the trial is needed, and is told then
      () => undefined,
    );
  }

  /** Wait until nothing is being fetched. */
  async rest(): Promise<void> {
    while (this.fetching) await this.fetching.catch(() => undefined);
  }

  /** Forget what is ready: it belongs to somebody else now. */
  reset(): void {
    this.life += 1;
    this.fetching = null;
    this.ready = [];
    this.key = uuid();
  }

  /** Return the next trial as soon as it is ready, or how the session ends. */
  async next(): Promise<Ready | Ending> {
    for (let asked = 0; ; asked += 1) {
      const first = this.ready.shift();
      if (first) return first;
      const said = await this.fetch();
      if (said === "trial") continue;
      if (said !== "wait") return said;
      await this.flush();
      if (asked > 0) await pause(MOMENT);
    }
  }

  // one at a time: asking with the same key twice would give the same trial twice
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
    const said = await this.session.json<NextTrial>(call);
    if (!said.trial || life !== this.life) return life === this.life ? said.next : "wait";
    const ready = await this.fetchPictures(said.trial);
    if (life !== this.life) return "wait";
    this.key = uuid();
    if (ready) this.ready.push(ready);
    return "trial";
  }

  private async fetchPictures(trial: TrialInfo): Promise<Ready | null> {
    try {
      const pictures: ImageBitmap[] = [];
      for (const id of trial.pictures) {
        const bytes = await this.session.bytes(`/api/pictures/${encodeURIComponent(id)}`);
        await this.gate.passed();
        pictures.push(await pictureFrom(bytes, this.side));
      }
      return { trial, pictures };
    } catch (error) {
      // its time was over before its picture came: the server has given it to somebody else
      if (error instanceof ApiError && error.code === "no_picture") return null;
      throw error;
    }
  }
}
