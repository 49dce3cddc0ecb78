// A terminal for a command inside a task: what a shell, an editor and top write, and the keys that one types. It knows
// the codes of an xterm that these use; what it does not know it leaves out.

// The colours, as red, green and blue; the style has a class for each.
const colours = [
  [29, 32, 37], [242, 119, 122], [153, 204, 153], [255, 204, 102],
  [121, 176, 255], [214, 160, 221], [102, 204, 204], [216, 218, 222],
  [139, 144, 152], [255, 154, 156], [181, 224, 181], [255, 221, 153],
  [160, 200, 255], [230, 189, 235], [147, 224, 224], [255, 255, 255],
];
const levels = [0, 95, 135, 175, 215, 255];
const lines = { j: "┘", k: "┐", l: "┌", m: "└", n: "┼", q: "─", t: "├", u: "┤", v: "┴", w: "┬", x: "│" };
const plain = Object.freeze({ fore: -1, back: -1, bold: false, underline: false, inverse: false });

// nearest returns the number of the colour that is like this one.
function nearest(wanted) {
  const apart = colours.map(colour => colour.reduce((sum, part, i) => sum + (part - (wanted[i] || 0)) ** 2, 0));
  return apart.indexOf(Math.min(...apart));
}

// colourOf returns the colour that is like one of an xterm's 256.
function colourOf(n) {
  if (n < 16) return n;
  if (n >= 232) return nearest([1, 1, 1].map(() => 8 + 10 * (n - 232)));
  return nearest([36, 6, 1].map(by => levels[Math.floor((n - 16) / by) % 6]));
}

// Screen is what a terminal shows, as a value: it touches no page. Its answers to questions go to answer.
export class Screen {
  constructor(rows, cols, answer = () => {}) {
    Object.assign(this, { rows, cols, answer });
    this.reset();
  }

  reset() {
    Object.assign(this, { x: 0, y: 0, top: 0, bottom: this.rows - 1, style: plain, wraps: true, late: false, drawing: false, cursor: true,
      arrows: "\x1b[", pastes: false, other: null, saved: null, state: this.ground, gone: [], dirty: new Set() });
    this.lines = Array.from({ length: this.rows }, () => this.blank());
    this.touch(0, this.rows);
  }

  blank() { return Array.from({ length: this.cols }, () => [" ", plain]); }
  touch(from, to) { for (let y = from; y < to; y++) this.dirty.add(y); }
  text() { return this.lines.map(line => line.map(([char]) => char).join("").trimEnd()).join("\n"); }
  write(text) { for (const char of text) this.state(char); }

  resize(rows, cols) {
    for (const all of [this.lines, this.other?.lines]) {
      if (!all) continue;
      while (all.length > rows) {
        const last = all === this.lines && this.y < all.length - 1 ? all.pop() : all.shift();
        if (all === this.lines && all.length < this.y + 1) { this.y--; if (!this.other) this.gone.push(last); }
      }
      for (const line of all) while (line.length < cols) line.push([" ", plain]);
      for (const line of all) line.length = cols;
    }
    Object.assign(this, { rows, cols, top: 0, bottom: rows - 1, late: false });
    for (const all of [this.lines, this.other?.lines]) while (all && all.length < rows) all.push(this.blank());
    this.move(this.x, this.y);
    this.touch(0, rows);
  }

  move(x, y) {
    this.dirty.add(this.y);
    this.x = Math.max(0, Math.min(this.cols - 1, x));
    this.y = Math.max(0, Math.min(this.rows - 1, y));
    this.late = false;
    this.dirty.add(this.y);
  }

  // scroll moves the lines of the region up by n, or down if n is negative.
  scroll(n) {
    for (; n > 0; n--) {
      const [line] = this.lines.splice(this.top, 1);
      if (this.top === 0 && !this.other) this.gone.push(line);
      this.lines.splice(this.bottom, 0, this.blank());
    }
    for (; n < 0; n++) {
      this.lines.splice(this.bottom, 1);
      this.lines.splice(this.top, 0, this.blank());
    }
    this.touch(this.top, this.bottom + 1);
  }

  feed() { if (this.y === this.bottom) this.scroll(1); else this.move(this.x, this.y + 1); }

  put(char) {
    if (this.late) { this.x = 0; this.feed(); this.late = false; }
    this.lines[this.y][this.x] = [this.drawing && lines[char] || char, this.style];
    this.dirty.add(this.y);
    if (this.x < this.cols - 1) this.x++; else this.late = this.wraps;
  }

  ground(char) {
    switch (char) {
      case "\x1b": this.state = this.escape; break;
      case "\r": this.move(0, this.y); break;
      case "\n": case "\v": case "\f": this.feed(); break;
      case "\b": this.move(this.x - 1, this.y); break;
      case "\t": this.move(Math.floor(this.x / 8 + 1) * 8, this.y); break;
      default: if (char >= " " && char !== "\x7f") this.put(char);
    }
  }

  escape(char) {
    this.state = this.ground;
    switch (char) {
      case "[": this.parameters = ""; this.state = this.control; break;
      case "]": case "P": case "X": case "^": case "_": this.state = this.string; break;
      case "(": this.state = set => { this.drawing = set === "0"; this.state = this.ground; }; break;
      case ")": case "*": case "+": case "#": case "%": this.state = () => { this.state = this.ground; }; break;
      case "7": this.save(); break;
      case "8": this.restore(); break;
      case "D": this.feed(); break;
      case "E": this.move(0, this.y); this.feed(); break;
      case "M": if (this.y === this.top) this.scroll(-1); else this.move(this.x, this.y - 1); break;
      case "c": this.reset(); break;
    }
  }

  // string leaves out titles and the like, up to BEL or ESC and a backslash.
  string(char) {
    if (char === "\x07") this.state = this.ground;
    else if (char === "\x1b") this.state = () => { this.state = this.ground; };
  }

  save() { this.saved = { x: this.x, y: this.y, style: this.style, drawing: this.drawing }; }
  restore() {
    const { x, y, style, drawing } = this.saved || { x: 0, y: 0, style: plain, drawing: false };
    this.move(x, y);
    Object.assign(this, { style, drawing });
  }

  control(char) {
    if (char === "\x1b") { this.state = this.escape; return; }
    if (char < "@") { if (this.parameters.length < 100) this.parameters += char; return; }
    this.state = this.ground;
    const marked = /^[<=>?]/.exec(this.parameters)?.[0] || "", rest = this.parameters.slice(marked.length);
    if (/[^\d;:]/.test(rest)) return;
    const all = rest.split(/[;:]/).map(Number), n = Math.min(all[0] || 1, 10000), line = this.lines[this.y];
    if (marked) { if (marked === "?" && "hl".includes(char)) for (const mode of all) this.mode(mode, char === "h"); return; }
    switch (char) {
      case "A": this.move(this.x, Math.max(this.y - n, this.y >= this.top ? this.top : 0)); break;
      case "B": case "e": this.move(this.x, Math.min(this.y + n, this.y <= this.bottom ? this.bottom : this.rows)); break;
      case "C": case "a": this.move(this.x + n, this.y); break;
      case "D": this.move(this.x - n, this.y); break;
      case "E": this.move(0, this.y + n); break;
      case "F": this.move(0, this.y - n); break;
      case "G": case "`": this.move(n - 1, this.y); break;
      case "d": this.move(this.x, n - 1); break;
      case "H": case "f": this.move((all[1] || 1) - 1, n - 1); break;
      case "J": this.clear(all[0]); break;
      case "K": this.erase(this.y, all[0] ? 0 : this.x, all[0] === 1 ? this.x + 1 : this.cols); break;
      case "X": this.erase(this.y, this.x, this.x + n); break;
      case "@": line.splice(this.x, 0, ...this.blank().slice(0, n)); line.length = this.cols; break;
      case "P": line.splice(this.x, n); while (line.length < this.cols) line.push([" ", plain]); break;
      case "L": case "M": this.within(char === "L" ? -n : n); break;
      case "S": this.scroll(Math.min(n, this.rows)); break;
      case "T": this.scroll(-Math.min(n, this.rows)); break;
      case "m": this.paint(all); break;
      case "r":
        this.top = Math.min((all[0] || 1), this.rows) - 1;
        this.bottom = Math.min(all[1] || this.rows, this.rows) - 1;
        if (this.bottom <= this.top) Object.assign(this, { top: 0, bottom: this.rows - 1 });
        this.move(0, 0);
        break;
      case "s": this.save(); break;
      case "u": this.restore(); break;
      case "n":
        if (all[0] === 6) this.answer(`\x1b[${this.y + 1};${this.x + 1}R`);
        if (all[0] === 5) this.answer("\x1b[0n");
        break;
      case "c": this.answer("\x1b[?6c"); break;
    }
    this.dirty.add(this.y);
  }

  // within moves the lines from the cursor on.
  within(n) {
    if (this.y < this.top || this.y > this.bottom) return;
    const top = this.top;
    this.top = this.y;
    const gone = this.gone.length;
    this.scroll(Math.sign(n) * Math.min(Math.abs(n), this.rows));
    this.gone.length = gone;
    this.top = top;
  }

  erase(y, from, to) {
    for (let x = from; x < Math.min(to, this.cols); x++) this.lines[y][x] = [" ", this.style.back >= 0 ? { ...plain, back: this.style.back } : plain];
    this.dirty.add(y);
    this.late = false;
  }

  clear(what) {
    if (!what) this.erase(this.y, this.x, this.cols);
    if (what === 1) this.erase(this.y, 0, this.x + 1);
    for (let y = 0; y < this.rows; y++) {
      if (what === 2 || !what && y > this.y || what === 1 && y < this.y) this.erase(y, 0, this.cols);
    }
  }

  mode(mode, on) {
    switch (mode) {
      case 1: this.arrows = on ? "\x1bO" : "\x1b["; break;
      case 7: this.wraps = on; break;
      case 25: this.cursor = on; break;
      case 2004: this.pastes = on; break;
      case 47: case 1047: case 1049:
        if (on === !!this.other) break;
        if (on) {
          this.save();
          this.other = { lines: this.lines, saved: this.saved };
          this.lines = Array.from({ length: this.rows }, () => this.blank());
        } else {
          ({ lines: this.lines, saved: this.saved } = this.other);
          this.other = null;
          this.restore();
        }
        this.touch(0, this.rows);
    }
  }

  paint(all) {
    for (let i = 0; i < all.length; i++) {
      const n = all[i], base = n % 10, to = change => { this.style = Object.freeze({ ...this.style, ...change }); };
      if (n === 0) this.style = plain;
      else if (n === 1) to({ bold: true });
      else if (n === 4) to({ underline: true });
      else if (n === 7) to({ inverse: true });
      else if (n === 22) to({ bold: false });
      else if (n === 24) to({ underline: false });
      else if (n === 27) to({ inverse: false });
      else if (n === 38 || n === 48) {
        const colour = all[i + 1] === 5 ? colourOf(Math.min(all[i + 2] || 0, 255)) : nearest(all.slice(i + 2, i + 5));
        i += all[i + 1] === 5 ? 2 : 4;
        to(n === 38 ? { fore: colour } : { back: colour });
      } else if (n >= 30 && n < 40) to({ fore: base === 9 ? -1 : base });
      else if (n >= 40 && n < 50) to({ back: base === 9 ? -1 : base });
      else if (n >= 90 && n < 98) to({ fore: 8 + base });
      else if (n >= 100 && n < 108) to({ back: 8 + base });
    }
  }
}

// --- on the page ---

const goneMax = 1000; // lines that have left the screen and can be scrolled back to

const keys = { Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", PageUp: "\x1b[5~", PageDown: "\x1b[6~", Insert: "\x1b[2~", Delete: "\x1b[3~",
  F1: "\x1bOP", F2: "\x1bOQ", F3: "\x1bOR", F4: "\x1bOS", F5: "\x1b[15~", F6: "\x1b[17~", F7: "\x1b[18~", F8: "\x1b[19~", F9: "\x1b[20~", F10: "\x1b[21~" };
const arrows = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };

// codeOf returns what a key sends; undefined: the browser does with it what it likes.
function codeOf(event, screen) {
  const { key } = event;
  if (event.metaKey || event.isComposing || key === "Tab" && event.shiftKey) return undefined;
  if (event.ctrlKey && !event.altKey) {
    if (event.shiftKey || key === "v" || key === "c" && !getSelection().isCollapsed) return undefined; // copy and paste
    if (key === " ") return "\0";
    return /^[a-z@[\\\]^_]$/.test(key) ? String.fromCharCode(key.toUpperCase().charCodeAt(0) & 31) : undefined;
  }
  const code = keys[key] || arrows[key] && screen.arrows + arrows[key];
  if (event.altKey) return code || key.length === 1 ? "\x1b" + (code || key) : undefined;
  return code;
}

// open begins the command of a pane and shows it until it ends.
export async function open(pane) {
  const shown = pane.querySelector("pre"), typed = pane.querySelector("textarea"), rows = [];
  const screen = new Screen(...size(shown), send);
  let queue = "", resized = false, sending = false, begun = false, over = false, drawn = false;

  async function flush() {
    if (sending) return;
    for (sending = true; (queue || resized) && !over;) {
      const part = queue.slice(0, 8000), query = resized ? `?rows=${screen.rows}&cols=${screen.cols}` : "";
      [queue, resized] = [queue.slice(part.length), false];
      try {
        if ((await fetch(pane.dataset.session + "/keys" + query, { method: "POST", body: part })).status === 404) over = true;
      } catch { over = true; }
    }
    sending = false;
  }

  function send(text) { queue += text; if (begun) flush(); }

  function draw() {
    drawn = false;
    const below = shown.scrollTop + shown.clientHeight >= shown.scrollHeight - 20;
    for (const line of screen.gone.splice(0)) {
      const past = document.createElement("div");
      fill(past, line, -1);
      shown.insertBefore(past, rows[0] || null);
    }
    while (rows.length < screen.rows) rows.push(shown.appendChild(document.createElement("div")));
    while (rows.length > screen.rows) rows.pop().remove();
    for (const y of screen.dirty) if (rows[y]) fill(rows[y], screen.lines[y], screen.cursor && !over && y === screen.y ? screen.x : -1);
    screen.dirty.clear();
    while (shown.children.length > rows.length + goneMax) shown.firstChild.remove();
    if (below) shown.scrollTop = shown.scrollHeight;
  }

  function write(text) {
    screen.write(text);
    if (!drawn) requestAnimationFrame(draw);
    drawn = true;
  }

  let entered = false; // by a key that is still down: some report it once more, as a text
  typed.addEventListener("keyup", () => { entered = false; });
  typed.addEventListener("keydown", event => {
    const code = codeOf(event, screen);
    entered = event.key === "Enter" && code !== undefined;
    if (code === undefined) return;
    event.preventDefault();
    send(code);
  });
  typed.addEventListener("input", event => {
    if (event.isComposing) return;
    const text = typed.value.replaceAll("\n", "\r");
    typed.value = "";
    if (entered && text === "\r") return;
    send(screen.pastes && event.inputType === "insertFromPaste" ? `\x1b[200~${text}\x1b[201~` : text);
  });
  typed.addEventListener("compositionend", () => { send(typed.value); typed.value = ""; });
  shown.addEventListener("click", () => { if (getSelection().isCollapsed) typed.focus({ preventScroll: true }); });
  new ResizeObserver(() => {
    const [high, wide] = size(shown);
    if (high === screen.rows && wide === screen.cols) return;
    screen.resize(high, wide);
    resized = true;
    write("");
    if (begun) flush();
  }).observe(shown);
  typed.focus({ preventScroll: true });
  try {
    const answer = await fetch(`${pane.dataset.session}?rows=${screen.rows}&cols=${screen.cols}`, { method: "POST" }), decoder = new TextDecoder();
    begun = answer.ok;
    flush();
    for (const reader = answer.body.getReader(); ;) {
      const { done, value } = await reader.read();
      if (done) break;
      write(decoder.decode(value, { stream: true }));
    }
  } catch {
    write("\r\n[the connection has ended, and the command with it]\r\n");
  }
  over = true;
  typed.disabled = true;
  write("");
}

// size returns how many rows and columns there is room for.
function size(shown) {
  const probe = document.createElement("div");
  probe.className = "probe";
  probe.textContent = "m".repeat(20);
  shown.append(probe);
  const { width, height } = probe.getBoundingClientRect(), style = getComputedStyle(shown);
  probe.remove();
  const wide = shown.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const high = shown.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
  return [high / height, wide / width * 20].map(n => Math.max(2, Math.min(500, Math.floor(n) || 2)));
}

// fill writes a line: what looks alike is one element. At the place of the cursor is another one.
function fill(row, line, cursor) {
  row.replaceChildren();
  for (let x = 0; x < line.length;) {
    const [, style] = line[x];
    let to = x + 1;
    while (x !== cursor && to < line.length && to !== cursor && line[to][1] === style) to++;
    const part = document.createElement("span");
    part.textContent = line.slice(x, to).map(([char]) => char).join("");
    if (x === cursor) part.className = "cursor";
    if (style.inverse) part.classList.add("inverse");
    if (style.bold) part.classList.add("bold");
    if (style.underline) part.classList.add("underline");
    if (style.fore >= 0) part.classList.add("fore" + style.fore);
    if (style.back >= 0) part.classList.add("back" + style.back);
    row.append(part);
    x = to;
  }
}
