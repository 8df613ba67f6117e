// How does somebody sign in?

import { ask } from "./api.js";
import { el } from "./dom.js";

export function signIn(main, done, why = "") {
  const wrong = el("p", { class: "wrong", id: "token-wrong", role: "alert", hidden: !why }, why);
  const token = el("input", {
    type: "password", id: "token", name: "token", autocomplete: "current-password", required: true, spellcheck: "false",
    "aria-describedby": "token-hint token-wrong",
  });
  const send = el("button", { class: "main", type: "submit" }, "Sign in");
  const form = el(
    "form", { class: "box signin", onsubmit: submit },
    el("h2", {}, "Sign in"),
    el("div", { class: "field" },
      el("label", { htmlFor: "token" }, "Your token"),
      token,
      el("p", { class: "hint", id: "token-hint" }, "It is in the file that the cockpit’s config names as your ", el("code", {}, "token-file"),
        ". It is exchanged once for a session, and kept nowhere in this browser.")),
    wrong, send);
  main.replaceChildren(form);
  token.focus();

  async function submit(event) {
    event.preventDefault();
    send.disabled = true;
    try {
      await ask("POST", "/api/session", { token: token.value.trim() });
      token.value = "";
      await done();
    } catch (refused) {
      wrong.textContent = refused.status === 401 ? "Nobody has that token." : refused.message;
      wrong.hidden = false;
      token.setAttribute("aria-invalid", "true");
      send.disabled = false;
      token.focus();
    }
  }
}
