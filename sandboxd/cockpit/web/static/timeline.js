// What happened to a question, and how far has its answer come?

import { at, on } from "./clock.js";
import { el, plain } from "./dom.js";

const WORDS = {
  "received/asked": "The question came", "told/asked": "People were asked", "voted/counted": "answered; more must agree", "voted/decided": "answered, which decided it",
  "voted/invalid": "answered, and it did not fit", "voted/not-eligible": "tried to answer, and may not", "voted/closed": "answered too late", "voted/unjudged": "answered; it could not be checked",
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

// recorded → accepted → read → went on. `live`: what the host told of the task since: {read, wentOn, isOurs}.
export function steps(question, live) {
  const decided = question.verdict;
  if (!decided) return null;
  const taken = question.history.find((entry) => entry.outcome === "responded");
  const lost = question.phase === "closed" && !taken;
  const rows = [
    ["Recorded", decided.at ? on(decided.at) : "", "done"],
    ["Accepted by the host", taken ? on(taken.at) : lost ? plain(question.reason) : waiting(question), taken ? "done" : lost ? "lost" : "now"],
    ["Read by the program", live.read ? on(live.read) : live.discarded ? "the program threw it away unread, and asks again" : taken ? live.unknown : "", live.read ? "done" : live.discarded ? "lost" : taken && !live.unknown ? "now" : ""],
    ["Went on", taken && live.wentOn ? [live.wentOn.at ? on(live.wentOn.at) : "", plain(live.wentOn.how)].filter(Boolean).join(" · ") : "", taken && live.wentOn ? "done" : ""],
  ];
  return el("ol", { class: "steps", "aria-label": "How far the answer has come" },
    rows.map(([title, text, kind]) => el("li", { class: kind }, el("b", {}, title), el("span", {}, text))));
}

function waiting(question) {
  if (question.held) return "not known; a person has to say how it goes on";
  if (question.phase === "backoff") return `not delivered yet, try ${question.tries} of ${question.tries_max}: ${plain(question.reason)}`;
  if (question.phase === "reconcile") return "being found out";
  return "on its way";
}
