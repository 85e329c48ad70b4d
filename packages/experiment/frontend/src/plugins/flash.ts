// jsPsych plugin: an image for a number of frames, a mask, then a grid of categories.

import { ParameterType, type JsPsych, type JsPsychPlugin, type TrialType } from "jspsych";

import { cell, Choices, type Choice } from "../choices";
import { make } from "../dom";
import { Easel } from "../easel";
import { afterPaint, PhaseClock, type Phase } from "../frames";
import { text } from "../texts";
import { Watch } from "../watch";
import { settled, stampsOf, type Outcome } from "./outcome";

const info = {
  name: "eyechart-flash",
  version: "1.0.0",
  parameters: {
    /** The server's id of the trial; an attribute of the page for tests and robots. */
    trial_id: { type: ParameterType.STRING, default: undefined },
    /** Returns the image and the mask as ImageBitmap (jsPsych would copy objects). */
    image: { type: ParameterType.FUNCTION, default: undefined },
    mask: { type: ParameterType.FUNCTION, default: undefined },
    /** The categories in the order of the grid, column by column, with their keys. */
    choices: { type: ParameterType.OBJECT, array: true, default: undefined },
    /** Width and height of the image in pixels. */
    side: { type: ParameterType.INT, default: undefined },
    fixation_ms: { type: ParameterType.FLOAT, default: undefined },
    stimulus_ms: { type: ParameterType.FLOAT, default: undefined },
    mask_ms: { type: ParameterType.FLOAT, default: undefined },
    /** 0: until the first response. */
    response_ms: { type: ParameterType.FLOAT, default: undefined },
    /** Duration of a frame of this screen in ms. */
    period: { type: ParameterType.FLOAT, default: 1000 / 60 },
    /** Called with the name of each phase as it begins. */
    on_phase: { type: ParameterType.FUNCTION, default: () => undefined },
  },
  data: {
    trial_id: { type: ParameterType.STRING },
    /** The last category chosen while the grid was visible; "" for none. */
    choice: { type: ParameterType.STRING },
    /** From the onset of the grid, in ms; null without a choice. */
    rt: { type: ParameterType.FLOAT },
    /** When phases began (ms since the first), and frame statistics. */
    stamps: { type: ParameterType.OBJECT },
    flags: { type: ParameterType.STRING, array: true },
  },
} as const;

type PhaseName = "fixation" | "stimulus" | "blank" | "mask" | "response";
// jsPsych fills in the defaults before a trial begins.
type Given = Required<TrialType<typeof info>>;

/** Elements that persist from trial to trial, so that nothing has to be built in between. */
class Stage {
  readonly root = make("div", { class: "stage" });
  readonly easel: Easel;
  readonly grid: Choices;

  constructor(
    readonly side: number,
    readonly choices: readonly Choice[],
  ) {
    this.easel = new Easel(side);
    const root = make("div", { class: "grid", role: "group", "aria-label": text("grid.question") });
    this.grid = new Choices(root, choices, (choice) => cell(choice, "button"));
    this.root.append(this.easel.canvas, root);
  }
}

let stage: Stage | null = null;

function stageFor(side: number, choices: readonly Choice[]): Stage {
  const same = stage?.side === side && JSON.stringify(stage.choices) === JSON.stringify(choices);
  if (!stage || !same) stage = new Stage(side, choices);
  return stage;
}

export class FlashPlugin implements JsPsychPlugin<typeof info> {
  static readonly info = info;

  constructor(private readonly jsPsych: JsPsych) {}

  trial(display: HTMLElement, trial: Given): void {
    const { root, easel, grid } = stageFor(trial.side, trial.choices as Choice[]);
    const image = [trial.image() as ImageBitmap];
    const mask = [trial.mask() as ImageBitmap];
    const clock = new PhaseClock<PhaseName>(phasesOf(trial), trial.period);
    const watch = new Watch();
    let choice = "";
    let rt: number | null = null;

    const pick = (name: string, timestamp: number): void => {
      choice = name;
      rt = Math.max(0, timestamp - (clock.seen ?? timestamp));
      if (trial.response_ms === 0) clock.hurry();
    };
    const begin: Record<PhaseName, () => void> = {
      fixation: () => easel.fixation(),
      stimulus: () => {
        const before = performance.now();
        easel.show(image);
        if (performance.now() - before > trial.period) watch.flags.add("slow_decode");
      },
      blank: () => easel.clear(),
      mask: () => easel.show(mask),
      response: () => {
        easel.clear();
        grid.listen(pick);
      },
    };
    const tick = (timestamp: number): void => {
      const now = clock.tick(timestamp, performance.now());
      if (now === "end") {
        finish();
        return;
      }
      if (now) {
        begin[now]();
        root.dataset["phase"] = now;
        afterPaint((painted) => {
          clock.painted(painted);
          trial.on_phase(now);
        });
      }
      requestAnimationFrame(tick);
    };
    const finish = (): void => {
      grid.stop();
      delete root.dataset["phase"];
      for (const bitmap of [...image, ...mask]) bitmap.close();
      if (clock.off("stimulus")) watch.flags.add("timing");
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
  return [
    { name: "fixation", ms: trial.fixation_ms },
    { name: "stimulus", ms: trial.stimulus_ms, punctual: true },
    { name: "blank", ms: trial.period },
    { name: "mask", ms: trial.mask_ms },
    { name: "response", ms: trial.response_ms || Infinity },
  ];
}
