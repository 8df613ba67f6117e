// How is a piece of the page made? Text is only ever set as text, so nothing that a task says can become markup.

export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name in made && name !== "list" && typeof value !== "object") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function replace(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

export function announce(text) {
  document.getElementById("announce").textContent = text;
}

// Characters that show nothing, or turn text around, could hide what is being approved: each is shown by its name.
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu;

export function plain(text) {
  return String(text).replace(/\r\n/g, "\n").replace(ODD, (char) => `⟨U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

// The same, with those names marked.
export function shown(text) {
  const pieces = [];
  let at = 0;
  const whole = String(text).replace(/\r\n/g, "\n");
  for (const found of whole.matchAll(ODD)) {
    pieces.push(whole.slice(at, found.index), el("span", { class: "odd" }, plain(found[0])));
    at = found.index + found[0].length;
  }
  pieces.push(whole.slice(at));
  return pieces;
}

export function firstLine(text) {
  return plain(text).split("\n").filter((line) => line.trim()).slice(-1)[0] ?? "";
}
