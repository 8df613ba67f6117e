// Does somebody want to be told of new questions while they look elsewhere? Only when they asked for it.

import { el, firstLine, plain } from "./dom.js";

const KEY = "cockpit.notices";

export class Notices {
  constructor(open) {
    this.open = open;
    this.button = el("button", { type: "button", class: "plain", "aria-pressed": "false", onclick: () => this.toggle(), hidden: !("Notification" in window) }, "Notify me");
    this.draw();
  }

  get isOn() {
    return localStorage.getItem(KEY) === "on" && "Notification" in window && Notification.permission === "granted";
  }

  async toggle() {
    if (this.isOn) localStorage.removeItem(KEY);
    else if ((await Notification.requestPermission()) === "granted") localStorage.setItem(KEY, "on");
    else this.button.title = "This browser does not allow notices from here.";
    this.draw();
  }

  draw() {
    this.button.setAttribute("aria-pressed", String(this.isOn));
    this.button.textContent = this.isOn ? "Notices are on" : "Notify me";
  }

  asked(question) {
    if (!this.isOn || !document.hidden || !question.may_answer) return;
    const notice = new Notification(`${plain(question.host)} asks`, { body: firstLine(question.question).slice(0, 200), tag: `question-${question.number}` });
    notice.onclick = () => { window.focus(); this.open(question.number); notice.close(); };
  }
}
