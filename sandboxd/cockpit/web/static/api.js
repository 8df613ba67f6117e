// How does the page ask the cockpit?

export class Refused extends Error {
  constructor(status, error) {
    super([error.what, error.why].filter(Boolean).join(": "));
    this.status = status;
    this.error = error;
  }
}

export async function ask(method, path, body) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      credentials: "same-origin",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refused(0, { what: "cannot reach the cockpit", why: "it does not answer", do: "wait; the page tries again" });
  }
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, value.error ?? { what: `the cockpit answered ${answer.status}` });
  return value;
}

// A busy cockpit may have no time to check an answer, and says so: the same once more is then the same.
export async function askAgain(method, path, body) {
  for (let wait = 150; ; wait *= 2) {
    try {
      return await ask(method, path, body);
    } catch (refused) {
      if (refused.status !== 503 || wait > 3000) throw refused;
      await new Promise((go) => setTimeout(go, wait));
    }
  }
}
