// The recruitment platform that the participant came from, parsed from the page's address.

import { RECRUITERS } from "./recruiters";
import type { Ids } from "./recruiters/recruiter";
import type { Platform } from "./wire";

/**
 * `person` identifies the participant within this browser; `errand` identifies the task: someone
 * who accepts a second task must be able to submit that one.
 */
export interface Arrival {
  study: string;
  platform: Platform;
  ids: Ids;
  person: string;
  errand: string;
  preview: boolean;
}

/** Return the participant and the study; `client` is the browser's random id, for plain links. */
export function arrival(pathname: string, search: string, client: string): Arrival {
  const study = decoded(pathname.replace(/\/+$/, "").split("/").pop() ?? "");
  const query = new URLSearchParams(search);
  const platform = platformOf(query);
  const recruiter = RECRUITERS[platform];
  const ids = picked(query, recruiter.parameters);
  if (platform === "link") ids[recruiter.person] = client;
  const person = ids[recruiter.person] ?? "";
  const errand = recruiter.errand ? (ids[recruiter.errand] ?? "") : "";
  return { study, platform, ids, person, errand, preview: recruiter.isPreview?.(ids) ?? false };
}

// A site is recognized by the first of its ids: the others may be missing.
function platformOf(query: URLSearchParams): Platform {
  const names = Object.keys(RECRUITERS) as Platform[];
  const found = names.find((name) => query.has(RECRUITERS[name].parameters[0] ?? ""));
  return found ?? "link";
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function picked(query: URLSearchParams, names: readonly string[]): Ids {
  const ids: Ids = {};
  for (const name of names) {
    const value = query.get(name);
    if (value !== null) ids[name] = value;
  }
  return ids;
}
