// Mechanical Turk: workers see a preview until they accept a HIT, and submit it by a form.

import type { Recruiter } from "./recruiter";

export const mturk: Recruiter = {
  errand: "assignmentId",
  isPreview: (ids) => ids["assignmentId"] === "ASSIGNMENT_ID_NOT_AVAILABLE",
  previewNote: "preview.mturk",
  back: "back.mturk",
};
