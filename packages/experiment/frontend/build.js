// Bundles the page of a study into the Python package: one script, one style sheet, nothing else.
import { readFileSync } from "node:fs";
import { build } from "esbuild";

const notices = readFileSync("NOTICES.txt", "utf8").trimEnd();

await build({
  entryPoints: { app: "src/main.ts" },
  outdir: "../src/eyechart_experiment/static",
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome100", "firefox100", "safari15.4"],
  legalComments: "none",
  banner: { js: `/*\n${notices}\n*/` },
  logLevel: "warning",
});
