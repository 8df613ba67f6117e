// What happened to a question, and how far has its answer come?

import { at, on } from "./clock.js";
import { el, plain } from "./dom.js";

const WORDS = {
  "received/asked": "The question came", "told/asked": "People were asked", "voted/counted": "answered; more must agree", "voted/decided": "answered, which decided it",
  "voted/invalid": "answered, and it did not fit", "voted/not-eligible": "tried to answer, and may not", "voted/closed": "answered too late", "voted/unjudged": "answered; it could not be checked",
  "receipt/read": "The program read the answer", "receipt/discarded": "The program threw the answer away unread", "receipt/unfinished": "The answer’s text was typed, its Enter was not",
  "receipt/went-on": "The program went on", "receipt/ended": "The task ended; whether the answer was read was not told", "receipt/silent": "The host tells no more of the answer",
  "taken/responded": "The host took the answer", "learnt/responded": "The host had taken the answer", "contested/responded": "The host had taken the answer",
  "cancelasked/cancelling": "wants the task cancelled", "ticked/reminded": "People were reminded", "ticked/expired": "Nobody answered in time", "resumeasked/resumed": "let it go on", "settled/settled": "closed it on their own word",
};

export function auditList(history) {
  return el("ol", { class: "log" }, history.map((entry) => {
    const words = WORDS[`${entry.event}/${entry.outcome}`] ?? `${entry.event}: ${entry.outcome}`;
    const who = entry.principal ? `${plain(entry.principal)}${entry.channel ? ` (${plain(entry.channel)})` : ""} ` : "";
    return el("li", {}, el("time", { dateTime: entry.at }, at(entry.at)),
      el("div", {}, el("p", {}, el("b", {}, who), words, entry.payload ? `: ${plain(JSON.stringify(entry.payload))}` : ""),
        entry.why ? el("p", { class: "hint" }, plain(entry.why)) : null,
        entry.note ? el("p", { class: "hint" }, `Note: ${plain(entry.note)}`) : null));
  }));
}

const TITLES = { recorded: "Recorded", accepted: "Accepted by the host", read: "Read by the program", "went-on": "Went on" };
const LATE_MS = 10_000; // more than clocks differ that are set: it became known here long after it was so

// recorded → accepted → read → went on, as the cockpit has it on record.
export function steps(question) {
  if (!question.progress.length) return null;
  return el("ol", { class: "steps", "aria-label": "How far the answer has come" },
    question.progress.map((step) => el("li", { class: step.state }, el("b", {}, TITLES[step.step]), el("span", {}, [when(step), plain(step.how)].filter(Boolean).join(" · ")))));
}

function when(step) {
  if (!step.at || step.state === "unknown") return "";
  if (!step.said_at || Math.abs(Date.parse(step.at) - Date.parse(step.said_at)) < LATE_MS) return on(step.at);
  return `${on(step.said_at)} by the host’s clock, known here since ${on(step.at)}`;
}
