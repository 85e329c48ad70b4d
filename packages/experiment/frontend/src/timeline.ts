// The jsPsych timeline: one loop that requests the next step and shows it.

import { JsPsych } from "jspsych";

import type { Result, Step, World } from "./steps";
import { ComparePlugin } from "./plugins/compare";
import { FlashPlugin } from "./plugins/flash";
import type { Outcome } from "./plugins/outcome";
import { ScreenPlugin, WorkPlugin } from "./plugins/screen";
import { waiting } from "./waiting";

/** Show steps in `root` until there are no more. */
export async function run(
  steps: AsyncGenerator<Step, void, Result>,
  world: World,
  root: HTMLElement,
): Promise<void> {
  let step: Step | null = null;
  let result: Result = {};
  const is = (kind: string) => () => step !== null && kindOf(step) === kind;
  const trial = () => step as Extract<Step, { kind: "trial" }>;
  const timing = (name: keyof Extract<Step, { kind: "trial" }>["study"]["timing"]) => () =>
    trial().study.timing[name];

  const next = async (display: HTMLElement): Promise<void> => {
    const over = waiting(display, world, root);
    const found = await steps.next(result);
    over();
    step = found.done ? null : found.value;
    if (step) root.dataset["screen"] = step.kind === "page" ? step.page.screen : "trial";
    if (step?.kind === "trial") root.dataset["part"] = step.ready.trial.phase;
    else delete root.dataset["part"];
  };
  const shared = {
    trial_id: () => trial().ready.trial.id,
    choices: () => trial().choices,
    side: () => trial().study.side,
    fixation_ms: timing("fixation_ms"),
    response_ms: timing("response_ms"),
    period: () => trial().period,
    on_phase: (phase: string) => trial().onPhase(phase),
    on_finish: (data: Record<string, unknown>) => {
      result = { outcome: data as unknown as Outcome };
    },
  };
  const page = {
    type: ScreenPlugin,
    page: () => (step as Extract<Step, { kind: "page" }>).page,
    on_finish: (data: Record<string, unknown>) => {
      result = { action: String(data["action"]) };
    },
  };
  const flash = {
    type: FlashPlugin,
    ...shared,
    image: () => trial().ready.images[0],
    mask: () => trial().mask,
    stimulus_ms: timing("stimulus_ms"),
    mask_ms: timing("mask_ms"),
  };
  const compare = {
    type: ComparePlugin,
    ...shared,
    images: () => trial().ready.images,
    show_ms: timing("show_ms"),
  };

  // No audio is used, and browsers warn about an audio context without a user gesture.
  const jsPsych = new JsPsych({ display_element: root, use_webaudio: false });
  await jsPsych.run([
    {
      timeline: [
        { type: WorkPlugin, work: next },
        { timeline: [page], conditional_function: is("page") },
        { timeline: [flash], conditional_function: is("categorise") },
        { timeline: [compare], conditional_function: is("same-different") },
      ],
      loop_function: () => step !== null,
    },
  ]);
}

function kindOf(step: Step): string {
  return step.kind === "page" ? "page" : step.study.kind;
}
