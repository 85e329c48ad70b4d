// Gives tests a module of the page, bundled as the page has it.
import { build } from "esbuild";

export async function load(name) {
  const { outputFiles } = await build({
    entryPoints: [new URL(`../src/${name}.ts`, import.meta.url).pathname],
    bundle: true,
    format: "esm",
    write: false,
    logLevel: "error",
  });
  const text = Buffer.from(outputFiles[0].contents).toString("base64");
  return import(`data:text/javascript;base64,${text}`);
}
