// Sixteen silhouettes, drawn for this page on a field of 64 × 64. The first path of an icon is
// filled with the text color, the others with the background color ("cut").

const NAMESPACE = "http://www.w3.org/2000/svg";

interface Icon {
  fill: string;
  cut?: string;
  stroke?: string;
}

const ICONS: Record<string, Icon> = {
  knife: {
    fill: "M58 5C42 10 27 23 17 38l8 8C40 37 53 23 58 5ZM14 41l8 8-12 11c-2 2-5 2-7-.5s-1.5-5 .5-7Z",
    cut: "",
  },
  airplane: {
    fill: "M57 7c-3-3-8-1-11 2L37 18 10 12l-5 5 23 11-10 10-9-1-4 4 11 5 5 11 4-4-1-9 10-10 11 23 5-5-6-27 9-9c3-3 5-8 4-9Z",
  },
  keyboard: {
    fill: "M6 17h52a4 4 0 0 1 4 4v22a4 4 0 0 1-4 4H6a4 4 0 0 1-4-4V21a4 4 0 0 1 4-4Z",
    cut:
      "M8 23h5v5H8ZM16 23h5v5h-5ZM24 23h5v5h-5ZM32 23h5v5h-5ZM40 23h5v5h-5ZM48 23h8v5h-8Z" +
      "M8 31h7v5H8ZM18 31h5v5h-5ZM26 31h5v5h-5ZM34 31h5v5h-5ZM42 31h5v5h-5ZM50 31h6v5h-6Z" +
      "M8 39h5v4H8ZM16 39h29v4H16ZM48 39h8v4h-8Z",
  },
  elephant: {
    fill: "M22 13c-11 0-18 7-18 17 0 3-1 6-2 9l3 1 2-5v18h10V42c4 1 10 1 14 0v11h10V39c3-1 5-3 6-6 1 4 1 8 1 12 0 6 3 9 7 9s7-3 7-8h-4c0 3-1 4-3 4s-2-2-2-5c0-7 0-13-2-19-2-8-8-13-15-13-5 0-8 2-10 3-1-1-3-3-6-3Z",
    cut: "M33 19c-3 4-3 12 1 16 4 1 7-2 8-6l-2-.5c-1 2-3 4-5 4-2-3-2-9 0-12ZM47 23a2 2 0 1 1 0 4 2 2 0 0 1 0-4Z",
  },
  bicycle: {
    fill: "M22 15h10v4h-3l3 6-4 2-4-8h-2ZM42 12h8v4h-5l2 5-4 1Z",
    stroke:
      "M15 28a12 12 0 1 1 0 24 12 12 0 0 1 0-24ZM49 28a12 12 0 1 1 0 24 12 12 0 0 1 0-24ZM15 40l13-16h17L31 40ZM28 22l5 18M44 16l5 24",
  },
  clock: {
    fill: "M32 4a28 28 0 1 1 0 56 28 28 0 0 1 0-56Z",
    cut: "M32 10a22 22 0 1 0 0 44 22 22 0 0 0 0-44ZM32 10",
    stroke: "M32 16v16l11 7M32 12v2M32 50v2M12 32h2M50 32h2",
  },
  oven: {
    fill: "M10 4h44a4 4 0 0 1 4 4v48a4 4 0 0 1-4 4H10a4 4 0 0 1-4-4V8a4 4 0 0 1 4-4Z",
    cut: "M11 18h42v3H11ZM14 29h36v21H14ZM16 8.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7ZM27 8.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7ZM37 8.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7ZM48 8.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7Z",
    stroke: "M18 36h28M18 43h28",
  },
  chair: {
    fill: "M15 4h6v6h20V4h6v30h3a3 3 0 0 1 3 3v3h-5v20h-6V44H22v16h-6V40h-5v-3a3 3 0 0 1 3-3h1Z",
    cut: "M21 15h20v4H21ZM21 24h20v4H21Z",
  },
  bear: {
    fill: "M14 6c-6 0-10 4-10 10 0 4 2 7 5 9-2 3-3 7-3 10 0 13 11 23 26 23s26-10 26-23c0-3-1-7-3-10 3-2 5-5 5-9 0-6-4-10-10-10-4 0-7 2-9 5-3-1-6-1-9-1s-6 0-9 1c-2-3-5-5-9-5Z",
    cut: "M22 24a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7ZM42 24a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7ZM32 33c8 0 13 4 13 10s-5 11-13 11-13-5-13-11 5-10 13-10Z",
    stroke: "M32 42v5M27 49c3 2 7 2 10 0M29.5 38.5h5l-2.5 3Z",
  },
  boat: {
    fill: "M30 4v34H8C15 25 23 15 30 4ZM34 8c9 8 16 18 20 30H34ZM3 42h58c-2 9-7 14-14 16H18C10 56 5 51 3 42Z",
  },
  cat: {
    fill: "M9 5c6 2 11 5 15 9 5-1 11-1 16 0 4-4 9-7 15-9 2 8 2 15 0 21 2 3 3 6 3 10 0 13-11 22-26 22S6 49 6 36c0-4 1-7 3-10-2-6-2-13 0-21Z",
    cut: "M22 29a4 4.5 0 1 1 0 9 4 4.5 0 0 1 0-9ZM42 29a4 4.5 0 1 1 0 9 4 4.5 0 0 1 0-9ZM28.5 42h7L32 46Z",
    stroke: "",
  },
  bottle: {
    fill: "M27 2h10a2 2 0 0 1 2 2v5a2 2 0 0 1-1 2v8c0 3 8 7 8 14v25a4 4 0 0 1-4 4H22a4 4 0 0 1-4-4V33c0-7 8-11 8-14v-8a2 2 0 0 1-1-2V4a2 2 0 0 1 2-2Z",
    cut: "M18 37h28v14H18Z",
  },
  truck: {
    fill: "M2 12h38v34H2ZM43 20h10l9 13v13H43ZM13 40a8 8 0 1 1 0 16 8 8 0 0 1 0-16ZM50 40a8 8 0 1 1 0 16 8 8 0 0 1 0-16Z",
    cut: "M47 24h4l6 9H47ZM13 45a3 3 0 1 1 0 6 3 3 0 0 1 0-6ZM50 45a3 3 0 1 1 0 6 3 3 0 0 1 0-6Z",
  },
  car: {
    fill: "M20 17h19c4 0 7 2 9 5l6 9c5 1 8 4 8 8v8H2v-9c0-4 2-6 6-7l5-9c1-3 4-5 7-5ZM16 39a8 8 0 1 1 0 16 8 8 0 0 1 0-16ZM48 39a8 8 0 1 1 0 16 8 8 0 0 1 0-16Z",
    cut: "M20 21h9v10H14l4-8c0-1 1-2 2-2ZM33 21h6c2 0 4 1 5 3l4 7H33ZM16 44a3 3 0 1 1 0 6 3 3 0 0 1 0-6ZM48 44a3 3 0 1 1 0 6 3 3 0 0 1 0-6Z",
  },
  bird: {
    fill: "M46 8c6 0 10 4 11 9l6 4-7 3c0 16-9 25-23 26l-1 8h-3l-1-8-4 0v8h-3v-9C13 46 6 40 1 34c11 1 17-1 21-5 5-5 9-9 12-14 3-4 7-7 12-7Z",
    cut: "M47 14a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5ZM18 36c6 0 12-2 17-8 1 9-7 15-17 14Z",
  },
  dog: {
    fill: "M44 6l4 6c4 0 7 2 8 5l6 3c1 6-3 9-10 9l-3 1c-1 5-2 9-3 13v16h-7V46c-5-1-10-1-15 0l-2 13h-7V44c-3-3-5-8-5-13-3-2-5-6-5-11l4 0c0 4 2 6 5 6 6-1 14-1 21-2 2-6 4-12 9-18Z",
    cut: "M50 15.5a2 2 0 1 1 0 4 2 2 0 0 1 0-4Z",
  },
};

/** Return the icon of a category; an empty one if it has none. */
export function icon(name: string): SVGSVGElement {
  const drawing = document.createElementNS(NAMESPACE, "svg");
  drawing.setAttribute("viewBox", "0 0 64 64");
  drawing.setAttribute("aria-hidden", "true");
  drawing.setAttribute("class", "icon");
  const { fill = "", cut = "", stroke = "" } = ICONS[name] ?? {};
  for (const [kind, data] of Object.entries({ fill, cut, stroke })) {
    if (!data) continue;
    const path = document.createElementNS(NAMESPACE, "path");
    path.setAttribute("class", kind);
    path.setAttribute("d", data);
    drawing.append(path);
  }
  return drawing;
}
