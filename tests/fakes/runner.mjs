// A runner that does what its request file says, one step a line: the tests' real Node process.
// {"steps": [["print", "text\n"], ["ask", "Proceed? [y/N] "], ["sleep", 200], ["exit", 3], …]}
import { spawn } from "node:child_process";
import { appendFileSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

const request = JSON.parse(readFileSync(process.argv[process.argv.indexOf("--request") + 1], "utf8"));
let lines = null;
let answered = () => {};

function nextLine(question) {
  if (lines === null) {
    lines = createInterface({ input: process.stdin, output: process.stdout, terminal: process.stdin.isTTY === true });
    lines.once("close", () => answered(null));
  }
  return new Promise((resolve) => {
    answered = resolve;
    lines.question(question, resolve);
  });
}

const steps = {
  print: (text) => writeSync(1, text),
  error: (text) => writeSync(2, text),
  bytes: (hex) => writeSync(1, Buffer.from(hex, "hex")),
  async ask(question) {
    const answer = await nextLine(question);
    writeSync(1, `answer: ${JSON.stringify(answer)}\n`);
  },
  async keep(question, path) {
    // what was typed into which process, where nobody but this one writes it
    const answer = await nextLine(question);
    appendFileSync(path, `${process.pid} ${answer}\n`);
  },
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  async read(ms) {
    process.stdin.resume(); // waits for an answer for so long, and goes on without one
    await steps.sleep(ms);
    process.stdin.pause();
  },
  exit: (code) => process.exit(code),
  signal: (name) => (process.kill(process.pid, name), new Promise(() => {})),
  env: (name) => writeSync(1, `${name}=${process.env[name] ?? "(unset)"}\n`),
  environment: () => writeSync(1, JSON.stringify(process.env) + "\n"),
  cwd: () => writeSync(1, process.cwd() + "\n"),
  write: (path, text) => writeFileSync(path, text),
  pid: () => writeSync(1, `pid ${process.pid}\n`),
  flood(bytes) {
    const line = "x".repeat(99) + "\n";
    for (let left = bytes; left > 0; left -= line.length) writeSync(1, line.slice(0, Math.min(left, line.length)));
  },
  shell(script) {
    // detached: a session of its own, the way a daemonising child does it
    spawn("/bin/sh", ["-c", script], { detached: true, stdio: "inherit" }).unref();
  },
  ignore: (name) => process.on(name, () => {}),
  hang: () => new Promise(() => setInterval(() => {}, 1000)),
};

for (const [name, ...args] of request.steps) await steps[name](...args);
process.exit(0);
