// SPDX-License-Identifier: MIT
// One device's memory over time, out of its events: which block lived from which event to which, and sums over any
// stretch of events. Events are counted from 0. "After n events" is a moment; a block lives there if begin < n <=
// end.
const GROWS = {
  [SEGMENT_ALLOC]: 1,
  [SEGMENT_MAP]: 1,
  [SEGMENT_FREE]: -1,
  [SEGMENT_UNMAP]: -1
};

class History {
  constructor(events, device) {
    this.device = device;
    const mine = [];
    for (let i = 0; i < events.length; ++i)
      if (events.device[i] === device.device && events.memory[i] === 0) mine.push(i);
    this.length = mine.length;
    for (const name of ["time", "action", "address", "addressId", "bytes", "stream", "stack", "freedBy"])
      this[name] =
          mine.length === events.length ? events[name] : events[name].constructor.from(mine, i => events[name][i]);
    this.findBlocks(events.addresses);
    this.heldAtStart = device.stats["reserved_bytes.all.current"];
    for (let i = 0; i < this.length; ++i) this.heldAtStart -= (GROWS[this.action[i]] || 0) * this.bytes[i];
    this.usedAtStart = 0;
    for (let b = 0; b < this.blocks && this.begin[b] < 0; ++b) this.usedAtStart += this.size[b];
  }

  // Blocks that were there before the first event come first. Their end is the event that freed them, or `length`.
  findBlocks(addresses) {
    const alive = new Int32Array(addresses).fill(-1), early = [], begins = [], ends = [];
    const blockOf = this.blockOf = new Int32Array(this.length).fill(-1);
    for (let i = 0; i < this.length; ++i) {
      const address = this.addressId[i], block = alive[address];
      if (this.action[i] === ALLOC) {
        if (block >= 0) ends[block] = i;  // the event of its free is lost
        alive[address] = begins.length;
        blockOf[i] = begins.length;
        begins.push(i);
        ends.push(this.length);
      } else if (this.action[i] === FREE) {
        if (block < 0) {
          early.push({
            address: this.address[i],
            size: this.bytes[i],
            stack: this.stack[i],
            stream: this.stream[i],
            end: i
          });
        } else {
          ends[block] = i;
          blockOf[i] = block;
          alive[address] = -1;
        }
      }
    }
    const known = new Set([...alive].filter(block => block >= 0).map(block => this.address[begins[block]]));
    for (const segment of this.device.segments)
      for (const [address, , size, state, stack] of segment.blocks) {
        if (state === "used" && !known.has(address))
          early.push({address, size, stack, stream: segment.stream, end: this.length});
      }
    const first = early.length;
    this.blocks = first + begins.length;
    this.begin = new Int32Array(this.blocks).fill(-1);
    this.begin.set(begins, first);
    this.end = new Int32Array(this.blocks);
    this.end.set(early.map(each => each.end));
    this.end.set(ends, first);
    for (let i = 0; i < this.length; ++i)
      if (blockOf[i] >= 0) blockOf[i] += first;
    early.forEach((each, b) => {
      if (each.end < this.length) blockOf[each.end] = b;
    });
    const column = (name, values, Kind) => {
      const out = new Kind(this.blocks);
      early.forEach((each, b) => {
        out[b] = each[name];
      });
      for (let b = first; b < this.blocks; ++b) out[b] = values[this.begin[b]];
      return out;
    };
    this.at = column("address", this.address, Float64Array);
    this.size = column("size", this.bytes, Float64Array);
    this.site = column("stack", this.stack, Int32Array);
    this.on = column("stream", this.stream, Float64Array);
  }

  livesAt(block, moment) { return this.begin[block] < moment && this.end[block] >= moment; }

  // The time of a moment: of the last event before it.
  timeAt(moment) { return this.time[Math.max(0, Math.min(moment - 1, this.length - 1))]; }

  lifetime(block) {
    const begin = this.begin[block], end = this.end[block];
    return begin < 0 || end === this.length ? Infinity : this.time[end] - this.time[begin];
  }

  usedAt(moment) {
    let sum = 0;
    for (let b = 0; b < this.blocks; ++b)
      if (this.livesAt(b, moment)) sum += this.size[b];
    return sum;
  }

  heldAt(moment) {
    let held = this.heldAtStart;
    for (let i = 0; i < moment; ++i) held += (GROWS[this.action[i]] || 0) * this.bytes[i];
    return held;
  }

  // What changes at each event of a stretch: `visit(event, stack, bytes)`, negative where memory is freed.
  // Segments: stack is null.
  walk(from, to, visit) {
    for (let i = from; i < to; ++i) {
      const block = this.blockOf[i];
      if (block >= 0)
        visit(i, this.site[block], this.action[i] === ALLOC ? this.size[block] : -this.size[block]);
      else if (GROWS[this.action[i]])
        visit(i, null, GROWS[this.action[i]] * this.bytes[i]);
    }
  }

  // Bytes by stack at a moment.
  sitesAt(moment) {
    const out = new Map();
    for (let b = 0; b < this.blocks; ++b)
      if (this.livesAt(b, moment)) out.set(this.site[b], (out.get(this.site[b]) || 0) + this.size[b]);
    return out;
  }

  // The moment of a stretch at which the most was in use.
  peakOf(from, to) {
    let used = this.usedAt(from), most = used, moment = from;
    this.walk(from, to, (i, stack, change) => {
      if (stack === null) return;
      used += change;
      if (used > most) [most, moment] = [used, i + 1];
    });
    return {moment, bytes: most};
  }

  // By stack: calls and bytes allocated in a stretch, what lives at its end, at its peak, and each stack's own
  // peak.
  sum(from, to) {
    const rows = new Map(), peak = this.peakOf(from, to);
    const row = stack => {
      if (!rows.has(stack))
        rows.set(stack, {
          stack,
          calls: 0,
          allocated: 0,
          freed: 0,
          now: 0,
          blocks: 0,
          fresh: 0,
          freshBlocks: 0,
          own: 0,
          atPeak: 0,
          level: 0
        });
      return rows.get(stack);
    };
    for (const [stack, size] of this.sitesAt(from)) row(stack).level = row(stack).own = size;
    this.walk(from, to, (i, stack, change) => {
      if (stack === null) return;
      const its = row(stack);
      its.level += change;
      if (its.level > its.own) its.own = its.level;
      if (change > 0 || this.action[i] === ALLOC) {
        its.calls += 1;
        its.allocated += change;
      } else
        its.freed += 1;
    });
    for (const [stack, size] of this.sitesAt(peak.moment)) row(stack).atPeak = size;
    for (let b = 0; b < this.blocks; ++b)
      if (this.livesAt(b, to)) {
        const its = row(this.site[b]);
        its.now += this.size[b];
        its.blocks += 1;
        if (this.begin[b] >= from) {
          its.fresh += this.size[b];
          its.freshBlocks += 1;
        }
      }
    return {rows: [...rows.values()], peak};
  }
}
