// Which missions are there, where does each stand, and what is its way out?

import { action } from "./actions.js";
import { ask } from "./api.js";
import { on } from "./clock.js";
import { el, plain, replace } from "./dom.js";

const FINAL = ["completed", "failed", "cancelled"];
const KINDS = { completed: "good", failed: "bad", paused: "warn", "awaiting-approval": "accent" };
const ENVELOPE = /^message\.metadata\.\S*\/v\d+\./; // where a field stands in the message; here it has its own label
const EVERY_MS = 3000; // missions go on without a question, which no news tells

export class MissionsView {
  constructor(me, back) {
    this.me = me;
    this.list = el("div", { class: "rows" });
    this.drawn = "";
    this.view = el("div", { class: "detail", id: "detail", tabIndex: -1 },
      el("button", { type: "button", class: "plain back", onclick: back }, "‹ All questions"),
      el("div", { class: "head" }, el("h2", {}, "Missions")), this.list, me.may_answer ? this.starter() : null);
  }

  async open() {
    await this.refresh();
    this.timer = setInterval(() => this.refresh().catch(() => {}), EVERY_MS);
  }

  close() {
    clearInterval(this.timer);
  }

  // Drawn anew only when something is otherwise, and never under somebody's hands.
  async refresh() {
    const { missions } = await ask("GET", "/api/missions");
    const now = JSON.stringify(missions);
    const isUsed = this.list.contains(document.activeElement) && document.activeElement.matches("input, button, summary");
    if (now === this.drawn || (isUsed && this.drawn)) return;
    this.drawn = now;
    replace(this.list, missions.length ? missions.map((one) => this.card(one)) : el("p", { class: "nothing" }, el("b", {}, "No mission was started here yet")));
  }

  card(mission) {
    const done = () => { this.drawn = ""; this.refresh().catch(() => {}); };
    const at = `/api/missions/${mission.number}`;
    const rows = [
      ["Command", el("code", {}, plain(mission.command.join(" ")))], ["Host", `${plain(mission.host)} · ${plain(mission.mode)}`],
      ["Started", `${on(mission.started_at)} by ${plain(mission.person)}`], mission.reason ? ["Why", plain(mission.reason)] : null,
      mission.way_out ? ["Way out", plain(mission.way_out)] : null,
      mission.questions.length ? ["Questions", mission.questions.map((one) => [el("a", { href: `#/q/${one.number}` }, String(one.number)), " "])] : null,
    ].filter(Boolean);
    return el("section", { class: "box mission", "aria-label": `Mission ${mission.number}` },
      el("div", { class: "head" }, el("h3", {}, `Mission ${mission.number}`), el("span", { class: `tag ${KINDS[mission.state] ?? ""}` }, mission.state)),
      el("dl", { class: "facts" }, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
      this.me.may_answer && mission.state === "paused" ? action({ url: `${at}/resume`, title: `Resume mission ${mission.number}`, words: "It goes on where it was paused.", done }) : null,
      this.me.may_answer && !FINAL.includes(mission.state) ? action({ url: `${at}/cancel`, title: `Cancel mission ${mission.number}`, words: "Ends its task on the host.", label: "Reason", kind: "danger", done }) : null);
  }

  starter() {
    const field = (name, label, hint, input) => {
      input.id = `mission-${name}`;
      input.setAttribute("aria-describedby", `mission-${name}-hint`);
      return [input, el("div", { class: "field" }, el("label", { htmlFor: input.id }, label), input, el("p", { class: "hint", id: `mission-${name}-hint` }, hint))];
    };
    const [host, hostField] = field("host", "Host", "As the cockpit’s config calls it.", el("input", { type: "text", autocomplete: "off" }));
    const [adapter, adapterField] = field("adapter", "Adapter", "A policy on that host has this name.", el("input", { type: "text", autocomplete: "off" }));
    const [mode, modeField] = field("mode", "Mode", "", el("select", {}, ["plan", "assess"].map((one) => el("option", { value: one }, one))));
    const [command, commandField] = field("command", "Command", "One argument a line, as they are; no shell reads them.", el("textarea", { spellcheck: "false" }));
    const wrong = el("p", { class: "wrong", role: "alert", hidden: true });
    const send = el("button", { type: "submit", class: "main" }, "Start the mission");
    const form = el("form", { class: "field", novalidate: true, onsubmit: async (event) => {
      event.preventDefault();
      send.disabled = true;
      wrong.hidden = true;
      try {
        const argv = command.value.split("\n").map((line) => line.trimEnd()).filter((line) => line !== "");
        await ask("POST", "/api/missions", { host: host.value.trim(), adapter: adapter.value.trim(), mode: mode.value, command: argv, input_mode: "text-line" });
        command.value = "";
        this.drawn = "";
        await this.refresh();
      } catch (refused) {
        const where = (refused.error?.validation_errors ?? []).map((one) => `${one.path.replace(ENVELOPE, "")}: ${one.message}`);
        wrong.textContent = plain([refused.message, ...where].join("; "));
        wrong.hidden = false;
      } finally {
        send.disabled = false;
      }
    } }, hostField, adapterField, modeField, commandField, wrong, el("div", {}, send));
    return el("details", { class: "more" }, el("summary", {}, "Start a mission"), form);
  }
}
