// How does somebody answer a question? The form keeps what was typed until the cockpit has taken it.

import { askAgain } from "./api.js";
import { buttonField, effect, fieldsOf, isTyped } from "./choices.js";
import { announce, el, plain } from "./dom.js";

export class AnswerForm {
  // `sent(value)` is called with what the cockpit says of an answer that it took.
  constructor(question, sent) {
    this.question = question;
    this.sent = sent;
    this.fields = fieldsOf(question.response_schema);
    this.enter = undefined;
    this.inputs = new Map();
    this.wrongs = new Map();
    this.general = el("p", { class: "wrong", role: "alert", hidden: true });
    this.note = el("input", { type: "text", id: "note", maxLength: 500 });
    this.view = el("section", { class: "box answer", "aria-label": "Your answer" }, this.body(), this.general, this.noteField());
  }

  body() {
    if (this.fields === null) return this.byHand();
    const field = buttonField(this.fields);
    const parts = [];
    if (field) {
      parts.push(el("div", { class: "choices", role: "group", "aria-label": field.title === "text" ? "Answers" : field.title },
        field.choices.map((choice, index) => this.button(field, choice, index))));
      if (field.isOpen) parts.push(this.form([{ ...field, choices: [] }], "Any other text"));
    } else {
      parts.push(this.form(this.fields, isTyped(this.fields) ? (this.fields[0].isSecret ? "The secret" : "Your text") : ""));
    }
    return parts;
  }

  button(field, choice, index) {
    const says = el("span", {}, plain(effect(choice.value, this.fields, this.enter)));
    says.dataset.value = JSON.stringify(choice.value);
    return el("button", { type: "button", class: "choice", "data-key": index + 1, onclick: () => this.send({ [field.name]: choice.value }) },
      el("b", {}, plain(choice.title), el("kbd", { "aria-hidden": "true" }, String(index + 1))), says);
  }

  form(fields, label) {
    const send = el("button", { type: "submit", class: buttonField(this.fields) ? "" : "main" }, this.question.is_secret ? "Send the secret" : "Send");
    const one = fields.length === 1;
    const shownFields = fields.map((field) => this.field(field, one && label ? label : field.title, one ? send : null));
    return el("form", { class: "field", novalidate: true, onsubmit: (event) => { event.preventDefault(); this.send(this.read(fields)); },
      onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.send(this.read(fields)); } },
    }, shownFields, one ? null : send);
  }

  field(field, label, beside) {
    const id = `field-${field.name}`;
    const wrong = el("p", { class: "wrong", id: `${id}-wrong`, role: "alert", hidden: true });
    const props = { id, "aria-describedby": `${id}-hint ${id}-wrong`, "aria-required": String(field.isRequired && !isTyped(this.fields)), oninput: () => this.unmark(field.name) };
    const input = field.choices.length
      ? el("select", props, el("option", { value: "" }, "choose…"), field.choices.map((choice, index) => el("option", { value: String(index) }, plain(choice.title))))
      : el("input", { ...props, autocomplete: "off", spellcheck: "false", autocapitalize: "off",
        type: field.isSecret ? "password" : field.kind === "string" ? "text" : "number", step: field.kind === "integer" ? "1" : "any" });
    this.inputs.set(field.name, input);
    this.wrongs.set(field.name, wrong);
    return el("div", { class: "field" },
      el("label", { htmlFor: id }, plain(label)),
      beside ? el("div", { class: "line" }, input, beside) : input,
      el("p", { class: "hint", id: `${id}-hint` }, this.hint(field)), wrong);
  }

  hint(field) {
    if (field.hint) return plain(field.hint);
    if (!isTyped(this.fields)) return field.isRequired ? "" : "may be left empty";
    const secret = field.isSecret ? "It is not shown, and kept nowhere. " : "";
    return secret + (this.enter === "none" || field.most === 1 ? "One key, typed as it is." : "Typed as it is, with one Enter behind it.");
  }

  byHand() {
    const input = el("textarea", { id: "field-json", value: "{}", spellcheck: "false", "aria-describedby": "field-json-hint field-json-wrong", oninput: () => this.unmark("") });
    const wrong = el("p", { class: "wrong", id: "field-json-wrong", role: "alert", hidden: true });
    this.inputs.set("", input);
    this.wrongs.set("", wrong);
    return el("form", { class: "field", onsubmit: (event) => { event.preventDefault(); this.sendJson(input, wrong); } },
      el("label", { htmlFor: "field-json" }, "The answer, as JSON"), input,
      el("p", { class: "hint", id: "field-json-hint" }, "Its schema is one for which this page has no form."),
      el("details", {}, el("summary", {}, "The schema"), el("pre", { class: "block" }, plain(JSON.stringify(this.question.response_schema, null, 2)))),
      wrong, el("button", { type: "submit", class: "main" }, "Send"));
  }

  noteField() {
    return el("details", { class: "more" }, el("summary", {}, "Add a note"),
      el("div", {}, el("label", { htmlFor: "note" }, "Note, for the audit alone"), this.note));
  }

  // The host has said how it types: the buttons say it, too.
  told(facts) {
    if (facts?.enter === undefined || facts.enter === this.enter || this.fields === null) return;
    this.enter = facts.enter;
    for (const says of this.view.querySelectorAll("[data-value]")) says.textContent = plain(effect(JSON.parse(says.dataset.value), this.fields, this.enter));
    for (const field of this.fields) {
      const hint = this.view.querySelector(`[id="field-${CSS.escape(field.name)}-hint"]`);
      if (hint) hint.textContent = this.hint(field);
    }
  }

  read(fields) {
    const value = {};
    for (const field of fields) {
      const typed = this.inputs.get(field.name).value;
      if (field.choices.length) {
        if (typed !== "") value[field.name] = field.choices[Number(typed)].value;
      } else if (field.kind === "string") {
        if (typed !== "" || field.isRequired) value[field.name] = typed;
      } else if (typed !== "") {
        value[field.name] = Number(typed);
      }
    }
    return value;
  }

  // What stands in the fields; no secret is kept.
  typed() {
    return new Map([...this.inputs].filter(([, input]) => input.type !== "password").map(([name, input]) => [name, input.value]));
  }

  // A form anew, after the host refused what was sent: what was typed, and why (`…: /text: maxLength; …`).
  restore(typed, why) {
    for (const [name, value] of typed) if (this.inputs.has(name)) this.inputs.get(name).value = value;
    for (const found of why.matchAll(/\/([^:;/]*): (\w+)/g)) {
      const input = this.inputs.get(found[1]);
      if (input) mark(input, this.wrongs.get(found[1]), `The host says that it does not fit (${found[2]}).`);
    }
  }

  sendJson(input, wrong) {
    try {
      this.send(JSON.parse(input.value));
    } catch {
      mark(input, wrong, "This is no JSON.");
    }
  }

  async send(payload) {
    if (this.isSending) return;
    this.isSending = true;
    for (const name of this.inputs.keys()) this.unmark(name);
    this.general.hidden = true;
    const buttons = [...this.view.querySelectorAll("button")].filter((one) => !one.disabled);
    for (const one of buttons) one.disabled = true;
    const note = this.note.value.trim();
    try {
      const said = await askAgain("POST", `/api/prompts/${this.question.number}/answer`, note ? { payload, note } : { payload });
      for (const input of this.inputs.values()) if (input.type === "password") input.value = "";
      this.sent(said);
    } catch (refused) {
      this.refuse(refused);
    } finally {
      this.isSending = false;
      for (const one of buttons) one.disabled = false;
    }
  }

  refuse(refused) {
    const problems = refused.error.validation_errors ?? [];
    let first = null;
    const others = [];
    for (const problem of problems) {
      const name = problem.path.split("/")[1] ?? "";
      const input = this.inputs.get(name);
      if (!input) { others.push(`${problem.path || "the answer"}: ${problem.message}`); continue; }
      mark(input, this.wrongs.get(name), problem.message);
      first ??= input;
    }
    const tries = refused.error.tries_left;
    const rest = tries === undefined ? "" : ` ${tries} ${tries === 1 ? "try is" : "tries are"} left.`;
    if (!first || others.length) {
      this.general.textContent = plain([refused.message, ...others].join("; ") + rest);
      this.general.hidden = false;
    } else if (rest) {
      announce(`The answer does not fit.${rest}`);
    }
    (first ?? this.general).focus?.();
  }

  unmark(name) {
    this.inputs.get(name)?.removeAttribute("aria-invalid");
    const wrong = this.wrongs.get(name);
    if (wrong) wrong.hidden = true;
  }
}

function mark(input, wrong, why) {
  input.setAttribute("aria-invalid", "true");
  wrong.textContent = plain(why);
  wrong.hidden = false;
}
