// How does the page hear of every change at once, also after the cockpit was gone?

// `told` gets each event; `linked(isOn)` whether the line stands; `lost()` is asked when it could not be had again.
export function listen(after, told, linked, lost) {
  let source = null;
  let last = after;
  let timer = null;
  open();
  return () => {
    clearTimeout(timer);
    source?.close();
  };

  function open() {
    source = new EventSource(`/api/news?after=${last}`);
    source.addEventListener("hello", (event) => {
      linked(true);
      told("hello", JSON.parse(event.data));
    });
    source.addEventListener("change", (event) => {
      last = Number(event.lastEventId);
      told("change", JSON.parse(event.data));
    });
    source.onerror = async () => {
      linked(false);
      source.close(); // the browser's own way to try again does not ask why
      if (await lost()) timer = setTimeout(open, 1000);
    };
  }
}
