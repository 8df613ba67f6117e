// What waits for somebody, the most urgent first?

import { left, leftMs, on } from "./clock.js";
import { el, firstLine, plain, replace } from "./dom.js";

const SOON_MS = 60_000;

export class Inbox {
  // `open` is called with a question's number.
  constructor(open) {
    this.rows = new Map();
    this.closed = [];
    this.sightings = [];
    this.tab = "open";
    this.current = null;
    this.open = open;
    this.count = el("h2", { id: "inbox-title" }, "Questions");
    this.tabs = el("div", { class: "tabs", role: "group", "aria-label": "Which questions" },
      this.tabButton("open", "Open"), this.tabButton("closed", "Closed"));
    this.filter = el("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the questions", oninput: () => this.draw() });
    this.list = el("nav", { class: "rows", "aria-labelledby": "inbox-title" });
    this.rest = el("div", { class: "rows" });
    this.view = el("section", { class: "inbox", "aria-labelledby": "inbox-title" },
      el("div", { class: "bar" }, this.count, this.tabs), this.filter, this.list, this.rest);
  }

  tabButton(name, title) {
    return el("button", { type: "button", "aria-pressed": String(name === "open"), onclick: () => this.choose(name), "data-tab": name }, title);
  }

  choose(name) {
    this.tab = name;
    for (const button of this.tabs.children) button.setAttribute("aria-pressed", String(button.dataset.tab === name));
    this.draw();
  }

  // Everything as a list has it.
  set(open, closed, sightings) {
    this.rows = new Map(open.map((row) => [row.number, row]));
    this.closed = closed;
    this.sightings = sightings;
    this.draw();
  }

  // One question as it stands now; whether it is new here.
  put(row) {
    const isNew = !this.rows.has(row.number) && row.phase === "open";
    if (row.phase === "closed") {
      this.rows.delete(row.number);
      this.closed = [row, ...this.closed.filter((one) => one.number !== row.number)].slice(0, 200);
    } else {
      this.rows.set(row.number, row);
    }
    this.draw();
    return isNew;
  }

  sorted() {
    const rows = this.tab === "closed" ? this.closed : [...this.rows.values()].sort((a, b) => leftMs(a.closes_at) - leftMs(b.closes_at));
    const wanted = this.filter.value.trim().toLowerCase();
    return rows.filter((row) => `${row.question} ${row.host} ${row.task_id} ${row.status}`.toLowerCase().includes(wanted));
  }

  draw() {
    const focused = document.activeElement?.dataset?.number;
    const rows = this.sorted();
    this.count.textContent = this.rows.size === 1 ? "1 open question" : `${this.rows.size} open questions`;
    document.title = `${this.rows.size ? `(${this.rows.size}) ` : ""}sandboxd cockpit`;
    replace(this.list, rows.length ? rows.map((row) => this.row(row)) : this.nothing());
    replace(this.rest, this.tab === "open" && this.sightings.length ? this.others() : null);
    if (focused) this.list.querySelector(`[data-number="${focused}"]`)?.focus();
  }

  nothing() {
    if (this.filter.value) return el("p", { class: "nothing" }, el("b", {}, "Nothing fits the filter"));
    return this.tab === "closed"
      ? el("p", { class: "nothing" }, el("b", {}, "Nothing is closed yet"))
      : el("p", { class: "nothing" }, el("b", {}, "Nobody asks anything"), "A question shows up here by itself.");
  }

  row(row) {
    const isClosed = row.phase === "closed";
    const soon = !isClosed && row.phase === "open" && leftMs(row.closes_at) < SOON_MS;
    const kind = isClosed ? "" : row.held ? "held" : soon ? "soon" : row.phase === "open" ? "waits" : "";
    return el("a", {
      class: `row ${kind}`, href: `#/q/${row.number}`, "data-number": row.number, "aria-current": this.current === row.number ? "true" : null,
      onclick: (event) => { event.preventDefault(); this.open(row.number); },
    },
    el("span", { class: "first" }, el("span", {}, plain(row.host)),
      el("span", { class: "left", "data-until": isClosed || row.phase !== "open" ? null : row.closes_at },
        isClosed ? on(row.closed_at) : row.phase === "open" ? left(row.closes_at) : phaseWord(row))),
    el("span", { class: "says" }, firstLine(row.question)),
    el("span", { class: "last" }, el("span", { class: "tag" }, whoMay(row)),
      row.has_voted && row.phase === "open" ? el("span", { class: "tag accent" }, "you have answered") : null,
      row.is_secret ? el("span", { class: "tag warn" }, "secret") : null,
      row.held ? el("span", { class: "tag warn" }, "needs a person") : null,
      isClosed ? statusTag(row) : null));
  }

  others() {
    const waits = (one) => one.kind === "postponed";
    return [...this.apart("Wait for room", this.sightings.filter(waits)),
      ...this.apart("Ask what cannot be answered here", this.sightings.filter((one) => !waits(one)))];
  }

  apart(title, sightings) {
    const isShared = new Set(sightings.map((one) => one.why)).size === 1; // the same for all is said once
    return sightings.length === 0 ? [] : [
      el("p", { class: "section" }, title),
      isShared ? el("p", { class: "hint" }, plain(sightings[0].why)) : null,
      ...sightings.map((one) => el("div", { class: "sighting" },
        el("b", {}, `${plain(one.host)} · ${plain(one.task_id)}`), el("span", { class: "says" }, firstLine(one.text)), isShared ? null : el("span", { class: "hint" }, plain(one.why)))),
    ];
  }

  // Only the times: called every second.
  tick() {
    for (const cell of this.list.querySelectorAll("[data-until]")) {
      cell.textContent = left(cell.dataset.until);
      cell.closest(".row").classList.toggle("soon", leftMs(cell.dataset.until) < SOON_MS);
    }
  }

  mark(number) {
    this.current = number;
    for (const row of this.list.querySelectorAll(".row")) {
      if (Number(row.dataset.number) === number) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  // The question above or below the one that is marked.
  beside(step) {
    const numbers = this.sorted().map((row) => row.number);
    const at = numbers.indexOf(this.current);
    return numbers[at < 0 ? 0 : Math.min(Math.max(at + step, 0), numbers.length - 1)];
  }
}

export function whoMay(row) {
  const { votes_needed: needed, dead_end: deadEnd } = row.responders;
  if (deadEnd) return "nobody";
  const names = whoIsNamed(row);
  if (needed > 1) return `${row.votes.length} of ${needed}${names ? ` · ${names}` : ""}`;
  return names ? `only ${names}` : "anybody";
}

// The same in a sentence.
export function whoMayInWords(row) {
  const { votes_needed: needed, dead_end: deadEnd } = row.responders;
  if (deadEnd || needed === 1) return whoMay(row);
  return `${whoIsNamed(row) || "anybody"}; ${row.votes.length} of ${needed} who must agree have answered`;
}

function whoIsNamed(row) {
  return row.responders.named.map((list) => list.map(short).join(", ")).join(" and one of ");
}

function short(name) {
  return plain(name).replace(/^token:/, "");
}

export function phaseWord(row) {
  if (row.held) return "held";
  return { delivering: "being delivered", backoff: "trying again", reconcile: "being found out", closed: "closed" }[row.phase] ?? row.phase;
}

export function statusTag(row) {
  const kind = { responded: "good", expired: "warn", conflict: "bad", cancelled: "", "delivery-failed": "bad" }[row.status] ?? "";
  const word = { responded: "answered", "delivery-failed": "not delivered" }[row.status] ?? row.status;
  return el("span", { class: `tag ${kind}` }, word);
}
