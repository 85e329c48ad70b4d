// Written by tools/write_wire.py from the server's declarations: not to be edited here.

/** The response is on disk. */
export interface Acknowledgement {
  stored: true;
  feedback: Feedback | null;
  state: SessionState;
}

/** How to go back: `action` and `fields` are a form's, `url` is a redirection's. */
export interface Completion {
  way: "code" | "form" | "redirect";
  code: string;
  action: string;
  url: string;
  fields: Record<string, string>;
}

/** Of a practice trial: whether the answer was right, and what would have been. */
export interface Feedback {
  right: boolean;
  truth: string;
}

export type Flag = "timing" | "hidden" | "blurred_focus" | "slow_decode" | "resized" | "late";

/** A session's token, to be sent as `Authorization: Bearer TOKEN`. */
export interface JoinReply {
  token: string;
  expires_at: string;
  state: string;
}

/** Somebody agrees to take part. `ids`: those of the platform, as they stand in the address. */
export interface JoinRequest {
  platform: Platform;
  ids: Record<string, string>;
  consent: true;
  screen?: ScreenSize;
}

/** What to do next, and the trial if it is one. */
export interface NextTrial {
  trial: TrialInfo | null;
  next: "trial" | "wait" | "finish" | "failed" | "done";
}

/** How many trials each part has; catch trials are counted in the main part. */
export interface PartCounts {
  practice: number;
  qualification: number;
  trials: number;
}

export type Phase = "practice" | "qualification" | "main";

/** A number of trials for each phase. */
export interface PhaseCounts {
  practice: number;
  qualification: number;
  main: number;
}

export type Platform = "link" | "mturk" | "prolific";

/** Why something was refused: a code for programs, a sentence for people. */
export interface Problem {
  code: string;
  message: string;
}

/** A response. `choice` is empty if none was given in time; `stamps` in ms. */
export interface ResponseBody {
  uuid: string;
  choice: string;
  rt_ms: number | null;
  stamps: Partial<Record<Stamp, number>>;
  flags: Flag[];
}

/** What the browser says of the screen. */
export interface ScreenSize {
  width?: number;
  height?: number;
  ratio?: number;
}

/** How far a session is. `right_share`: at the end of a block only. */
export interface SessionState {
  state: "active" | "failed" | "finished";
  phase: Phase | "finish" | "done";
  answered: PhaseCounts;
  planned: PhaseCounts;
  right_share: number | null;
  participant: string;
  completion: Completion | null;
}

export type Stamp = "fixation" | "stimulus" | "blank" | "mask" | "response" | "end" | "frames_dropped" | "longest_frame" | "hz" | "stimulus_frames";

/** What a page must know before anybody has agreed to anything. */
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

/** A browser tab that goes on with the session, and the frames per second that it measured. */
export interface TabClaim {
  tab: string;
  hz?: number | null;
}

/** A trial: ids that say nothing, and which one it is of how many in its phase. */
export interface TrialInfo {
  id: string;
  phase: Phase;
  pictures: string[];
  number: number;
  of: number;
}

/** Asks for a trial. The same key gets the same trial. */
export interface TrialKey {
  key: string;
}

/** Durations in ms; 0 for response_ms and show_ms: until there is an answer. */
export interface TrialTiming {
  fixation_ms: number;
  stimulus_ms: number;
  mask_ms: number;
  response_ms: number;
  show_ms: number;
}
