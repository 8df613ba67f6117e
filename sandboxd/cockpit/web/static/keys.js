// Which keys do something? None of them answers: they move the focus, and Enter on what has it acts.

import { el } from "./dom.js";

const HELP = [["j / k", "next, previous question"], ["1 … 9", "go to that answer; Enter sends it"], ["Ctrl+Enter", "send what was typed"], ["/", "filter"], ["t p a", "terminal, what will run, audit"], ["Esc", "back to the list"]];

const KEY = "cockpit.keys";

export { HELP };

// Single letters are typed by speech input, too: they can be turned off (WCAG 2.1.4).
export function keysSwitch() {
  const box = el("input", { type: "checkbox", checked: localStorage.getItem(KEY) !== "off", onchange: () => localStorage.setItem(KEY, box.checked ? "on" : "off") });
  return el("label", { class: "hint" }, box, " single keys do this");
}

export function onKeys(page) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const typing = event.target.closest?.("input, textarea, select");
    if (event.key === "Escape") {
      if (typing) typing.blur();
      else page.back();
      return;
    }
    if (typing || localStorage.getItem(KEY) === "off") return;
    const act = page.keys[event.key] ?? (/^[1-9]$/.test(event.key) ? () => page.choice(event.key) : null);
    if (!act) return;
    event.preventDefault();
    act();
  });
}
