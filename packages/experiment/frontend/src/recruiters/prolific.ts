// Prolific: participants are redirected there at the end.

import type { Recruiter } from "./recruiter";

export const prolific: Recruiter = {
  errand: "SESSION_ID",
  back: "back.prolific",
};
