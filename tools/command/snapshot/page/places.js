// SPDX-License-Identifier: MIT
// Call sites as text: the frames of a stack, a short label, and what a search finds in them.
const fileName = path => path.slice(path.lastIndexOf("/") + 1);
const placeIn = frame => (frame.module ? fileName(frame.module) + "+" : "") + hexadecimal(frame.offset);
const isPython = frame => frame.file && !frame.module;

function frameText(frame) {
  if (frame.file) return `${frame.name} (${frame.file}:${frame.line})`;
  return frame.name ? `${frame.name} (${placeIn(frame)})` : placeIn(frame);
}
const shortText = frame =>
    frame.file ? `${frame.name} ${fileName(frame.file)}:${frame.line}` : frame.name || placeIn(frame);

// The frames that say most to whoever wrote the program are none of the libraries between it and CUDA, nor what
// starts it.
function isLibrary(frame) {
  return /site-packages|dist-packages|<frozen|lib\/python3/.test(frame.file) ||
      /^(lib(torch|c10|cudart|cuda|custash|cublas|cudnn|nccl|python|c\.so|stdc)|ld-linux)/.test(
          fileName(frame.module)) ||
      /^(_start|<(listcomp|dictcomp|setcomp|genexpr|lambda)>)$/.test(frame.name);
}

class Places {
  constructor(data) {
    this.frames = data.frames;
    this.stacks = data.stacks;
    this.labels = new Map();
    this.found = new Map();
    this.placesOf = new Map();  // of each function without a line
    for (const frame of data.frames)
      if (!frame.file)
        this.placesOf.set(frame.name, (this.placesOf.get(frame.name) || new Set()).add(placeIn(frame)));
  }

  // Functions with the same name are told apart.
  name(frame) {
    return !frame.file && this.placesOf.get(frame.name)?.size > 1 ? frameText(frame) : shortText(frame);
  }

  framesOf(stack) { return stack < 0 ? [] : this.stacks[stack].map(i => this.frames[i]); }

  label(stack) {
    if (stack < 0) return "before history was on";
    if (!this.labels.has(stack)) this.labels.set(stack, this.describe(this.framesOf(stack)));
    return this.labels.get(stack);
  }

  describe(frames) {
    const python = frames.some(isPython);
    const telling = frames.filter(f => !isLibrary(f) && (isPython(f) || !python));
    // Nothing of the program's own: then the operator of PyTorch, or the innermost frame.
    const operator = frames.find(f => /^at::_ops::\w+::/.test(f.name));
    const best = telling.length ? telling.slice(0, 2) :
        operator                ? [] :
                                  frames.filter(f => !/^(_start|__libc_start)/.test(f.name)).slice(0, 1);
    if (operator) best.unshift({name: operator.name.match(/^at::_ops::(\w+)/)[1], file: "", module: ""});
    return best.map(frame => this.name(frame)).join("  ‹  ") || "unknown";
  }

  // The same in two files where the call site is the same: as `custash diff` compares them.
  key(stack) { return stack < 0 ? "" : this.framesOf(stack).map(frameText).join("\n"); }

  whole(stack) { return this.framesOf(stack).map(frameText).join("\n") || this.label(stack); }

  node(stack) {
    if (this.framesOf(stack).length === 0) return make("span", {}, this.label(stack));
    return make("details", {}, make("summary", {}, this.label(stack)), make("pre", {}, this.whole(stack)));
  }

  matches(stack, search) {
    if (!search) return true;
    if (this.search !== search) {
      this.search = search;
      this.found.clear();
    }
    if (!this.found.has(stack)) this.found.set(stack, search(this.whole(stack)));
    return this.found.get(stack);
  }
}

// A function that says whether a text has the words; /…/ is a regular expression, and throws if it is none. Null
// for no words.
function searchFor(words) {
  const expression = words.match(/^\/(.+)\/$/);
  if (expression) {
    const found = new RegExp(expression[1], "i");
    return text => found.test(text);
  }
  const low = words.trim().toLowerCase();
  return low ? text => text.toLowerCase().includes(low) : null;
}
