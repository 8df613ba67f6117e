// What will run, and where?

import { el, plain } from "./dom.js";

export function planView(question, task) {
  const command = task?.command;
  const run = task?.run;
  const facts = task?.facts;
  const rows = [
    ["Host", question.host], ["Task", question.task_id], ["Context", question.context_id],
    ["Command", command?.command ? command.command.map(word).join(" ") : null],
    ["Mode", command?.mode], ["In", command?.working_dir], ["Adapter", command?.adapter],
    ["Time limit", command?.timeout_seconds ? `${command.timeout_seconds} s` : null],
    ["Question found by", facts?.rule ? `${facts.rule} (${facts.kind})` : null],
    ["Default", facts?.default === undefined ? null : facts.default || "Enter alone"],
    ["Mission", question.links.mission], ["Flow", question.links.flow], ["Issue", question.links.issue], ["Trace", question.links.trace],
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
  const parts = [el("dl", { class: "facts" }, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, el("code", {}, plain(value)))]))];
  if (run) parts.push(el("p", { class: "section" }, "As the host says that it runs it"), el("pre", { class: "block" }, plain(JSON.stringify(run, null, 2))));
  if (!command && !run) parts.push(el("p", { class: "hint" }, "The host says no more about what runs."));
  return parts;
}

function word(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`;
}
