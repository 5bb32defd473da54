// The TypeScript SDK as a client of a server on stdio. Standard input has the server's command and
// the calls, as JSON; standard output gets the names of its tools and the results.
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const { command, args, cwd, env, calls } = JSON.parse(readFileSync(0, "utf8"));
const client = new Client({ name: "rlm-ci-tests", version: "1" });
await client.connect(new StdioClientTransport({ command, args, cwd, env }));
const { tools } = await client.listTools();
const results = [];
for (const [name, given] of calls) {
  results.push(await client.callTool({ name, arguments: given }));
}
await client.close();
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), results }));
