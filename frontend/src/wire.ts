// Written by tools/write_wire.py from the server's declarations: not to be edited here.

/** Confirms that the response is on disk. */
export interface Acknowledgement {
  stored: true;
  feedback: Feedback | null;
  state: SessionState;
}

/** How to return: `action` and `fields` describe a form, `url` a redirect. */
export interface Completion {
  way: "code" | "form" | "redirect";
  code: string;
  action: string;
  url: string;
  fields: Record<string, string>;
}

/** Feedback on a practice trial: whether the response was correct, and the correct one. */
export interface Feedback {
  correct: boolean;
  truth: string;
}

export type Flag = "timing" | "hidden" | "blurred_focus" | "slow_decode" | "resized" | "late";

/** A session's token, to be sent as `Authorization: Bearer TOKEN`. */
export interface JoinReply {
  token: string;
  expires_at: string;
  state: string;
}

/** A participant gives consent. `ids`: the platform's ids from the address. */
export interface JoinRequest {
  platform: Platform;
  ids: Record<string, string>;
  consent: true;
  screen?: ScreenSize;
}

/** What to do next, with the trial if there is one. */
export interface NextTrial {
  trial: TrialInfo | null;
  next: "trial" | "wait" | "finish" | "failed" | "done";
}

/** Number of trials of each part; catch trials are counted in the main part. */
export interface PartCounts {
  practice: number;
  qualification: number;
  trials: number;
}

export type Phase = "practice" | "qualification" | "main";

/** Number of trials of each phase. */
export interface PhaseCounts {
  practice: number;
  qualification: number;
  main: number;
}

export type Platform = "link" | "mturk" | "prolific";

/** Why a request was rejected: a code for programs, a sentence for users. */
export interface Problem {
  code: string;
  message: string;
}

/** A response. `choice` is empty if there was none in time; `stamps` are in ms. */
export interface ResponseBody {
  uuid: string;
  choice: string;
  rt_ms: number | null;
  stamps: Partial<Record<Stamp, number>>;
  flags: Flag[];
}

/** The screen as the browser reports it. */
export interface ScreenSize {
  width?: number;
  height?: number;
  ratio?: number;
}

/** The progress of a session. `responded`: with a response; `accuracy`: at a block's end. */
export interface SessionState {
  state: "active" | "failed" | "finished";
  phase: Phase | "finish" | "done";
  responded: PhaseCounts;
  planned: PhaseCounts;
  accuracy: number | null;
  participant: string;
  completion: Completion | null;
}

export type Stamp = "fixation" | "stimulus" | "blank" | "mask" | "response" | "end" | "frames_dropped" | "longest_frame" | "hz" | "stimulus_frames";

/** What a page needs before the participant has given consent. */
export interface StudyInfo {
  name: string;
  title: string;
  kind: "categorise" | "same-different";
  consent: string;
  contact: string;
  payment: string;
  minutes: number;
  counts: PartCounts;
  block: number;
  timing: TrialTiming;
  side: number;
  choices: string[];
  open: boolean;
}

/** A browser tab that continues the session, and its measured frames per second. */
export interface TabClaim {
  tab: string;
  hz?: number | null;
}

/** A trial: opaque ids, and its position among the trials of the session. */
export interface TrialInfo {
  id: string;
  phase: Phase;
  images: string[];
  number: number;
  of: number;
}

/** A request for a trial. The same key returns the same trial. */
export interface TrialKey {
  key: string;
}

/** Durations in ms; 0 in response_ms or show_ms means until the response. */
export interface TrialTiming {
  fixation_ms: number;
  stimulus_ms: number;
  mask_ms: number;
  response_ms: number;
  show_ms: number;
}
