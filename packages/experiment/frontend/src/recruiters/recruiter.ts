// The pages' interface of a recruitment platform. Each has a file here, named as on the server.

import type { TextKey } from "../texts";

export type Ids = Record<string, string>;

/** The server's declaration of a recruiter: ids in the address, and which is the participant's. */
export interface Declared {
  parameters: readonly string[];
  person: string;
}

/**
 * `errand`: the id of the task, which distinguishes two tasks of one participant. `previewNote`:
 * text shown before the task is accepted. `back`: label of the button that leads back to the site.
 * Both are keys of the catalogues.
 */
export interface Recruiter {
  errand?: string;
  isPreview?: (ids: Ids) => boolean;
  previewNote?: TextKey;
  back?: TextKey;
}
