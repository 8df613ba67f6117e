// What else can be done about a question or a mission? None of it is a single click, and most of it asks for a reason.

import { ask } from "./api.js";
import { el, plain } from "./dom.js";

export function questionActions(question, done) {
  const at = `/api/prompts/${question.number}`;
  if (question.phase === "closed") {
    // A host that cannot ask again says so.
    return question.status === "responded" ? null
      : action({ url: `${at}/reissue`, title: "Have it asked again", words: "Where its program still waits, the host asks the same under a new prompt. The list then has it.", done });
  }
  return [
    question.held ? action({ url: `${at}/resume`, title: "Try to find out again", words: "Asks the host once more what became of the answer.", done }) : null,
    question.held ? action({ url: `${at}/settle`, title: "Close it on my word", words: "You take it on yourself to say how it ended; the audit says that it is your word.", label: "How did it end?", done }) : null,
    action({ url: `${at}/cancel`, title: "Deny everything from this task", words: "Cancels the task on its host. Every question of it ends with it, and none is answered.", label: "Reason", kind: "danger", done }),
  ];
}

export function action({ url, title, words, label, kind, done }) {
  const wrong = el("p", { class: "wrong", role: "alert", hidden: true });
  const id = `reason-${url.replaceAll("/", "-")}`;
  const reason = label ? el("input", { type: "text", id, maxLength: 500, required: true }) : null;
  const send = el("button", { type: "submit", class: kind ?? "" }, title);
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
      done(await ask("POST", url, reason ? { reason: reason.value.trim() } : {}));
    } catch (refused) {
      wrong.textContent = plain(refused.message);
      wrong.hidden = false;
    } finally {
      send.disabled = false;
    }
  }
}
