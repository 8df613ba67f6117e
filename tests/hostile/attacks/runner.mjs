// Which attacks get through from inside a Node program, and what does an honest one still do?
//
// One line of JSON on stdout for each. The request says who the victims are.

import { spawn, spawnSync } from "node:child_process";
import dgram from "node:dgram";
import fs from "node:fs";
import http from "node:http";
import inspector from "node:inspector";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { Worker } from "node:worker_threads";

const request = JSON.parse(fs.readFileSync(process.argv[process.argv.indexOf("--request") + 1], "utf8"));
const t = request.targets;
const say = (line) => fs.writeSync(1, `${JSON.stringify(line)}\n`);

const once = (emitter, done, ...also) =>
  new Promise((resolve, reject) => {
    emitter.once("error", reject);
    for (const name of [done, ...also]) emitter.once(name, resolve);
    setTimeout(() => reject(Object.assign(new Error("nobody answers"), { code: "ETIMEDOUT" })), 3000).unref();
  });

const holds = (text) => (String(text).includes(t.canary) ? "read it" : null);

const attacks = {
  node_reads_secret: () => holds(fs.readFileSync(t.secret)),
  node_reads_secret_by_promise: async () => holds(await fs.promises.readFile(t.secret)),
  node_reads_secret_in_a_worker: async () => {
    const code = `require("worker_threads").parentPort.postMessage(require("fs").readFileSync(${JSON.stringify(t.secret)}, "utf8"))`;
    return holds(await once(new Worker(code, { eval: true }), "message"));
  },
  node_reads_secret_in_a_shell: () => holds(spawnSync("/bin/sh", ["-c", `cat ${t.secret}`]).stdout),
  node_imports_the_key: async () => {
    await import(t.key);
    return "imported it";
  },
  node_writes_outside: () => {
    fs.appendFileSync(t.writable_outside, "node_writes_outside\n");
    return "wrote it";
  },
  node_writes_its_runner: () => {
    fs.appendFileSync(process.argv[1], "// node_writes_its_runner\n");
    return "wrote it";
  },
  node_links_a_secret: () => {
    fs.symlinkSync(t.secret, path.join(t.runs, "node-link"));
    return "linked it";
  },
  node_watches_home: () => {
    fs.watch(path.dirname(t.key)).close();
    return "watches it";
  },
  node_enters_home: () => {
    process.chdir(path.dirname(t.key));
    return "is there";
  },
  node_connects: async () => {
    const socket = net.connect(t.tcp, "127.0.0.1");
    await once(socket, "connect");
    socket.end("node_connects\n");
    return "connected";
  },
  node_connects_to_a_path: async () => {
    const socket = net.connect(t.unix);
    await once(socket, "connect");
    socket.end("node_connects_to_a_path\n");
    return "connected";
  },
  node_calls_the_daemon: async () => {
    await once(http.get({ socketPath: t.api, path: "/healthz" }), "response");
    return "was answered";
  },
  node_listens: async () => {
    const server = net.createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    server.close();
    return "listens";
  },
  node_sends_a_datagram: async () => {
    const socket = dgram.createSocket("udp4");
    await new Promise((resolve, reject) => {
      socket.on("error", reject);
      socket.send("node_sends_a_datagram\n", t.udp, "127.0.0.1", (error) => (error ? reject(error) : resolve()));
    });
    socket.close();
    return "sent";
  },
  node_resolves_a_name: async () => {
    const socket = dgram.createSocket("udp4");
    socket.bind(0);
    await once(socket, "listening");
    socket.close();
    return "may ask";
  },
  node_opens_its_inspector: () => {
    inspector.open(0, "127.0.0.1");
    const url = inspector.url();
    inspector.close();
    return url ? `listens on ${url}` : null;
  },
  node_signals_the_daemon: () => (process.kill(t.daemon, "SIGURG") ? "sent" : null),
  node_signals_the_victim: () => (process.kill(t.victim, 0) ? "it is there" : null),
  node_slows_the_victim: () => {
    os.setPriority(t.victim, 12);
    return "slower";
  },
  node_reads_the_daemons_environment: () => (fs.readFileSync(`/proc/${t.daemon}/environ`).length ? "read it" : null),
  node_finds_secrets_in_its_environment: () =>
    Object.keys(process.env).filter((name) => !t.env_names.includes(name)).join(", ") || null,
  node_leaves_a_child: () => {
    spawn("/bin/sh", ["-c", "trap '' HUP TERM INT; sleep 120"], {
      detached: true,
      stdio: "ignore",
      env: { HOSTILE_TREE: request.leave },
    }).unref();
    return null; // judged outside
  },
};

const honest = {
  reads_its_workspace: () => fs.readFileSync(t.workspace_file, "utf8").startsWith("kept"),
  lists_its_workspace: () => fs.readdirSync(t.root, { recursive: true }).length > 3,
  writes_where_it_may: () => {
    const file = path.join(t.runs, "honest.json");
    fs.writeFileSync(file, "{}");
    fs.renameSync(file, `${file}.done`);
    fs.mkdirSync(path.join(t.runs, "folder/inner"), { recursive: true });
    fs.rmSync(path.join(t.runs, "folder"), { recursive: true });
    return fs.readFileSync(`${file}.done`, "utf8") === "{}";
  },
  has_a_temporary_folder: () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "honest-"));
    fs.writeFileSync(path.join(folder, "x"), "x");
    fs.rmSync(folder, { recursive: true });
    return true;
  },
  has_a_terminal: () => process.stdout.isTTY === true && process.stdout.columns === 80,
  starts_programs: () => String(spawnSync("/bin/sh", ["-c", "echo $((6*7)) | cat"]).stdout).trim() === "42",
  runs_workers: async () => (await once(new Worker("require('worker_threads').parentPort.postMessage(7)", { eval: true }), "message")) === 7,
  compiles_wasm: () => new WebAssembly.Memory({ initial: 1 }).buffer.byteLength === 65536,
  knows_the_machine: () => os.cpus().length >= 1 && os.totalmem() > 0 && os.hostname().length > 0,
  has_random_numbers: () => crypto.randomUUID().length === 36,
  imports_its_neighbours: async () => (await import(path.join(path.dirname(process.argv[1]), "neighbour.mjs"))).default === "here",
};

for (const [name, run] of Object.entries(attacks)) {
  try {
    const got = await run();
    say(got == null ? { attack: name, error: "nothing" } : { attack: name, got });
  } catch (error) {
    say({ attack: name, error: error.code ?? String(error) });
  }
}
for (const [name, run] of Object.entries(honest)) {
  try {
    say({ honest: name, ok: Boolean(await run()) });
  } catch (error) {
    say({ honest: name, ok: false, why: String(error) });
  }
}
say({ done: true });
process.exit(0);
