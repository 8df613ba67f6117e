// What does the task print? To be looked at: there is no way from here to the program.

import { el, plain } from "./dom.js";

const TEXT_MAX = 400_000; // characters of the plain text that are kept
const COLUMNS = 80; // what sandboxd gives a program that nobody sized
const ROWS = 24;
const SMALLEST = 10; // px; what is wider then is scrolled
// Those of xterm.js that cannot be read on a dark ground are lighter; what a program puts on a ground of its own stays readable, too.
const COLOURS = {
  background: "#10151b", foreground: "#e8ebf0",
  red: "#ff8f86", blue: "#8ab0ff", magenta: "#d9a5f2", brightBlack: "#9aa5b4", brightRed: "#ffb1aa",
};
const QUERIES = { osc: [0, 1, 2, 8, 52] }; // title, links, clipboard: a program that is watched has no use for them

export class TerminalView {
  constructor(host, task, told) {
    this.told = told; // called with each `task` event
    this.url = `/api/tasks/${encodeURIComponent(host)}/${encodeURIComponent(task)}/terminal`;
    this.offset = 0;
    this.decoder = new TextDecoder("utf-8");
    this.canDraw = document.documentElement.dataset.xterm === "yes";
    this.text = el("pre", { class: "transcript", tabIndex: 0, role: "region", "aria-label": "Terminal, as plain text" });
    this.screen = el("div", { class: "screen", role: "group", "aria-label": "Terminal, read only; as plain text it can be read" });
    this.status = el("p", { class: "status", role: "status" }, "Connecting to the host…");
    this.asText = el("input", { type: "checkbox", checked: !this.canDraw || isNarrow(), disabled: !this.canDraw, onchange: () => this.toggle() });
    this.option = el("label", { title: this.canDraw ? null : "xterm.js is not installed here" }, this.asText, "plain text");
    this.view = el("div", { class: "panel dark" }, this.screen, this.text, this.status);
    this.toggle();
    this.pending = [];
  }

  async open() {
    this.isOpen = true;
    this.listen();
    if (this.canDraw) await this.draw();
  }

  close() {
    this.isOpen = false;
    clearTimeout(this.timer);
    this.source?.close();
    this.terminal?.dispose();
    this.resizing?.disconnect();
  }

  toggle() {
    this.text.hidden = !this.asText.checked;
    this.screen.hidden = this.asText.checked;
  }

  async draw() {
    try {
      const [{ Terminal }] = await Promise.all([import("/static/xterm.mjs"), style("/static/xterm.css")]);
      if (!this.isOpen) return;
      this.terminal = new Terminal({
        cols: COLUMNS, rows: ROWS, disableStdin: true, scrollback: 10_000, convertEol: false, cursorBlink: false, cursorInactiveStyle: "outline", minimumContrastRatio: 4.5,
        fontSize: 14, fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"), theme: COLOURS,
        linkHandler: { activate() {} }, allowProposedApi: false,
      });
      for (const number of QUERIES.osc) this.terminal.parser.registerOscHandler(number, () => true);
      this.terminal.attachCustomKeyEventHandler(() => false); // every key is the browser's: Tab and Shift+Tab leave
      withNonce(() => this.terminal.open(this.screen));
      if (this.terminal.textarea) {
        this.terminal.textarea.tabIndex = -1;
        this.terminal.textarea.setAttribute("aria-hidden", "true");
      }
      this.fit();
      this.resizing = new ResizeObserver(() => this.fit());
      this.resizing.observe(this.screen);
      for (const bytes of this.pending.splice(0)) this.terminal.write(bytes);
    } catch (error) {
      console.error(error);
      this.canDraw = false;
      this.asText.checked = true;
      this.asText.disabled = true;
      this.toggle();
    }
  }

  // As wide as the program believes, whatever the window is: the letters shrink, never the lines.
  fit() {
    const width = this.screen.clientWidth - 44;
    if (width < 100) return; // not shown
    const size = Math.max(SMALLEST, Math.min(14, Math.floor((width / COLUMNS / 0.602) * 2) / 2));
    if (this.terminal.options.fontSize !== size) withNonce(() => { this.terminal.options.fontSize = size; });
  }

  listen() {
    if (!this.isOpen) return;
    this.source = new EventSource(`${this.url}?offset=${this.offset}`);
    this.source.addEventListener("task", (event) => this.heard(JSON.parse(event.data)));
    this.source.addEventListener("output", (event) => {
      const { offset, base64 } = JSON.parse(event.data);
      this.write(offset, Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)));
    });
    this.source.addEventListener("gap", (event) => {
      const line = `\r\n── ${JSON.parse(event.data).bytes} bytes were not kept ──\r\n`;
      this.show(new TextEncoder().encode(line));
    });
    this.source.addEventListener("trouble", (event) => {
      const { why, is_gone: isGone } = JSON.parse(event.data);
      if (isGone) { this.hasEnded = true; this.source.close(); }
      this.status.textContent = plain(isGone ? `There is no terminal: ${why}.` : `The host does not answer: ${why}. It is asked again.`);
    });
    this.source.addEventListener("end", () => { this.hasEnded = true; this.source.close(); });
    this.source.onerror = () => {
      this.source.close();
      if (this.hasEnded) return;
      this.status.textContent = "The line to the cockpit is gone; it is tried again.";
      this.timer = setTimeout(() => this.listen(), 1500);
    };
  }

  heard(task) {
    this.status.textContent = plain(task.is_terminal ? `The task is ${task.state}. ${task.text ?? ""}` : `Live: the task is ${task.state}.`);
    this.told(task);
  }

  write(offset, bytes) {
    if (offset + bytes.length <= this.offset) return; // had already
    const fresh = bytes.subarray(Math.max(0, this.offset - offset));
    this.offset = offset + bytes.length;
    this.show(fresh);
    this.told({ printed: this.offset });
  }

  show(bytes) {
    if (this.terminal) this.terminal.write(bytes);
    else this.pending.push(bytes);
    const atEnd = this.text.scrollTop + this.text.clientHeight >= this.text.scrollHeight - 30;
    const lines = this.decoder.decode(bytes, { stream: true }).replace(ESCAPES, "").replace(/\r+\n/g, "\n").replace(/\r/g, "\n");
    this.text.append(plain(lines));
    if (this.text.textContent.length > TEXT_MAX) this.text.textContent = `… ${this.text.textContent.slice(-TEXT_MAX / 2)}`;
    this.text.normalize();
    if (atEnd) this.text.scrollTop = this.text.scrollHeight;
  }
}

const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_]|[ -/]+[0-~])|\u0007|\u0008/g;

// A phone: lines that wrap are read more easily than eighty columns.
function isNarrow() {
  return window.matchMedia("(max-width: 560px)").matches;
}

function style(href) {
  if (document.querySelector(`link[href="${href}"]`)) return null;
  return new Promise((done, failed) => {
    document.head.append(el("link", { rel: "stylesheet", href, onload: done, onerror: failed }));
  });
}

// xterm.js makes style sheets while it runs. The policy of this page lets in only those that carry its nonce.
function withNonce(work) {
  const make = Document.prototype.createElement;
  document.createElement = function createElement(tag, ...more) {
    const made = make.call(this, tag, ...more);
    if (String(tag).toLowerCase() === "style") made.nonce = document.documentElement.dataset.nonce;
    return made;
  };
  try {
    work();
  } finally {
    delete document.createElement;
  }
}
