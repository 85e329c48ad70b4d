// Where a participant comes from, read off the page's address.

import type { Platform } from "./api";

const MTURK = ["assignmentId", "hitId", "workerId", "turkSubmitTo"];
const PROLIFIC = ["PROLIFIC_PID", "STUDY_ID", "SESSION_ID"];
const PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE";

/**
 * `person` tells participants of this platform apart, within this browser; `errand` what they came
 * for: someone who takes up a second task must be able to hand in that one.
 */
export interface Arrival {
  study: string;
  platform: Platform;
  ids: Record<string, string>;
  person: string;
  errand: string;
  preview: boolean;
}

/** Return who comes to which study; `client` is the browser's own id, for plain links. */
export function arrival(pathname: string, search: string, client: string): Arrival {
  const study = decoded(pathname.replace(/\/+$/, "").split("/").pop() ?? "");
  const query = new URLSearchParams(search);
  if (query.has("assignmentId")) {
    const ids = picked(query, MTURK);
    const { workerId: person = "", assignmentId: errand = "" } = ids;
    return { study, platform: "mturk", ids, person, errand, preview: errand === PREVIEW };
  }
  if (query.has("PROLIFIC_PID")) {
    const ids = picked(query, PROLIFIC);
    const { PROLIFIC_PID: person = "", SESSION_ID: errand = "" } = ids;
    return { study, platform: "prolific", ids, person, errand, preview: false };
  }
  return { study, platform: "link", ids: { client }, person: client, errand: "", preview: false };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function picked(query: URLSearchParams, names: string[]): Record<string, string> {
  const ids: Record<string, string> = {};
  for (const name of names) {
    const value = query.get(name);
    if (value !== null) ids[name] = value;
  }
  return ids;
}
