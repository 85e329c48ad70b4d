// A participant's path through a study: the next step follows from the actions so far and the
// server's replies. The timeline decides how it is shown.

import { ApiError } from "./api";
import type { Choice } from "./choices";
import { Feed, type Ready } from "./feed";
import { measurePeriod } from "./frames";
import { Gate } from "./gate";
import { uuid } from "./keep";
import { choicesOf } from "./keys";
import { Masks } from "./masks";
import type { Outcome } from "./plugins/outcome";
import type { Page } from "./plugins/screen";
import { ResponseQueue } from "./queue";
import { RECRUITERS } from "./recruiters";
import { pause } from "./retry";
import { consent, declined, elsewhere, eyesight, eyesightOf, rejected } from "./screens/arrival";
import { beforeMain, beforeTest, goOn, instructions, rest } from "./screens/begin";
import { anotherTab, debrief, failed } from "./screens/end";
import { feedback } from "./screens/feedback";
import type { Session } from "./session";
import { show, type Step, type Steps, type World } from "./steps";
import { text } from "./texts";
import type { Eyesight, ResponseBody, SessionState, StudyInfo, TrialInfo } from "./wire";

const USUAL = 1000 / 60;
const FULL_SCREEN_MS = 500;
const MOMENT = 1_000;
const CALM_MS = 250;

export class Participation {
  private readonly session: Session;
  private readonly queue: ResponseQueue;
  private readonly gate = new Gate();
  private readonly feed: Feed;
  private readonly masks: Masks;
  private readonly measured = measurePeriod();
  private period = USUAL;
  private choices: readonly Choice[] = [];
  private done = 0;
  private breakAt = Infinity;

  constructor(
    private readonly world: World,
    private readonly study: StudyInfo,
  ) {
    this.session = world.session;
    this.queue = new ResponseQueue(world.pending, this.session.owner, (trial, body) =>
      this.session.respond(trial, body),
    );
    this.feed = new Feed(this.session, study.side, this.gate, () => this.queue.flush());
    this.masks = new Masks(study.side);
    window.addEventListener("beforeunload", (event) => {
      if (this.queue.size === 0) return;
      event.preventDefault();
      event.returnValue = true; // required by older browsers
    });
  }

  async *steps(): Steps<void> {
    let state = await this.resume();
    if (!state) {
      if (!this.study.open) {
        yield show(rejected(this.study.closed ? "closed" : "full"));
        return;
      }
      await this.session.checkArrival();
      yield* this.agreed();
      const { action } = this.study.survey === "eyesight" ? yield show(eyesight()) : {};
      yield* this.joined(eyesightOf(action));
      state = await this.resume();
      if (!state) throw new Error("a new token is void");
    }
    if (state.state === "active") {
      this.choices = await choicesOf(this.study);
      yield* this.ready(isFresh(state) ? instructions(this.study, this.choices, state) : goOn(state));
      state = await this.claim();
      state = yield* this.work(state);
    }
    // No warning on leaving: the code is copied, and the link back opens another page.
    if (document.fullscreenElement) await document.exitFullscreen().catch(() => undefined);
    const last = state.state === "failed" ? failed : debrief;
    const { back } = RECRUITERS[this.world.who.platform];
    yield show(last(this.study, state, back ? text(back) : ""));
  }

  /** The consent, until the participant has agreed to it. */
  private async *agreed(): Steps<void> {
    for (;;) {
      const { action } = yield show(consent(this.study));
      if (action === "agree") return;
      yield show(declined());
    }
  }

  /** Join; a participant who began in another browser is asked for the code that it showed. */
  private async *joined(answer: Eyesight | null): Steps<void> {
    for (let code = ""; ; ) {
      try {
        return await this.session.join(answer, code);
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== "elsewhere") throw error;
        code = (yield show(elsewhere(code !== ""))).action ?? "";
      }
    }
  }

  /** Return the participant's progress; null without consent, or if it must be given again. */
  private async resume(): Promise<SessionState | null> {
    if (!this.session.known) return null;
    try {
      // Send responses first: claiming the tab drops trials without a response.
      await this.queue.sendKept();
      return await this.session.state();
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return null;
      throw error;
    }
  }

  private async claim(): Promise<SessionState> {
    const period = await this.measured;
    this.period = period ?? USUAL;
    const state = await this.session.claim(period === null ? null : 1000 / period);
    this.count(state);
    return state;
  }

  /** A page on which the participant confirms to be ready. */
  private async *ready(page: Page): Steps<void> {
    const { action } = yield show(page);
    // The window is resized now, which must not happen while an image is shown.
    if (action === "start-full") await pause(FULL_SCREEN_MS);
    this.world.interrupted = false;
  }

  /** Run trials until there are no more; returns the final state. */
  private async *work(begun: SessionState): Steps<SessionState> {
    let state = begun;
    let last: TrialInfo["phase"] | null = isFresh(state) ? null : phaseOf(state);
    for (;;) {
      try {
        if (this.session.superseded) throw new ApiError(409, "another_tab", "");
        await this.masks.prepare();
        const next = await this.feed.next();
        if (next === "finish") return await this.finish();
        if (next === "failed" || next === "done") return await this.session.state();
        if (last !== next.trial.phase) yield* this.between(last, next.trial.phase);
        last = next.trial.phase;
        if (this.world.interrupted) yield* this.ready(goOn(state, text("continue.connected")));
        await this.calm();
        const { outcome } = yield this.trial(next);
        if (outcome) state = yield* this.handle(next.trial, outcome, state);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.code === "unfinished") {
          await pause(MOMENT);
          continue;
        }
        if (error.code !== "another_tab") throw error;
        yield show(anotherTab());
        await this.queue.flush();
        this.feed.reset();
        state = await this.claim();
        if (state.state !== "active") return state;
        yield* this.ready(goOn(state, text("continue.here")));
        last = phaseOf(state);
      }
    }
  }

  // Let pending replies arrive first, if they come soon: handling them must not delay an image.
  private calm(): Promise<unknown> {
    const quiet = Promise.all([this.queue.flush(), this.feed.rest()]);
    return Promise.race([quiet, pause(CALM_MS)]);
  }

  private trial(ready: Ready): Step {
    return {
      kind: "trial",
      study: this.study,
      ready,
      mask: this.study.kind === "categorise" ? this.masks.take() : null,
      choices: this.choices,
      period: this.period,
      onPhase: (phase) => {
        const { kind, timing } = this.study;
        const calm = phase === "response" || (kind === "same-different" && timing.show_ms === 0);
        if (!calm) return this.gate.close();
        this.gate.open();
        this.feed.poke();
      },
    };
  }

  private async *handle(
    trial: TrialInfo,
    outcome: Outcome,
    before: SessionState,
  ): Steps<SessionState> {
    this.gate.open();
    const body: ResponseBody = {
      uuid: uuid(),
      choice: outcome.choice,
      rt_ms: outcome.rt,
      stamps: outcome.stamps,
      flags: outcome.flags,
    };
    let state = before;
    const sent = this.queue.add(trial.id, body).then((reply) => {
      this.feed.poke();
      if (reply) state = reply.state;
      return reply;
    });
    if (trial.phase === "practice") {
      const reply = await sent;
      if (reply?.feedback) yield show(feedback(this.study, reply.feedback, outcome.choice));
    } else {
      // The session continues, and what cannot be sent now is sent later.
      sent.catch(() => undefined);
    }
    if (trial.phase === "main") this.done += 1;
    if (trial.phase === "main" && this.done >= this.breakAt) {
      await this.queue.flush();
      state = await this.session.state();
      this.count(state);
      if (this.done < state.planned.main) yield* this.ready(rest(state));
    }
    return state;
  }

  // The server counts: a response that it could not use must not cause the break twice.
  private count(state: SessionState): void {
    const { block } = this.study;
    this.done = state.responded.main;
    this.breakAt = (Math.round(this.done / block) + 1) * block;
  }

  private async *between(from: string | null, to: TrialInfo["phase"]): Steps<void> {
    if (from === null) return;
    if (to === "qualification") yield show(beforeTest(this.study));
    if (to === "main") yield show(beforeMain(this.study));
  }

  private async finish(): Promise<SessionState> {
    await this.queue.flush();
    const call = { method: "POST" as const, path: "/api/session/finish", tab: true };
    return this.session.json<SessionState>(call);
  }
}

function isFresh(state: SessionState): boolean {
  return Object.values(state.responded).every((count) => count === 0);
}

function phaseOf(state: SessionState): TrialInfo["phase"] | null {
  return state.phase === "finish" || state.phase === "done" ? null : state.phase;
}
