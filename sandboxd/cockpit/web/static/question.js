// One question: what is asked, the answer, how it goes on, and the evidence.

import { ask } from "./api.js";
import { AnswerForm } from "./answer.js";
import { left, leftMs, on, spoken } from "./clock.js";
import { announce, el, plain, replace, shown } from "./dom.js";
import { phaseWord, statusTag, whoMayInWords } from "./inbox.js";
import { questionActions } from "./actions.js";
import { planView } from "./plan.js";
import { TerminalView } from "./terminal.js";
import { auditList, steps } from "./timeline.js";

const SHOWN_MAX = 1600; // characters of a question, until somebody wants all of it
const HEAD = 500; // … of which so many are its beginning; what is asked stands at its end
const TABS = [["terminal", "Terminal"], ["plan", "What will run"], ["audit", "Audit"]];

export class QuestionView {
  constructor(number, back) {
    this.number = number;
    this.task = null;
    this.tab = "terminal";
    this.parts = Object.fromEntries(["head", "text", "facts", "banner", "form", "steps", "more"].map((name) => [name, el("div")]));
    this.timer = el("p", { class: "timer", role: "timer" });
    this.evidence = el("section", { class: "evidence", "aria-label": "Evidence" });
    this.view = el("div", { class: "detail", id: "detail", tabIndex: -1 },
      el("button", { type: "button", class: "plain back", onclick: back }, "‹ All questions"),
      this.parts.head, this.parts.text, this.parts.banner, this.parts.form, this.parts.steps, this.parts.facts, this.evidence, this.parts.more);
  }

  async open() {
    await this.refresh();
    this.terminal = new TerminalView(this.question.host, this.question.task_id, (told) => this.heard(told));
    this.makeEvidence();
    this.terminal.open();
  }

  close() {
    this.isClosed = true;
    this.terminal?.close();
  }

  async refresh() {
    const said = await ask("GET", `/api/prompts/${this.number}`);
    if (!this.isClosed) this.set(said.prompt);
  }

  set(question) {
    const before = this.question;
    if (before && before.rev > question.rev) return;
    this.question = question;
    const isOpen = question.phase === "open";
    replace(this.parts.head, el("div", { class: "head" }, el("h2", {}, `Question ${question.number}`), el("span", { class: "tag accent" }, plain(question.host)),
      question.phase === "closed" ? statusTag(question) : isOpen ? null : el("span", { class: "tag warn" }, phaseWord(question)), this.timer));
    if (!before) replace(this.parts.text, this.asks(question.question));
    replace(this.parts.facts, this.facts(question));
    replace(this.parts.banner, this.banner(question));
    this.setForm(question, before);
    replace(this.parts.steps, steps(question));
    if (!before || before.phase !== question.phase || before.held !== question.held) replace(this.parts.more, questionActions(question, (said) => this.set(said.prompt)));
    if (this.audit) this.drawAudit();
    if (before && before.phase === "open" && !isOpen) announce(this.closedWords(question));
    this.tick();
  }

  // The buttons stand as long as the question does, with whatever was typed beside them, and not a moment longer.
  setForm(question) {
    if (question.phase === "open" && question.may_answer) {
      if (!this.form) {
        this.form = new AnswerForm(question, (said) => this.set(said.prompt));
        this.form.told(this.task?.facts);
        replace(this.parts.form, this.form.view);
        if (this.typed) this.form.restore(this.typed, question.status === "invalid" ? question.reason : "");
      }
      return;
    }
    if (this.form?.view.contains(document.activeElement)) this.view.focus();
    this.typed = this.form?.typed() ?? this.typed; // the host may yet say that it does not fit
    this.form = null;
    replace(this.parts.form);
  }

  asks(text) {
    const box = el("div", { class: "asks", dir: "auto" });
    if (text.length <= SHOWN_MAX) { replace(box, shown(text)); return box; }
    const left = el("span", { class: "odd" }, `⟨${text.length - SHOWN_MAX} characters are not shown here⟩`);
    replace(box, shown(text.slice(0, HEAD)), "\n", left, "\n", shown(text.slice(HEAD - SHOWN_MAX)));
    const rest = el("button", { type: "button", class: "plain", onclick: () => { replace(box, shown(text)); rest.remove(); } }, `Show all ${text.length} characters`);
    return [box, rest];
  }

  facts(question) {
    const rows = [
      ["Asked", on(question.asked_at)],
      ["Answer by", `${on(question.closes_at)} (${plain(question.closes_because)})`],
      ["May answer", whoMayInWords(question)],
      question.responders.barred.length ? ["May not", question.responders.barred.map(plain).join(", ")] : null,
      question.votes.length ? [question.phase === "closed" ? "Answers" : "Answered so far", question.votes.map((vote) => `${plain(vote.person)} by ${plain(vote.channel)}${vote.payload ? `: ${plain(JSON.stringify(vote.payload))}` : ""}`).join("; ")] : null,
      question.misfits ? ["Did not fit", `${question.misfits} of ${question.misfits_max}`] : null,
    ].filter(Boolean);
    return el("dl", { class: "facts" }, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  }

  banner(question) {
    const wayOut = question.way_out ? el("p", {}, "Way out: ", plain(question.way_out)) : null;
    if (question.phase === "closed") {
      const kind = question.status === "responded" ? "good" : question.status === "cancelled" ? "" : "warn";
      return el("div", { class: `box ${kind}` }, el("p", {}, el("b", {}, this.closedWords(question)), question.reason ? ` ${plain(question.reason)}` : ""), wayOut);
    }
    if (question.responders.dead_end) return el("div", { class: "box bad" }, el("p", {}, el("b", {}, "Nobody can answer this. "), plain(question.responders.dead_end)), wayOut);
    if (question.held) return el("div", { class: "box warn" }, el("p", {}, el("b", {}, "What became of the answer cannot be found out. "), plain(question.reason)), wayOut);
    if (question.phase !== "open") return el("div", { class: "box" }, el("p", {}, el("b", {}, `The answer is ${phaseWord(question)}. `), plain(question.reason)), wayOut);
    if (!question.may_answer) return el("p", { class: "box" }, "You may look at this question, and not answer it.");
    if (question.has_voted) return el("p", { class: "box accent" }, el("b", {}, `You have answered; ${question.votes.length} of ${question.responders.votes_needed} so far. `), "A further answer of yours replaces it.");
    if (question.status === "invalid") {
      const why = question.reason === "the last answer did not fit" ? "" : plain(question.reason);
      return el("p", { class: "box warn" }, el("b", {}, "The last answer did not fit. "), `The question is still open. ${why}`);
    }
    return null;
  }

  closedWords(question) {
    if (question.status === "responded") return `Answered by ${question.verdict.persons.map(plain).join(" and ")}${question.closed_at ? ` at ${on(question.closed_at)}` : ""}.`;
    return { expired: "Expired.", cancelled: "Cancelled.", conflict: "Closed without an answer of ours.", "delivery-failed": "The answer could not be delivered." }[question.status] ?? "Closed.";
  }

  makeEvidence() {
    this.audit = el("div", { class: "panel", hidden: true });
    this.plan = el("div", { class: "panel", hidden: true });
    this.panels = { terminal: this.terminal.view, plan: this.plan, audit: this.audit };
    this.buttons = TABS.map(([name, title]) => el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`, onclick: () => this.choose(name), "data-tab": name }, title));
    for (const [name, panel] of Object.entries(this.panels)) {
      panel.id = `panel-${name}`;
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", `tab-${name}`);
    }
    replace(this.evidence, el("div", { class: "bar" }, el("div", { class: "tabs", role: "tablist", "aria-label": "Evidence", onkeydown: (event) => this.arrow(event) }, this.buttons), this.terminal.option),
      Object.values(this.panels));
    this.choose("terminal");
    this.drawAudit();
    replace(this.plan, planView(this.question, this.task));
  }

  drawAudit() {
    const json = el("button", { type: "button", class: "copy", onclick: () => navigator.clipboard?.writeText(JSON.stringify(this.question.history, null, 1)) }, "Copy as JSON");
    replace(this.audit, auditList(this.question.history), el("p", { class: "hint" }, `Prompt ${this.question.prompt_id} `, json));
  }

  choose(name) {
    this.tab = name;
    for (const button of this.buttons) {
      const isIt = button.dataset.tab === name;
      button.setAttribute("aria-selected", String(isIt));
      button.tabIndex = isIt ? 0 : -1;
    }
    for (const [each, panel] of Object.entries(this.panels)) panel.hidden = each !== name;
    this.terminal.option.hidden = name !== "terminal";
  }

  arrow(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = TABS.map(([name]) => name);
    const next = names[(names.indexOf(this.tab) + step + names.length) % names.length];
    this.choose(next);
    this.buttons[names.indexOf(next)].focus();
  }

  // What the host tells of the task while somebody looks.
  heard(told) {
    if (!told.state) return;
    this.task = { ...this.task, ...told };
    this.form?.told(told.facts);
    replace(this.plan, planView(this.question, this.task));
  }

  tick() {
    const question = this.question;
    if (!question || question.phase !== "open") { this.timer.replaceChildren(); return; }
    const ms = leftMs(question.closes_at);
    this.timer.classList.toggle("soon", ms < 60_000);
    replace(this.timer, el("b", {}, left(question.closes_at)), ms < 0 ? "" : " left");
    const words = this.lastMs === undefined ? null : spoken(this.lastMs, ms);
    if (words) announce(`${words} left to answer question ${question.number}`);
    this.lastMs = ms;
  }
}
