// What a page cannot do without a script: it stays as the cluster is, says how long ago things were, copies commands,
// follows outputs, shows terminals, and listens to keys. Everything else works without it.

// --- patches: the server sends blocks that have changed, and only what differs in them is touched ---

const keyOf = node => node.nodeType === 1 ? node.dataset.row || node.dataset.block || node.id : "";

// morph makes the children of one element like those of another. A child with a key stays the same element wherever it
// goes; so focus, scroll positions and what was typed stay.
function morph(from, to) {
  const known = new Map();
  for (const child of from.childNodes) if (keyOf(child)) known.set(keyOf(child), child);
  let at = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    let match = keyOf(wanted) ? known.get(keyOf(wanted)) : null;
    if (!match && at && !keyOf(wanted) && !keyOf(at) && at.nodeName === wanted.nodeName) match = at;
    if (match && match.nodeName === wanted.nodeName) {
      if (match !== at) from.insertBefore(match, at);
      else at = at.nextSibling;
      become(match, wanted);
    } else {
      from.insertBefore(wanted, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function become(node, wanted) {
  if (node.nodeType !== 1) {
    if (node.nodeValue !== wanted.nodeValue) node.nodeValue = wanted.nodeValue;
    return;
  }
  if (node.nodeName === "TIME" && node.dateTime === wanted.dateTime) return;
  if (node.dataset.follow || node.dataset.ours) return; // the script's own
  if (node === document.activeElement && node.matches("input, select, textarea")) return; // somebody is filling it in
  for (const { name } of [...node.attributes]) if (!wanted.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of wanted.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  morph(node, wanted);
}

function patch(blocks) {
  for (const [key, text] of Object.entries(blocks)) {
    const block = document.querySelector(`[data-block="${CSS.escape(key)}"]`);
    if (!block) { show(location); return; } // the view has other blocks now
    const wanted = document.createElement("template");
    wanted.innerHTML = text; // our own server's, which has escaped every name
    dress(wanted.content);
    morph(block, wanted.content);
  }
  tick();
  followAll();
}

let source = null; // of patches
let asked = 0; // counts the views that were asked for: only the newest counts
let asking = false;
let heard = Date.now(); // when the server was heard last: what is shown is as old as that
let tried = 0; // when it was asked for patches last

// The server sends something every few seconds. Where a connection has died while nobody looked, as of a computer that
// slept, silence is the only sign of it. A view may take long, and so may a server that is busy.
const silenceMax = 15_000, answerMax = 30_000;

function say(text, fine = true) {
  const live = document.getElementById("live");
  if (!live || live.textContent === text) return;
  live.textContent = text;
  live.className = fine ? "soft" : "warn";
}

function isLive() { heard = Date.now(); say("live"); }

function isNotLive() { say(`not live: as it was at ${new Date(heard).toLocaleTimeString()}; asking again`, false); }

// hearken asks anew where nothing was heard for long.
function hearken() {
  if (!source || Date.now() - Math.max(heard, tried) < silenceMax) return;
  isNotLive();
  stop();
  listen();
}

// show brings the page to an address without leaving it, after a wait in which another address may be asked for instead.
// Until the answer is there, all stays as it is.
async function show(url, wait = 0) {
  const mine = ++asked, to = new URL(url);
  stop();
  asking = true;
  await new Promise(resume => setTimeout(resume, wait));
  if (mine !== asked) return;
  let answer, then;
  try {
    answer = await fetch(to, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(answerMax) });
    then = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch { /* nobody answers */ }
  if (mine !== asked) return;
  if (!then || answer.status >= 500 || answer.status === 429) {
    isNotLive();
    show(to, 2000);
    return;
  }
  asking = false;
  heard = Date.now();
  dress(then);
  become(document.body, then.body);
  document.title = then.title;
  history.replaceState(null, "", answer.url);
  say(to.searchParams.has("at") ? "as it was" : "");
  tick();
  followAll();
  listen();
}

function listen() {
  if (source || asking || document.hidden || !document.body.dataset.events) return;
  tried = Date.now();
  if (tried - heard > silenceMax) isNotLive();
  source = new EventSource(document.body.dataset.events);
  source.addEventListener("same", isLive);
  source.addEventListener("patch", event => { isLive(); patch(JSON.parse(event.data)); });
  source.addEventListener("gone", () => show(location));
  source.addEventListener("error", () => {
    isNotLive();
    if (source?.readyState === EventSource.CLOSED) show(location, 2000);
  });
}

function stop() { source?.close(); source = null; }

// A tab that nobody sees costs nothing.
document.addEventListener("visibilitychange", () => document.hidden ? stop() : listen());
addEventListener("pagehide", stop);
addEventListener("pageshow", listen);

// --- the past: drag to a moment, and the view is as it was ---

function seek(range) {
  const url = new URL(location);
  if (+range.value >= +range.max) url.searchParams.delete("at");
  else url.searchParams.set("at", range.value);
  show(url, 120); // it may be dragged on
}

addEventListener("input", event => {
  if (event.target.id === "at") seek(event.target);
  if (event.target.name !== "back") return;
  const url = new URL(location);
  url.searchParams.set("back", event.target.value);
  show(url);
});

// Whoever follows a link in the past stays there.
addEventListener("click", event => {
  const link = event.target.closest?.("a[href]"), at = new URLSearchParams(location.search).get("at");
  if (!link || !at || link.origin !== location.origin || link.closest("footer") || link.pathname.startsWith("/do/")) return;
  const url = new URL(link.href);
  if (!url.searchParams.has("at")) url.searchParams.set("at", at);
  link.href = url;
}, true);

// --- times ---

const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "always" });

function tick() {
  for (const time of document.querySelectorAll("time")) {
    const seconds = (new Date(time.dateTime) - Date.now()) / 1000;
    const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) || units.at(-1);
    const text = relative.format(Math.round(seconds / size), unit);
    if (time.textContent !== text) time.textContent = text;
  }
}

// --- commands ---

function dress(root) {
  for (const line of root.querySelectorAll(".command")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy the command " + line.querySelector("code").textContent);
    line.append(button);
  }
}

document.addEventListener("click", async event => {
  const button = event.target.closest(".command button");
  if (!button) return;
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch { // no right to: select it, so that one key copies it
    getSelection().selectAllChildren(code);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// --- outputs ---

const outputCharsMax = 500_000;

const followed = new WeakSet();

function followAll() {
  for (const pane of document.querySelectorAll("[data-follow]")) {
    if (!followed.has(pane)) follow(pane);
    followed.add(pane);
  }
}

async function follow(pane) {
  for (let offset = 0, wait = 500; pane.isConnected; wait = Math.min(wait * 2, 10_000)) {
    while (document.hidden) await new Promise(resume => document.addEventListener("visibilitychange", resume, { once: true }));
    const seen = new AbortController();
    document.addEventListener("visibilitychange", () => seen.abort(), { once: true, signal: seen.signal });
    try {
      const answer = await fetch(pane.dataset.follow + "?offset=" + offset, { signal: seen.signal });
      if (!answer.ok) {
        if (offset === 0) pane.textContent = await answer.text();
      } else {
        const decoder = new TextDecoder();
        if (offset === 0) pane.textContent = "";
        for (const reader = answer.body.getReader(); ;) {
          const { done, value } = await reader.read();
          if (done) return; // the task has ended, and this was all
          offset += value.length;
          wait = 500;
          const below = pane.scrollTop + pane.clientHeight >= pane.scrollHeight - 30;
          pane.append(decoder.decode(value, { stream: true }));
          if (pane.textContent.length > outputCharsMax) pane.textContent = pane.textContent.slice(-outputCharsMax / 2);
          if (below) pane.scrollTop = pane.scrollHeight;
        }
      }
    } catch { /* the connection broke, or nobody looked: go on where it was */ }
    seen.abort();
    await new Promise(resume => setTimeout(resume, wait));
  }
}

// --- pictures of very many agents: one shape for each colour, so the agent is found by its place ---

function agentAt(event) {
  const picture = event.target.closest?.("svg[data-agents]");
  if (!picture) return null;
  const { columns, step, agents } = picture.dataset, from = picture.getScreenCTM();
  const x = Math.floor((event.clientX - from.e) / from.a / step), y = Math.floor((event.clientY - from.f) / from.d / step);
  return { picture, id: x < columns ? agents.split("\n")[y * columns + x] : undefined };
}

addEventListener("pointermove", event => {
  const at = agentAt(event);
  if (!at) return;
  at.picture.querySelector("title").textContent = at.id || "";
});

addEventListener("click", event => {
  const id = agentAt(event)?.id;
  if (id) location.href = "/agents/" + encodeURIComponent(id);
});

// --- colours: as the system has them, or as this browser was told ---

const themes = ["", "light", "dark"], theme = document.getElementById("theme");

function paint(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  if (theme) { theme.hidden = false; theme.textContent = "Colours: " + (name || "system"); }
}

let chosen = "";
try { chosen = localStorage.getItem("theme") || ""; } catch { /* it may keep nothing */ }
paint(chosen);
theme?.addEventListener("click", () => {
  chosen = themes[(themes.indexOf(chosen) + 1) % themes.length];
  try { localStorage.setItem("theme", chosen); } catch { /* then for this page only */ }
  paint(chosen);
});

// --- keys ---

let going = false;
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, [contenteditable]")) return;
  if (going) {
    going = false;
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) { event.preventDefault(); link.click(); }
  } else if (event.key === "g") {
    going = true;
  } else if (event.key === "/") {
    event.preventDefault();
    document.getElementById("search")?.focus();
  } else if (event.key === "?") {
    document.querySelector('nav a[data-key="h"]')?.click();
  }
});

dress(document);
tick();
setInterval(() => { tick(); hearken(); }, 1000);
followAll();
for (const pane of document.querySelectorAll("[data-session]")) import("/terminal.js").then(terminal => terminal.open(pane));
// What has come with the page is painted first: with the first patch may come a picture that takes long to lay out.
requestAnimationFrame(() => setTimeout(listen));
const rail = document.getElementById("at");
if (rail && rail.value !== rail.defaultValue) seek(rail); // it was dragged before this script was there
