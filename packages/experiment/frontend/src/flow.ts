// A visit from the first page to the last, including the reasons that prevent taking part.

import { ApiError, send } from "./api";
import { Participation } from "./participation";
import { RECRUITERS } from "./recruiters";
import { persist } from "./retry";
import { isSuitable, isTouchOnly, phone, preview, rejected } from "./screens/arrival";
import { anotherTab, withdrawn } from "./screens/end";
import { show, type Steps, type World } from "./steps";
import { text } from "./texts";
import type { StudyInfo } from "./wire";

/** All steps of a visit. */
export async function* visit(world: World): Steps<void> {
  try {
    const study = await about(world);
    document.title = study.title;
    if (!isSuitable()) yield show(phone(isTouchOnly()));
    if (world.who.preview) {
      const { previewNote } = RECRUITERS[world.who.platform];
      yield show(preview(study, previewNote ? text(previewNote) : ""));
      return;
    }
    yield* new Participation(world, study).steps();
  } catch (error) {
    if (error instanceof ApiError && error.status === 401 && world.session.deleted) {
      yield show(withdrawn());
      return;
    }
    if (error instanceof ApiError && error.status === 401) {
      // The session continued in another browser; renewed consent resumes it in this one.
      yield show(anotherTab());
      location.reload();
      return;
    }
    if (!(error instanceof ApiError)) console.error(error);
    yield show(rejected(error instanceof ApiError ? error.code : "problem"));
  }
}

function about(world: World): Promise<StudyInfo> {
  const path = `/api/studies/${encodeURIComponent(world.who.study)}`;
  return persist(async () => {
    const response = await send({ method: "GET", path });
    return (await response.json()) as StudyInfo;
  }, world.connection);
}
