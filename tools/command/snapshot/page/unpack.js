// SPDX-License-Identifier: MIT
// Reads the data of the page (tools/command/snapshot/packed.hpp). The events become columns of
// numbers.
const ACTIONS = ["alloc", "free", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom"];
const MEMORIES = ["device", "pinned", "other"];
const [ALLOC, FREE, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP, OOM] = ACTIONS.keys();

function bytesOfBase64(text) {
  const values = new Uint8Array(128);
  [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].forEach((c, i) => {
    values[c.charCodeAt(0)] = i;
  });
  const end = text.indexOf("="), length = end < 0 ? text.length : end;
  const out = new Uint8Array(Math.floor(length * 3 / 4));
  for (let i = 0, at = 0; at < out.length; i += 4) {
    const four = values[text.charCodeAt(i)] << 18 | values[text.charCodeAt(i + 1)] << 12 |
        values[text.charCodeAt(i + 2) & 127] << 6 | values[text.charCodeAt(i + 3) & 127];
    out[at++] = four >> 16;
    out[at++] = four >> 8;
    out[at++] = four;
  }
  return out;
}

async function inflate(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function columns(length) {
  return {
    length,
    time: new Float64Array(length),
    action: new Uint8Array(length),
    device: new Uint16Array(length),
    memory: new Uint8Array(length),
    address: new Float64Array(length),
    addressId: new Int32Array(length),
    addresses: 0,
    bytes: new Float64Array(length),
    stream: new Float64Array(length),
    stack: new Int32Array(length),
    freedBy: new Int32Array(length).fill(-1)
  };
}

// Numbers of seven bits a byte, the lowest first. They may be larger than 32 bits.
class Numbers {
  constructor(from, at) {
    this.from = from;
    this.at = at;
  }
  next() {
    let byte = this.from[this.at++], value = byte & 127;
    for (let scale = 128; byte > 127; scale *= 128) {
      byte = this.from[this.at++];
      value += (byte & 127) * scale;
    }
    return value;
  }
  rising() {
    const out = new Float64Array(this.next());
    for (let i = 0, last = 0; i < out.length; ++i) out[i] = last += this.next();
    return out;
  }
}

function unpackEvents(from, at) {
  const numbers = new Numbers(from, at), out = columns(numbers.next());
  const lists = [numbers.rising(), numbers.rising(), numbers.rising()];
  for (let i = 0, last = 0; i < out.length; ++i) {
    const step = numbers.next();
    out.time[i] = last += step % 2 ? -(step + 1) / 2 : step / 2;
  }
  for (const column of [out.action, out.device, out.memory])
    for (let i = 0; i < out.length; ++i) column[i] = numbers.next();
  out.addresses = lists[0].length;
  for (let i = 0; i < out.length; ++i) out.address[i] = lists[0][out.addressId[i] = numbers.next()];
  // A free's size, stream and stack are mostly those of its allocation, which is written as 0.
  const allocated = new Int32Array(out.length), latest = new Int32Array(out.addresses);
  for (let i = 0; i < out.length; ++i) {
    if (out.action[i] === ALLOC)
      latest[out.addressId[i]] = i;
    else
      allocated[i] = latest[out.addressId[i]];
  }
  const beside = (column, value) => {
    for (let i = 0; i < out.length; ++i) {
      const number = numbers.next();
      column[i] = number ? value(number) : column[allocated[i]];
    }
  };
  beside(out.bytes, number => lists[1][number - 1]);
  beside(out.stream, number => lists[2][number - 1]);
  beside(out.stack, number => number - 2);
  for (let i = 0; i < out.length; ++i) out.freedBy[i] = numbers.next() - 1;
  return out;
}

// {name, data, events} of an element of the page.
async function readFile(element) {
  const name = new TextDecoder().decode(bytesOfBase64(element.dataset.name || ""));
  const plain = await inflate(bytesOfBase64(element.textContent)), end = plain.indexOf(10);
  element.textContent = "";  // it is read once
  return {
    name,
    data: JSON.parse(new TextDecoder().decode(plain.subarray(0, end))),
    events: unpackEvents(plain, end + 1)
  };
}
