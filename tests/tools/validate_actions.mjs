// node validate_actions.mjs FILE...: what GitHub's own language service says of actions and workflows.
// One line a diagnostic, "file:line: message"; exit 1 if there is any.
//
// Bundled by esbuild (see package.json), because the service imports JSON in a way that node refuses.
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { validate } from "@actions/languageservice";
import { TextDocument } from "vscode-languageserver-textdocument";

async function main(files) {
  let found = 0;
  for (const file of files) {
    // The service tells an action from a workflow by its name, and a workflow by its folder.
    const name = /^action\.ya?ml$/.test(basename(file)) ? "action.yml" : ".github/workflows/file.yml";
    const text = readFileSync(file, "utf8");
    const document = TextDocument.create(`file:///${name}`, "yaml", 1, text);
    for (const { range, message } of await validate(document)) {
      console.log(`${file}:${range.start.line + 1}: ${message}`);
      found += 1;
    }
  }
  return found;
}

main(process.argv.slice(2)).then((found) => process.exit(found ? 1 : 0));
