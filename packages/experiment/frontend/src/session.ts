// A participant's session in this page: the token, the tab, and other tabs that use it.

import { ApiError, send } from "./api";
import { uuid, type Shelf } from "./keep";
import type { Arrival } from "./recruit";
import { persist, type Connection } from "./retry";
import type {
  Acknowledgement,
  ArrivalRequest,
  Eyesight,
  JoinReply,
  JoinRequest,
  ResponseBody,
  SessionState,
  TabClaim,
} from "./wire";

type Call = { method: "GET" | "POST" | "PUT"; path: string; body?: unknown; tab?: boolean };

/**
 * `superseded`: another tab of this browser continues the session. `deleted`: the participant's
 * data were deleted while this page was open.
 */
export class Session {
  readonly tab = uuid();
  readonly owner: string;
  superseded = false;
  deleted = false;
  private readonly key: string;
  private readonly channel: BroadcastChannel | null;
  private token: string | null;

  constructor(
    private readonly who: Arrival,
    private readonly browser: string,
    private readonly shelf: Shelf,
    private readonly connection: Connection,
  ) {
    this.owner = [who.study, who.platform, who.person].join("|");
    this.key = `eyechart.token|${this.owner}|${who.errand}`;
    this.token = shelf.getItem(this.key);
    this.channel = "BroadcastChannel" in window ? new BroadcastChannel("eyechart") : null;
    this.channel?.addEventListener("message", (event: MessageEvent<unknown>) => {
      if (event.data === this.owner) this.superseded = true;
    });
  }

  /** Whether this participant has given consent here before. */
  get known(): boolean {
    return this.token !== null;
  }

  /**
   * Give consent and join, or rejoin; errors (preview, full, closed, elsewhere) are thrown. `code`:
   * the participant code, with which a session that began in another browser is resumed here.
   */
  async join(eyesight: Eyesight | null = null, code = ""): Promise<void> {
    const body: JoinRequest = {
      platform: this.who.platform,
      ids: this.who.ids,
      consent: true,
      browser: this.browser,
      code,
      eyesight,
      screen: {
        width: screen.width,
        height: screen.height,
        ratio: devicePixelRatio,
      },
    };
    const response = await this.post("sessions", body);
    const joined = (await response.json()) as JoinReply;
    this.token = joined.token;
    this.deleted = false;
    this.shelf.setItem(this.key, joined.token);
  }

  /** Check the ids in the address before consent is asked for; errors are thrown. */
  async checkArrival(): Promise<void> {
    const body: ArrivalRequest = { platform: this.who.platform, ids: this.who.ids };
    await this.post("arrivals", body);
  }

  private post(what: string, body: unknown): Promise<Response> {
    const path = `/api/studies/${encodeURIComponent(this.who.study)}/${what}`;
    return persist(() => send({ method: "POST", path, body }), this.connection);
  }

  /** Make this tab the current one; live trials of other tabs are dropped. */
  async claim(hz: number | null): Promise<SessionState> {
    const body: TabClaim = { tab: this.tab, hz };
    const state = await this.json<SessionState>({ method: "POST", path: "/api/session/tab", body });
    this.superseded = false;
    this.channel?.postMessage(this.owner);
    return state;
  }

  state(): Promise<SessionState> {
    return this.json<SessionState>({ method: "GET", path: "/api/session" });
  }

  respond(trial: string, body: ResponseBody): Promise<Acknowledgement> {
    const path = `/api/trials/${encodeURIComponent(trial)}/response`;
    return this.json<Acknowledgement>({ method: "PUT", path, body });
  }

  json<T>(call: Call): Promise<T> {
    return this.ask(call, async (response) => (await response.json()) as T);
  }

  bytes(path: string): Promise<ArrayBuffer> {
    return this.ask({ method: "GET", path }, (response) => response.arrayBuffer());
  }

  /** Request with retries and parse the reply; rejoins once if the token is no longer valid. */
  private async ask<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    for (let renewed = 0; ; renewed += 1) {
      const token = this.token;
      try {
        return await persist(async () => {
          const tab = call.tab ? { tab: this.tab } : {};
          const { method, path, body } = call;
          return read(await send({ method, path, token, body, ...tab }));
        }, this.connection);
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 401 || renewed >= 3) throw error;
        await this.renew(token, error);
      }
    }
  }

  // Another request or tab may have rejoined meanwhile: its token is the valid one. A token that is
  // invalid for another reason is discarded: a participant whose data were deleted must give
  // consent again, and one who continued in another browser can resume here.
  private async renew(old: string | null, error: ApiError): Promise<void> {
    const stored = this.shelf.getItem(this.key);
    if (stored !== null && stored !== old) {
      this.token = stored;
    } else if (error.code === "expired_token") {
      if (this.token === old) await (this.renewing ??= this.rejoin());
    } else {
      this.token = null;
      this.shelf.removeItem(this.key);
      this.deleted ||= error.code === "deleted";
      throw error;
    }
  }

  private renewing: Promise<void> | null = null;

  private async rejoin(): Promise<void> {
    try {
      await this.join();
    } finally {
      this.renewing = null;
    }
  }
}
