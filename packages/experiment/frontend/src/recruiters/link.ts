// A plain link: no ids in the address and no site to return to.

import type { Recruiter } from "./recruiter";

export const link: Recruiter = {};
