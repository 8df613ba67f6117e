// What time is it for the cockpit, and how long is left? Only the cockpit decides that a question has expired.

let ahead = 0; // of the browser's clock, in ms

export function heard(now) {
  const said = Date.parse(now);
  if (!Number.isNaN(said)) ahead = said - Date.now();
}

export function leftMs(time) {
  return Date.parse(time) - (Date.now() + ahead);
}

export function left(time) {
  const s = Math.floor(leftMs(time) / 1000);
  if (s < 0) return "closing…";
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} days`;
}

export function at(time) {
  return new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

export function on(time) {
  const day = new Date(time);
  const today = new Date(Date.now() + ahead);
  return day.toDateString() === today.toDateString() ? at(time) : `${day.toLocaleDateString()} ${at(time)}`;
}

// What a screen reader hears of a countdown: three times, and no more.
const SPOKEN = [[300, "5 minutes"], [60, "1 minute"], [10, "10 seconds"]];

export function spoken(beforeMs, nowMs) {
  const passed = SPOKEN.filter(([s]) => beforeMs > s * 1000 && nowMs <= s * 1000 && nowMs > 0);
  return passed.length ? passed[passed.length - 1][1] : null;
}
