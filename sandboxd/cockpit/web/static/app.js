// The page: who is there, what waits, and the question that is looked at.

import { ask } from "./api.js";
import * as clock from "./clock.js";
import { announce, el, plain, replace } from "./dom.js";
import { Inbox } from "./inbox.js";
import { HELP, keysSwitch, onKeys } from "./keys.js";
import { MissionsView } from "./missions.js";
import { listen } from "./news.js";
import { Notices } from "./notices.js";
import { QuestionView } from "./question.js";
import { signIn } from "./signin.js";

const main = document.getElementById("main");
const link = document.getElementById("link");
const who = document.getElementById("who");

class Page {
  constructor() {
    this.inbox = new Inbox((number) => this.show(number));
    this.notices = new Notices((number) => this.show(number));
    this.desk = el("div", { class: "desk" });
    this.keys = {
      j: () => this.show(this.inbox.beside(1)), k: () => this.show(this.inbox.beside(-1)), "/": () => this.inbox.filter.focus(),
      t: () => this.question?.choose("terminal"), p: () => this.question?.choose("plan"), a: () => this.question?.choose("audit"),
    };
    onKeys(this);
    setInterval(() => { this.inbox.tick(); this.question?.tick(); }, 1000);
    window.addEventListener("hashchange", () => this.route());
    document.addEventListener("visibilitychange", () => { if (!document.hidden && this.me) this.load().catch(() => {}); });
  }

  async begin() {
    try {
      this.me = await ask("GET", "/api/me");
    } catch (refused) {
      if (refused.status === 401) return signIn(main, () => this.begin());
      return replace(main, el("div", { class: "box signin", role: "alert" }, el("h2", {}, "The cockpit does not let this page in"), el("p", {}, plain(refused.message)), el("button", { type: "button", onclick: () => this.begin() }, "Try again")));
    }
    clock.heard(this.me.now);
    replace(who, el("b", {}, plain(this.me.person)), this.me.may_answer ? null : el("span", { class: "tag" }, "may look"), el("a", { class: "button plain", href: "#/missions" }, "Missions"), this.notices.button,
      this.me.way === "session" ? el("button", { type: "button", class: "plain", onclick: () => this.signOut() }, "Sign out") : null);
    who.hidden = false;
    replace(main, this.desk);
    const number = await this.load();
    this.stop?.();
    this.stop = listen(number, (name, told) => this.heard(name, told), (isOn) => this.linked(isOn), () => this.lost());
    await this.route();
  }

  // Everything anew; the number of the last change that it has.
  async load() {
    const [open, closed] = await Promise.all([ask("GET", "/api/prompts?state=open"), ask("GET", "/api/prompts?state=closed")]);
    clock.heard(open.now);
    this.inbox.set(open.prompts, closed.prompts, open.sightings);
    return Math.min(open.number, closed.number);
  }

  heard(name, told) {
    clock.heard(told.now);
    if (name !== "change") return;
    if (!told.prompt) {
      this.load().catch(() => {});
      return;
    }
    const isTold = told.entry.event !== "received"; // a rule is asked first, and people only when none answers
    if (!isTold) return;
    if (this.inbox.put(told.prompt)) {
      announce(`New question from ${plain(told.prompt.host)}; ${this.inbox.rows.size} open`);
      this.notices.asked(told.prompt);
      if (!this.question && !this.aside) this.welcome();
    }
    if (told.prompt.number === this.question?.number) this.question.refresh().catch(() => {});
  }

  linked(isOn) {
    link.className = `link ${isOn ? "on" : "off"}`;
    link.textContent = isOn ? "live" : "the cockpit does not answer; trying again…";
    if (isOn && this.wasOff) {
      this.load().catch(() => {});
      this.question?.refresh().catch(() => {});
    }
    this.wasOff = !isOn;
  }

  // The news broke off: whether to try again. Somebody who is signed out signs in, and finds what they had typed.
  async lost() {
    try {
      await ask("GET", "/api/me");
      return true;
    } catch (refused) {
      if (refused.status !== 401) return true;
      this.signedOut("You have been signed out. What you typed is still here.");
      return false;
    }
  }

  signedOut(why) {
    link.className = "link";
    link.textContent = "";
    who.hidden = true;
    signIn(main, () => this.begin(), why);
  }

  async signOut() {
    await ask("DELETE", "/api/session").catch(() => {});
    this.stop?.();
    this.leave();
    location.hash = "";
    this.signedOut("");
  }

  route() {
    const found = /^#\/q\/(\d+)$/.exec(location.hash);
    if (location.hash === "#/missions") return this.missions();
    return found ? this.look(Number(found[1])) : this.home();
  }

  show(number) {
    if (number === undefined) return;
    if (location.hash === `#/q/${number}`) this.look(number);
    else location.hash = `#/q/${number}`;
  }

  back() {
    if (location.hash) location.hash = "";
  }

  home() {
    this.leave();
    this.welcome();
    this.desk.classList.remove("shows-detail");
    const number = this.inbox.current;
    this.inbox.mark(null);
    this.inbox.list.querySelector(`[data-number="${number}"]`)?.focus();
  }

  welcome() {
    replace(this.desk, this.inbox.view, el("div", { class: "detail", id: "detail", tabIndex: -1 }, el("div", { class: "welcome" },
      el("h2", {}, this.inbox.rows.size ? "Choose a question" : "All quiet"),
      el("p", {}, this.inbox.rows.size ? "The one with the least time left stands first." : "Nothing waits for an answer. Leave this page open: a question shows up by itself."),
      el("dl", { class: "keys" }, HELP.map(([key, does]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, does)])), keysSwitch())));
  }

  async missions() {
    this.leave();
    this.inbox.mark(null);
    this.aside = new MissionsView(this.me, () => this.back());
    replace(this.desk, this.inbox.view, this.aside.view);
    this.desk.classList.add("shows-detail");
    await this.aside.open().catch((refused) => replace(this.aside.list, el("p", { class: "box bad", role: "alert" }, plain(refused.message))));
  }

  async look(number) {
    if (this.question?.number === number) {
      if (!this.desk.isConnected) replace(main, this.desk);
      return this.question.refresh().catch(() => {});
    }
    this.leave();
    const question = new QuestionView(number, () => this.back());
    this.question = question;
    this.inbox.mark(number);
    replace(this.desk, this.inbox.view, question.view);
    this.desk.classList.add("shows-detail");
    try {
      await question.open();
      if (this.question === question) question.view.focus({ preventScroll: true });
    } catch (refused) {
      if (refused.status === 401) return this.signedOut("");
      replace(question.view, el("button", { type: "button", class: "plain back", onclick: () => this.back() }, "‹ All questions"), el("p", { class: "box bad", role: "alert" }, plain(refused.message)));
    }
  }

  leave() {
    this.question?.close();
    this.aside?.close();
    this.question = null;
    this.aside = null;
  }

  choice(key) {
    this.question?.view.querySelector(`[data-key="${key}"]`)?.focus();
  }
}

// Not a place of its own: what stands behind `#` says which question is shown.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  (document.getElementById("detail") ?? main).focus();
});
new Page().begin();
