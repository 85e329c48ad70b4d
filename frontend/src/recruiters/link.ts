// A plain link: nothing to recognise and nowhere to go back to.

import type { Recruiter } from "./recruiter";

export const link: Recruiter = {};
