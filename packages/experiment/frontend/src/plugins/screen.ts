// jsPsych plugins besides trials: a page that waits for an action, and a pause for work.

import { ParameterType, type JsPsych, type JsPsychPlugin, type TrialType } from "jspsych";

/** The content of a page. `done` ends it with the name of the action. */
export interface Page {
  screen: string;
  build(done: (action: string) => void): HTMLElement;
}

const screenInfo = {
  name: "eyechart-screen",
  version: "1.0.0",
  parameters: {
    /** Returns the Page. */
    page: { type: ParameterType.FUNCTION, default: undefined },
  },
  data: {
    /** The action that ended the page. */
    action: { type: ParameterType.STRING },
  },
} as const;

/** Shows a page until one of its actions ends it. */
export class ScreenPlugin implements JsPsychPlugin<typeof screenInfo> {
  static readonly info = screenInfo;

  constructor(private readonly jsPsych: JsPsych) {}

  trial(display: HTMLElement, trial: TrialType<typeof screenInfo>): void {
    const page = trial.page() as Page;
    let over = false;
    const done = (action: string): void => {
      if (over) return;
      over = true;
      ignoreClicks(display);
      this.jsPsych.finishTrial({ action });
    };
    display.append(page.build(done));
    ignoreClicks(display);
    // jsPsych leaves the focus on its container; focus the heading for screen readers.
    display.querySelector<HTMLElement>("h1")?.focus();
    window.scrollTo(0, 0);
  }
}

const DOUBLE_CLICK_MS = 400;
let timer = 0;

// The second click of a double click must not answer the page that follows, or its first trial.
function ignoreClicks(display: HTMLElement): void {
  clearTimeout(timer);
  display.style.pointerEvents = "none";
  timer = window.setTimeout(() => (display.style.pointerEvents = ""), DOUBLE_CLICK_MS);
}

const workInfo = {
  name: "eyechart-work",
  version: "1.0.0",
  parameters: {
    /** Does the work; the trial ends when its promise resolves. */
    work: { type: ParameterType.FUNCTION, default: undefined },
  },
  data: {},
} as const;

/** Waits for work, such as a reply of the server. The work decides what is shown meanwhile. */
export class WorkPlugin implements JsPsychPlugin<typeof workInfo> {
  static readonly info = workInfo;

  constructor(private readonly jsPsych: JsPsych) {}

  trial(display: HTMLElement, trial: TrialType<typeof workInfo>): void {
    void (trial.work(display) as Promise<void>).then(() => this.jsPsych.finishTrial({}));
  }
}
