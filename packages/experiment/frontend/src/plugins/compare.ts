// jsPsych plugin: two images side by side; were they changed in the same way?

import { ParameterType, type JsPsych, type JsPsychPlugin, type TrialType } from "jspsych";

import { Choices, type Choice } from "../choices";
import { make } from "../dom";
import { Easel } from "../easel";
import { afterPaint, PhaseClock, type Phase } from "../frames";
import { text } from "../texts";
import { Watch } from "../watch";
import { settled, stampsOf, type Outcome } from "./outcome";

const info = {
  name: "eyechart-compare",
  version: "1.0.0",
  parameters: {
    /** The server's id of the trial; an attribute of the page for tests and robots. */
    trial_id: { type: ParameterType.STRING, default: undefined },
    /** Returns the two images as ImageBitmap (jsPsych would copy objects). */
    images: { type: ParameterType.FUNCTION, default: undefined },
    /** The two choices with their keys. */
    choices: { type: ParameterType.OBJECT, array: true, default: undefined },
    /** Width and height of an image in pixels. */
    side: { type: ParameterType.INT, default: 224 },
    fixation_ms: { type: ParameterType.FLOAT, default: undefined },
    /** 0: the images stay until the response. */
    show_ms: { type: ParameterType.FLOAT, default: 0 },
    /** Time to respond after the images disappear; no limit if 0 or if the images stay. */
    response_ms: { type: ParameterType.FLOAT, default: 0 },
    /** Duration of a frame of this screen in ms. */
    period: { type: ParameterType.FLOAT, default: 1000 / 60 },
    /** Called with the name of each phase as it begins. */
    on_phase: { type: ParameterType.FUNCTION, default: () => undefined },
  },
  data: {
    trial_id: { type: ParameterType.STRING },
    /** The response; "" for none. */
    choice: { type: ParameterType.STRING },
    /** From the onset of the images, in ms; null without a response. */
    rt: { type: ParameterType.FLOAT },
    /** When phases began (ms since the first), and frame statistics. */
    stamps: { type: ParameterType.OBJECT },
    flags: { type: ParameterType.STRING, array: true },
  },
} as const;

type PhaseName = "fixation" | "stimulus" | "response";
// jsPsych fills in the defaults before a trial begins
type Given = Required<TrialType<typeof info>>;

class Stage {
  readonly root = make("div", { class: "stage compare" });
  readonly easel: Easel;
  readonly buttons: Choices;

  constructor(
    readonly side: number,
    readonly choices: readonly Choice[],
  ) {
    const question = text("compare.question");
    this.easel = new Easel(side, 2, Math.round(side / 7));
    const root = make("div", { class: "pair", role: "group", "aria-label": question });
    this.buttons = new Choices(root, choices, twoButton);
    this.root.append(make("p", { class: "question" }, question), this.easel.canvas, root);
  }
}

/** A large button with its key. */
export function twoButton(choice: Choice): HTMLElement {
  const attributes = {
    type: "button",
    class: "choice two",
    "data-choice": choice.name,
    "aria-keyshortcuts": choice.printed,
    "aria-pressed": "false",
  };
  const name = make("span", { class: "name" }, choice.label);
  return make("button", attributes, name, make("kbd", {}, choice.printed));
}

let stage: Stage | null = null;

function stageFor(trial: Given): Stage {
  if (stage?.side !== trial.side) {
    stage = new Stage(trial.side, trial.choices as Choice[]);
  }
  return stage;
}

export class ComparePlugin implements JsPsychPlugin<typeof info> {
  static readonly info = info;

  constructor(private readonly jsPsych: JsPsych) {}

  trial(display: HTMLElement, trial: Given): void {
    const { root, easel, buttons } = stageFor(trial);
    const images = trial.images() as ImageBitmap[];
    const clock = new PhaseClock<PhaseName>(phasesOf(trial), trial.period);
    const watch = new Watch();
    let stimulusOnset: number | null = null;
    let choice = "";
    let rt: number | null = null;

    const pick = (name: string, timestamp: number): void => {
      if (choice !== "") return;
      choice = name;
      rt = Math.max(0, timestamp - (stimulusOnset ?? timestamp));
    };
    const begin = (phase: PhaseName): void => {
      if (phase === "fixation") {
        easel.fixation();
      } else if (phase === "stimulus") {
        easel.show(images);
        buttons.listen(pick);
      } else if (trial.show_ms > 0) {
        easel.clear();
      }
      // Images that stay accept a response immediately.
      root.dataset["phase"] = phase === "stimulus" && trial.show_ms === 0 ? "response" : phase;
      afterPaint((now) => {
        clock.painted(now);
        if (phase === "stimulus") stimulusOnset = clock.seen;
        trial.on_phase(phase);
      });
    };
    const tick = (timestamp: number): void => {
      const now = clock.tick(timestamp, performance.now());
      if (now === "end" || choice !== "") {
        clock.end(timestamp);
        finish();
        return;
      }
      if (now) begin(now);
      requestAnimationFrame(tick);
    };
    const finish = (): void => {
      buttons.stop();
      delete root.dataset["phase"];
      for (const image of images) image.close();
      if (trial.show_ms > 0 && clock.onsets.has("response") && clock.off("stimulus")) {
        watch.flags.add("timing");
      }
      const outcome: Outcome = {
        trial_id: trial.trial_id,
        choice,
        rt,
        stamps: stampsOf(clock),
        flags: watch.stop(),
      };
      this.jsPsych.finishTrial(outcome);
    };

    root.dataset["trial"] = trial.trial_id;
    easel.clear();
    easel.fit();
    display.append(root);
    settled(tick);
  }
}

function phasesOf(trial: Given): Phase<PhaseName>[] {
  const forever = trial.show_ms === 0;
  return [
    { name: "fixation", ms: trial.fixation_ms },
    { name: "stimulus", ms: forever ? Infinity : trial.show_ms, punctual: true },
    { name: "response", ms: forever ? 0 : trial.response_ms || Infinity },
  ];
}
