// Send one request to the server. Messages are declared in wire.ts; retry.ts handles retries.

import type { Problem } from "./wire";

/** An error reply: its code, its message, and the delay before a retry in ms, if given. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }

  /** Whether the same request may succeed later. */
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

/** Send one request. Throws ApiError if rejected, TypeError or DOMException without a reply. */
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
    if (!response.ok) throw await rejection(response);
    return response;
  } finally {
    clearTimeout(timer);
  }
}

async function rejection(response: Response): Promise<ApiError> {
  const wait = Number(response.headers.get("Retry-After"));
  const retryAfter = Number.isFinite(wait) && wait > 0 ? wait * 1000 : null;
  try {
    const problem = (await response.json()) as Partial<Record<keyof Problem, unknown>>;
    const code = typeof problem.code === "string" ? problem.code : "unknown";
    const message = typeof problem.message === "string" ? problem.message : response.statusText;
    return new ApiError(response.status, code, message, retryAfter);
  } catch {
    return new ApiError(response.status, "unknown", response.statusText, retryAfter);
  }
}
