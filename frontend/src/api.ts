// What the server says and is told, and one request to it. No retries here: see retry.ts.

export type Part = "practice" | "qualification" | "main";
export type Platform = "link" | "mturk" | "prolific";
export type Counts = Record<Part, number>;

/** Times of a trial in ms; `response` 0: until there is an answer; `show` 0: likewise. */
export interface Timing {
  fixation_ms: number;
  stimulus_ms: number;
  mask_ms: number;
  response_ms: number;
  show_ms: number;
}

export interface Study {
  name: string;
  title: string;
  kind: "categorise" | "same-different";
  consent: string;
  contact: string;
  payment: string;
  minutes: number;
  counts: { practice: number; qualification: number; trials: number };
  block: number;
  timing: Timing;
  side: number;
  choices: string[];
  open: boolean;
}

/** How to go back: `action` and `fields` are a form's, `url` is a redirection's. */
export interface Completion {
  way: "code" | "form" | "redirect";
  code: string;
  action: string;
  url: string;
  fields: Record<string, string>;
}

export interface State {
  state: "active" | "failed" | "finished";
  phase: Part | "finish" | "done";
  answered: Counts;
  planned: Counts;
  right_share: number | null;
  participant: string;
  completion: Completion | null;
}

export interface Joined {
  token: string;
  expires_at: string;
  state: State["state"];
}

export interface TrialInfo {
  id: string;
  phase: Part;
  pictures: string[];
  number: number;
  of: number;
}

export type Next = "trial" | "wait" | "finish" | "failed" | "done";

export interface Allocation {
  trial: TrialInfo | null;
  next: Next;
}

export interface Feedback {
  right: boolean;
  truth: string;
}

export interface Acknowledged {
  stored: true;
  feedback: Feedback | null;
  state: State;
}

/** What is known of one trial's answer; the body of its request. `stamps` in ms. */
export interface AnswerBody {
  uuid: string;
  choice: string;
  rt_ms: number | null;
  stamps: Record<string, number>;
  flags: string[];
}

/** The server's refusal: its code, its sentence, and in how many ms to ask again if it said so. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }

  /** Whether the same request may well succeed later. */
  get passing(): boolean {
    return this.status >= 500 || this.status === 429 || this.status === 408;
  }
}

export interface Asked {
  method: "GET" | "POST" | "PUT";
  path: string;
  token?: string | null;
  tab?: string;
  body?: unknown;
}

const PATIENCE = 20_000;

/** Send one request; an ApiError for a refusal, a TypeError or DOMException if nothing came back. */
export async function send(request: Asked): Promise<Response> {
  const headers = new Headers();
  if (request.token) headers.set("Authorization", `Bearer ${request.token}`);
  if (request.tab) headers.set("X-Tab", request.tab);
  const init: RequestInit = {
    method: request.method,
    headers,
    cache: "no-store",
    credentials: "omit",
  };
  if (request.body !== undefined) {
    headers.set("Content-Type", "application/json");
    init.body = JSON.stringify(request.body);
  }
  const aborter = new AbortController();
  const timer = setTimeout(() => aborter.abort(), PATIENCE);
  try {
    const response = await fetch(request.path, { ...init, signal: aborter.signal });
    if (!response.ok) throw await refusal(response);
    return response;
  } finally {
    clearTimeout(timer);
  }
}

async function refusal(response: Response): Promise<ApiError> {
  const wait = Number(response.headers.get("Retry-After"));
  const retryAfter = Number.isFinite(wait) && wait > 0 ? wait * 1000 : null;
  try {
    const said = (await response.json()) as { code?: unknown; message?: unknown };
    const code = typeof said.code === "string" ? said.code : "unknown";
    const message = typeof said.message === "string" ? said.message : response.statusText;
    return new ApiError(response.status, code, message, retryAfter);
  } catch {
    return new ApiError(response.status, "unknown", response.statusText, retryAfter);
  }
}
