// What a recruiting site is to the pages. Each has a file here, of the name that the server knows.

export type Ids = Record<string, string>;

/** What the server declares of a recruiter: the ids in the address, and whose name one of them is. */
export interface Declared {
  parameters: readonly string[];
  person: string;
}

/**
 * `errand`: the id of what somebody came for, by which two tasks of one person are told apart.
 * `previewNote`: what somebody reads who has not accepted the task. `back`: the words on the button
 * that leads back there.
 */
export interface Recruiter {
  errand?: string;
  isPreview?: (ids: Ids) => boolean;
  previewNote?: string;
  back?: string;
}
