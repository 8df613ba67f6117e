// Which buttons and fields does a response schema make? Nothing is offered that the schema does not say.

const CHOICES_MAX = 9;

// A list of fields: {name, title, kind, choices, isOpen, isSecret, isRequired, most}. Null: it takes JSON by hand.
export function fieldsOf(schema) {
  const properties = schema?.properties;
  if (!properties || typeof properties !== "object") return null;
  const fields = Object.entries(properties).map(([name, part]) => fieldOf(name, part, schema.required ?? []));
  return fields.length && fields.every(Boolean) ? fields : null;
}

function fieldOf(name, part, required) {
  if (!part || typeof part !== "object") return null;
  const field = {
    name, title: typeof part.title === "string" ? part.title : name, hint: typeof part.description === "string" ? part.description : "",
    kind: part.type, choices: [], isOpen: false, isSecret: part.writeOnly === true, isRequired: required.includes(name), most: part.maxLength ?? null,
  };
  const branches = part.anyOf ?? part.oneOf;
  if (Array.isArray(branches)) {
    field.choices = branches.filter((one) => one && "const" in one).map((one) => ({ value: one.const, title: String(one.title ?? one.const) }));
    field.isOpen = branches.some((one) => one && !("const" in one) && (one.type === undefined || one.type === "string"));
    if (!field.kind && field.choices.every((one) => typeof one.value === "string")) field.kind = "string";
  } else if (Array.isArray(part.enum)) {
    field.choices = part.enum.map((value) => ({ value, title: String(value) }));
  } else if ("const" in part) {
    field.choices = [{ value: part.const, title: String(part.title ?? part.const) }];
  } else if (part.type === "boolean") {
    field.choices = [{ value: true, title: "Yes" }, { value: false, title: "No" }];
  } else if (part.type === "string") {
    field.isOpen = true;
  }
  if (!["string", "number", "integer", "boolean"].includes(field.kind) && !field.choices.length) return null;
  return field;
}

// The one field whose choices are buttons of their own, each of which is a whole answer.
export function buttonField(fields) {
  const [field] = fields;
  return fields.length === 1 && field.choices.length > 0 && field.choices.length <= CHOICES_MAX ? field : null;
}

// An answer {"text": …} and nothing else is typed at a terminal, with one Enter (adapter-command/v1).
export function isTyped(fields) {
  return fields.length === 1 && fields[0].name === "text" && fields[0].kind === "string";
}

// What a choice does, in words. `enter`: which key the host says that it adds.
export function effect(value, fields, enter) {
  if (!isTyped(fields)) return `sends ${fields[0].name}: ${JSON.stringify(value)}`;
  const single = enter === "none" || (enter === undefined && fields[0].most === 1);
  if (value === "") return "presses Enter alone";
  return single ? `presses the key “${value}”` : `types “${value}” and Enter`;
}
