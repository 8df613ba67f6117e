// What else can be done about a question? Each of these asks for a reason, and is no single click.

import { ask } from "./api.js";
import { el, plain } from "./dom.js";

export function moreActions(question, done) {
  if (question.phase === "closed") return null;
  const actions = [];
  if (question.held) {
    actions.push(action(question, done, "resume", "Try to find out again", "Asks the host once more what became of the answer.", null, ""));
    actions.push(action(question, done, "settle", "Close it on my word", "You take it on yourself to say how it ended; the audit says that it is your word.", "How did it end?", ""));
  }
  actions.push(action(question, done, "cancel", "Deny everything from this task", "Cancels the task on its host. Every question of it ends with it, and none is answered.", "Reason", "danger"));
  return actions;
}

function action(question, done, verb, title, words, label, kind) {
  const wrong = el("p", { class: "wrong", role: "alert", hidden: true });
  const id = `${verb}-reason`;
  const reason = label ? el("input", { type: "text", id, maxLength: 500, required: true }) : null;
  const send = el("button", { type: "submit", class: kind }, title);
  return el("details", { class: "more" }, el("summary", {}, title),
    el("form", { class: "field", novalidate: true, onsubmit: submit }, el("p", { class: "hint" }, words), label ? el("label", { htmlFor: id }, label) : null, reason, wrong, el("div", {}, send)));

  async function submit(event) {
    event.preventDefault();
    if (reason && !reason.value.trim()) {
      wrong.textContent = "Say why, in a few words.";
      wrong.hidden = false;
      reason.focus();
      return;
    }
    send.disabled = true;
    try {
      done(await ask("POST", `/api/prompts/${question.number}/${verb}`, reason ? { reason: reason.value.trim() } : {}));
    } catch (refused) {
      wrong.textContent = plain(refused.message);
      wrong.hidden = false;
    } finally {
      send.disabled = false;
    }
  }
}
