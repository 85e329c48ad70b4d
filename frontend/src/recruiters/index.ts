// Written by tools/write_wire.py from the server's declarations: not to be edited here.

import type { Platform } from "../wire";
import { link } from "./link";
import { mturk } from "./mturk";
import { prolific } from "./prolific";
import type { Declared, Recruiter } from "./recruiter";

/** What the pages do for a recruiter, and what the server declares of it. */
export const RECRUITERS: Record<Platform, Recruiter & Declared> = {
  link: {
    ...link,
    parameters: [],
    person: "client",
  },
  mturk: {
    ...mturk,
    parameters: ["assignmentId", "hitId", "workerId", "turkSubmitTo"],
    person: "workerId",
  },
  prolific: {
    ...prolific,
    parameters: ["PROLIFIC_PID", "STUDY_ID", "SESSION_ID"],
    person: "PROLIFIC_PID",
  },
};
